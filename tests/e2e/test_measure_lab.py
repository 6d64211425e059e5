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


def tabled(text: str, title: str) -> list[list[str]]:
    """The cells of a table's rows, without its headings; none of them is broken over lines."""
    lines = text.splitlines()
    lines = lines[lines.index(title) + 1 :]
    assert max(map(len, lines)) <= 80
    return [line.split() for line in lines[1:]]


def test_bench_all_says_what_it_would_measure_on_each_host(project: ProjectFolder) -> None:
    ended = project.inv("bench-all", "--check", *AT, "--runs", "3", env={"COLUMNS": "80"})
    assert ended.code == 0, ended.text
    assert "would measure nccl-tuned in slot kimi: decode 3 × 500 tokens, concurrency 1" in ended.out
    assert "it would fail: nothing runs there" in ended.out
    assert tabled(ended.out, "bench-all --check") == [
        ["node174", "nccl-tuned", "kimi", "decode", "500×1", "1×3", "nothing", "runs"]
    ]
    assert not (project.root / "results").exists(), "nothing was measured"


@pytest.mark.long
def test_bench_all_says_each_load_and_each_profile_that_it_would_measure(project: ProjectFolder) -> None:
    asked = ("--bench", "serve", "--rate", "1,2", "--launches", "2", "--json")
    loads = project.inv("bench-all", "--check", *AT, *asked).json["hosts"]["node174"]["results"][0]["rows"]
    assert [(row["size"], row["runs"], row["launches"]) for row in loads] == [
        ("512+128 1/s", 5, 2),
        ("512+128 2/s", 5, 2),
    ]
    named = ("--profile", "nccl-tuned", "--profile", "kimi-k25")
    both = project.inv("bench-all", "--check", *AT, *named, env={"COLUMNS": "80"})
    assert "then measure kimi-k25 in slot kimi: decode 5 × 500 tokens" in both.out
    assert [row[1] for row in tabled(both.out, "bench-all --check")] == ["nccl-tuned", "kimi-k25"]
    assert not (project.root / "results").exists(), "nothing was measured"


@pytest.mark.timeout(120)
def test_serve_measures_open_and_closed_loops_and_keeps_them_apart(project: ProjectFolder) -> None:
    project.done("restart", *AT, "--profile", "nccl-tuned")
    assert "1×5  runs" in project.inv("bench-all", "--check", *AT).out
    every = project.inv("bench-all", *AT, "--runs", "1", "--tokens", "8", env={"COLUMNS": "80"})
    (row,) = tabled(every.out, "bench-all")
    assert (row[:2], row[-4:]) == (["node174", "nccl-tuned"], ["no-baseline", "-", "1×1", "-"])
    asked = ("--bench", "serve", "--requests", "8", "--input", "64", "--output", "16-32", "--runs", "1")
    closed = project.done("bench", *AT, *asked, "--concurrency", "1,4", "--json")
    opened = project.done("bench", *AT, *asked, "--rate", "10", "--goodput", "ttft=60", "--json")
    assert [len(one.json["hosts"]["node174"]["results"]) for one in (closed, opened)] == [1, 1]
    rows = project.done("results", "--json").json["results"][:3]
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
