"""``inv report`` and ``inv results --history``, as a user types them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.results.records.store import Store
from tests.e2e.project import ProjectFolder
from tests.results import made

DAY = 86_400.0


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    """Twelve good launches, then four without the variables, and one of another host."""
    folder = ProjectFolder(tmp_path / "project")
    store = Store(folder.root / "results")
    for day in range(16):
        record = made.good() if day < 12 else made.bad()
        again = made.record(
            record.samples[0],
            of=made.subject(profile="nccl-tuned"),
            run_id=f"run-{day:02}",
            started_at=1767268800 + day * DAY,
            fingerprint=record.fingerprint.to_json(),
        )
        store.save(again)
    other = made.record([50.0] * 3, run_id="other", started_at=1767268800.0, of=made.subject(host="node175"))
    store.save(other)
    return folder


def test_report_writes_a_page_into_the_results(project: ProjectFolder) -> None:
    ended = project.inv("report")
    assert ended.code == 0, ended.text
    assert "results/report.html: 17 runs in " in ended.out
    page = (project.root / "results" / "report.html").read_text()
    assert "Step of nccl-tuned: 90.6 → 62.9 tok/s (−30.6 %)" in page
    assert "6 tuning variables are gone" in page
    again = project.inv("report", "--host", "node175", "--json", "--output", "here/one.html")
    assert again.code == 0, again.text
    assert again.json["report"]["runs"] == 1
    assert "Only host node175." in Path(again.json["report"]["file"]).read_text()
    assert (project.root / "here" / "one.html").is_file()


def test_report_replaces_nothing_but_a_report(project: ProjectFolder) -> None:
    project.write("notes.txt", "mine")
    ended = project.inv("report", "--output", "notes.txt")
    assert ended.code == 2
    assert "is there already and is no report" in ended.err
    assert (project.root / "notes.txt").read_text() == "mine"
    assert project.inv("report", "--output", "results").code == 2


def test_report_says_what_it_has_no_run_of(project: ProjectFolder) -> None:
    ended = project.inv("report", "--host", "node17")
    assert ended.code == 2
    assert "no run is of host 'node17'" in ended.err
    assert project.inv("report", "--since", "1h").code == 2
    assert not (project.root / "results" / "report.html").exists()


def test_history_tells_the_step_and_what_changed_there(project: ProjectFolder) -> None:
    ended = project.inv("results", "--history")
    assert ended.code == 0, ended.text
    assert "████" in ended.out
    assert "−30.6 % 2026-01-13" in ended.out
    assert "between run-11 and run-12" in ended.out
    assert "changed there: 6 tuning variables are gone" in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80


def test_history_as_json_has_every_point_and_step(project: ProjectFolder) -> None:
    ended = project.inv("results", "--history", "--host", "node174", "--json")
    (series,) = ended.json["history"]
    assert [point["run_id"] for point in series["points"]] == [f"run-{day:02}" for day in range(16)]
    (step,) = series["steps"]
    assert (step["after"], step["from"]) == ("run-11", "run-12")
    assert step["explanation"]["causes"][0]["name"].startswith("NCCL_")
    assert series["level"]["launches"] == 4


def test_results_since_leaves_out_what_is_older(project: ProjectFolder) -> None:
    ended = project.inv("results", "--json", "--since", "2026-01-15T00:00+00:00")
    assert [row["run_id"] for row in ended.json["results"]] == ["run-15", "run-14"]
