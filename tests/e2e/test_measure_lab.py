"""``bench --bench serve`` and ``spec`` on a host of the lab, where the pace is a documented model's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.lab import lab as control
from tests.e2e.project import ProjectFolder

ROOT = Path(__file__).parents[2]
EAGLE = "kimi-k25-eagle3"
AT = ("--host", "node174")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("measure") / ".lab"
    control.up(folder, 1, load_s=0.1)
    yield folder
    control.down(folder)


@pytest.fixture
def project(lab: Path, tmp_path: Path) -> Iterator[ProjectFolder]:
    """A project of that host; nothing runs there, before and after."""
    yield ProjectFolder.on_lab(tmp_path, lab, "profiles")
    control.reboot(lab, "node174")


@pytest.mark.timeout(120)
def test_serve_measures_open_and_closed_loops_and_keeps_them_apart(project: ProjectFolder) -> None:
    project.done("restart", *AT, "--profile", "nccl-tuned")
    asked = ("--bench", "serve", "--requests", "8", "--input", "64", "--output", "16-32", "--runs", "1")
    closed = project.done("bench", *AT, *asked, "--concurrency", "1,4", "--json")
    opened = project.done("bench", *AT, *asked, "--rate", "10", "--goodput", "ttft=60", "--json")
    assert [len(one.json["hosts"]["node174"]["results"]) for one in (closed, opened)] == [1, 1]
    rows = project.done("results", "--json").json["results"]
    assert [row["size"] for row in rows] == ["64+16-32 10/s", "64+16-32×4", "64+16-32×1"]
    run = project.done("show", rows[0]["run_id"], "--json").json["run"]
    figures = {name: metric["value"] for name, metric in run["metrics"].items()}
    # A prompt of 64 tokens takes 31 ms, and a token 11.2 ms on the tuned host.
    assert 0.02 < figures["ttft_s"] < 10
    assert 0.01 < figures["tpot_s"] < 2
    assert figures["ttft_s"] <= figures["ttft_p90_s"] <= figures["ttft_p99_s"] < figures["e2e_p99_s"]
    assert figures["good_req_s"] == pytest.approx(figures["req_s"])
    client = run["launches"][0]["machine"]["client"]
    assert client["opened"] > 0
    assert all(
        sample["valid"] and 16 * 8 <= sample["tokens"] <= 32 * 8 for sample in run["launches"][0]["runs"]
    )


@pytest.mark.long
@pytest.mark.timeout(240)
def test_spec_finds_what_the_model_says_and_the_report_shows_it(project: ProjectFolder) -> None:
    """Three steps yield 2.31 tokens, break even at 1.84 and are 25 % faster on the tuned host."""
    project.done("restart", *AT, "--profile", EAGLE)
    how = ("--profile", EAGLE, "--steps", "3", "--concurrency", "1", "--runs", "3", "--tokens", "120")
    ended = project.done("spec", *AT, *how, "--json")
    (row,) = ended.json["hosts"]["node174"]["results"][0]["rows"]
    assert (row["setting"], row["batch"], row["word"]) == ("3 steps", 1, "pays")
    assert row["acceptance"]["length"] == pytest.approx(2.31, rel=0.05)
    assert row["break_even"] == pytest.approx(1.84, rel=0.15)
    assert row["speedup"] == pytest.approx(1.25, rel=0.15)
    servers = project.done("status", *AT, "--json").json["hosts"]["node174"]["results"][0]["servers"]
    assert [one["launch"]["profile"] for one in servers if one["alive"]] == [EAGLE], "it was put back"
    project.done("report")
    page = (project.root / "results" / "report.html").read_text()
    assert "Does speculative decoding pay?" in page
    assert "Batch 1: pays (3 steps, 1.2" in page
