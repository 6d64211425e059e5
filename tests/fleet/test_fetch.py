"""What a host sends becomes records of its own runs and replaces nothing that is here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import HostFailed
from stoker.fleet.books.verbs import VERBS
from stoker.fleet.job import Outcome
from stoker.fleet.project import Project
from tests.fleet.test_verbs import Heard, _do, project
from tests.results import made

__all__ = ["project"]

ID = "20260101-000000-a-0000"


def left(home: Path, run_id: str = ID, *, folder: str = "", **changes: Any) -> Path:
    """A run on the host."""
    at = home / ".stoker" / "runs" / (folder or run_id)
    at.mkdir(parents=True)
    (at / "bench.json").write_text(json.dumps(made.result([80.0], run_id=run_id, **changes)))
    (at / "server.log").write_text("a line\n")
    return at


def fetched(project: Project) -> Outcome:
    (outcome,) = _do(project, VERBS["fetch"], Heard({}))
    return outcome


def skipped(outcome: Outcome) -> list[str]:
    return [item["path"] for item in outcome.data["skipped"]]


def test_a_record_is_taken_from_no_host(project: Project, tmp_path: Path) -> None:
    folder = left(tmp_path)
    forged = {"schema": 1, "run_id": ID, "host": "other", "metrics": {"decode_tok_s": {"value": 9e9}}}
    for name in ("run.json", "RUN.JSON"):
        (folder / name).write_text(json.dumps(forged))
    outcome = fetched(project)
    assert outcome.data["runs"] == [ID]
    assert skipped(outcome) == [f"{ID}/RUN.JSON", f"{ID}/run.json"]
    assert project.store.load(ID).host == "a"


def test_a_record_that_is_here_stays_as_it_is_and_the_others_come(project: Project, tmp_path: Path) -> None:
    folder = left(tmp_path)
    fetched(project)
    here = project.store.path(ID)
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    (folder / "bench.json").write_text(json.dumps(made.result([9000.0], run_id=ID)))
    (folder / "run.json").write_text("{}")
    left(tmp_path, "20260101-000001-a-0001", started_at=2e9)
    outcome = fetched(project)
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before
    assert skipped(outcome) == [f"{ID}/bench.json", f"{ID}/run.json"]
    assert outcome.data["runs"] == ["20260101-000001-a-0001"]
    assert any(ID in text for text, _ in outcome.lines)


def test_an_interrupted_pull_is_finished(project: Project, tmp_path: Path) -> None:
    left(tmp_path)
    fetched(project)
    (project.store.path(ID) / "server.log").unlink()
    outcome = fetched(project)
    assert (project.store.path(ID) / "server.log").read_text() == "a line\n"
    assert (outcome.data["runs"], outcome.data["skipped"]) == ([], [])


def test_a_host_adds_nothing_to_the_record_of_another(project: Project, tmp_path: Path) -> None:
    from stoker.results.records.fromjson import build

    project.store.save(build([made.result([80.0], run_id=ID)], made.subject(host="b")))
    left(tmp_path)
    outcome = fetched(project)
    assert skipped(outcome) == [f"{ID}/bench.json", f"{ID}/server.log"]
    assert [path.name for path in project.store.path(ID).iterdir()] == ["run.json"]


def test_a_run_under_anothers_name_makes_no_record(project: Project, tmp_path: Path) -> None:
    left(tmp_path)
    fetched(project)
    before = (project.store.path(ID) / "run.json").read_bytes()
    left(tmp_path, folder="20260101-000000-x-1", contaminated=["spoofed"])
    left(tmp_path, "20260101-000002-a-0002", started_at=2e9)
    with pytest.raises(HostFailed, match=f"tells of another run, {ID}") as caught:
        fetched(project)
    assert caught.value.kind == "bad-result"
    assert (project.store.path(ID) / "run.json").read_bytes() == before
    assert sorted(project.store.ids()) == [ID, "20260101-000002-a-0002"]


def test_drafts_loose_files_and_odd_names_are_named_and_skipped(project: Project, tmp_path: Path) -> None:
    folder = left(tmp_path)
    runs = folder.parent
    (runs / f".{ID}.4711.new").mkdir()
    (runs / f".{ID}.4711.new" / "bench.json").write_text('{"half')
    for name in (".index.sqlite", ".salt", "loose file"):
        (runs / name).write_text("x")
    (runs / "link").symlink_to("/etc")
    (project.root / "results").mkdir()
    (project.root / "results" / "loose").write_text("mine")
    outcome = fetched(project)
    assert outcome.data["runs"] == [ID]
    assert sorted(skipped(outcome)) == [
        f".{ID}.4711.new/bench.json",
        ".index.sqlite",
        ".salt",
        "link",
        "loose file",
    ]
    assert not (project.root / "results" / ".salt").exists()


def test_the_launches_of_one_benchmark_are_one_record(project: Project, tmp_path: Path) -> None:
    from stoker.results.records.fromjson import build

    second = "20260101-000009-a-0009"
    left(tmp_path)
    left(tmp_path, second, started_at=2e9)
    results = [
        made.result([80.0], run_id=ID),
        made.result([80.0], run_id=second, started_at=2e9),
    ]
    project.store.save(build(results, made.subject(host="a")))
    assert fetched(project).data["runs"] == []
    assert project.store.ids() == [ID]


def test_what_is_too_large_is_skipped_unread(project: Project, tmp_path: Path) -> None:
    folder = left(tmp_path)
    with (folder / "core").open("wb") as file:
        file.truncate(20 << 30)  # a hole: to read it would take the better part of a minute
    outcome = fetched(project)
    assert (outcome.data["runs"], skipped(outcome)) == ([ID], [f"{ID}/core"])
