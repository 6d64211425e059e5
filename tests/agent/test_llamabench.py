"""What llama.cpp's own benchmark writes; the cases are of its build 11434 on two CPUs, in both forms."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from stoker.agent import llamabench
from stoker.agent.context import AgentError

CASES = Path(__file__).parents[1] / "cases/benchmarks/llama-bench"
BENCH = {"name": "llama-bench", "runs": 3, "input": "64", "output": "32"}


@pytest.mark.parametrize("name", ["cpu.json", "cpu.jsonl"])
def test_each_repetition_is_a_run_of_the_pace_that_llama_bench_tells_itself(name: str) -> None:
    rows = llamabench.rows((CASES / name).read_text())
    assert [(row["n_prompt"], row["n_gen"]) for row in rows] == [(64, 0), (0, 32), (64, 32)]
    runs = llamabench.runs_of(rows, BENCH)
    assert [run["valid"] for run in runs] == [True] * 3
    assert [run["tok_s"] for run in runs] == pytest.approx(rows[1]["samples_ts"], rel=1e-4)
    assert statistics.mean(run["tok_s"] for run in runs) == pytest.approx(rows[1]["avg_ts"], rel=1e-4)
    assert statistics.stdev(run["tok_s"] for run in runs) == pytest.approx(rows[1]["stddev_ts"], rel=1e-3)
    prefill = [run["figures"]["prefill_tok_s"] for run in runs]
    assert prefill == pytest.approx(rows[0]["samples_ts"], rel=1e-4)
    assert all(run["tokens"] == run["requested"] == 32 for run in runs)


@pytest.mark.parametrize(
    "broken",
    [
        {"samples_ns": [5, 6]},
        {"samples_ns": [5, 6, 0]},
        {"samples_ns": [5, 6, "7"]},
        {"samples_ns": [5, 6, float("inf")]},
    ],
)
def test_a_repetition_whose_time_is_not_told_is_no_measurement(broken: dict[str, Any]) -> None:
    rows = [{**row, **(broken if row["n_gen"] == 32 and not row["n_prompt"] else {})} for row in whole()]
    runs = llamabench.runs_of(rows, BENCH)
    assert [run["valid"] for run in runs] == [True, True, False]
    assert runs[2]["why"] == "llama-bench does not tell its time"


def whole() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((CASES / "cpu.json").read_text())
    return rows


def test_tests_of_other_lengths_are_not_taken_for_those_that_were_asked() -> None:
    runs = llamabench.runs_of(whole(), {**BENCH, "output": "128"})
    assert not any(run["valid"] for run in runs)
    assert not any(run["valid"] for run in llamabench.runs_of([], BENCH))


@pytest.mark.parametrize("text", ["[", '{"n_gen": 1}\n{', "llama_bench: error"])
def test_what_is_cut_or_no_json_is_said(text: str) -> None:
    with pytest.raises(AgentError, match="no JSON"):
        llamabench.rows(text)
