"""What llama.cpp's own benchmark (build 11434) writes: on two CPUs, and on an H200 that CUDA drives."""

from __future__ import annotations

import json
import shlex
import statistics
import threading
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.measuring import llamabench
from stoker.benchmarks import llamabench as bench
from stoker.benchmarks.llamabench import LlamaBench, Settings
from tests.agent.conftest import ENGINES, PLAIN, Host, eventually

CASES = Path(__file__).parents[1] / "cases/benchmarks/llama-bench"
SLOT = "zoo-llama-bench"
BENCH = {"name": "llama-bench", "runs": 3, "input": "64", "output": "32"}


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [("cpu.json", 64, 32), ("cpu.jsonl", 64, 32), ("cuda.json", 512, 128), ("cuda.jsonl", 512, 128)],
)
def test_each_repetition_is_a_run_of_the_pace_that_llama_bench_tells_itself(
    name: str, read: int, written: int
) -> None:
    rows = llamabench.rows((CASES / name).read_text())
    assert [(row["n_prompt"], row["n_gen"]) for row in rows] == [(read, 0), (0, written), (read, written)]
    runs = llamabench.runs_of(rows, {"runs": 3, "input": str(read), "output": str(written)})
    assert [run["valid"] for run in runs] == [True] * 3
    assert [run["tok_s"] for run in runs] == pytest.approx(rows[1]["samples_ts"], rel=1e-4)
    assert statistics.mean(run["tok_s"] for run in runs) == pytest.approx(rows[1]["avg_ts"], rel=1e-4)
    assert statistics.stdev(run["tok_s"] for run in runs) == pytest.approx(rows[1]["stddev_ts"], rel=1e-3)
    prefill = [run["figures"]["prefill_tok_s"] for run in runs]
    assert prefill == pytest.approx(rows[0]["samples_ts"], rel=1e-4)
    assert all(run["tokens"] == run["requested"] == written for run in runs)


def test_it_is_no_stranger_on_its_own_gpus_by_its_number_or_else_by_its_name() -> None:
    other = ("/usr/bin/train", 70, 0)
    ours = [("/opt/llama/llama-bench", 9, 0), ("/opt/llama/llama-bench", 9, 1)]
    assert llamabench.strange([*ours, other], 9) == [other]
    assert llamabench.strange([*ours, other], 12345) == [other], "in a container it has another number"
    twice = ("/home/x/llama-bench", 71, 0)
    assert llamabench.strange([*ours, twice], 9) == [twice]


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


def asks(host: Host, program: str, **given: Any) -> dict[str, Any]:
    """A request, with a program in llama-bench's place."""
    path = host.bin / "llama-bench"
    path.write_text(f"#!/bin/sh\n{program}\n")
    path.chmod(0o755)
    wanted = LlamaBench(runs=3, input="64", output="32")
    argv = bench.command(wanted, "/m.gguf", str(path), SLOT, Settings((), ()))
    words = " ".join(map(shlex.quote, argv))
    plan = host.plan(
        engine=PLAIN,
        slot=SLOT,
        argv=argv,
        script=f'#!/bin/sh\nexport GGML_TUNED=1\ncd "$HOME"\nexec {words}\n',
        env={"GGML_TUNED": "1"},
        gpus=given.pop("gpus", ()),
    )
    return {
        "plan": {**plan, "port": 0},
        "serves": "zoo",
        "engines": ENGINES,
        "bench": BENCH,
        "run_id": "r1",
        "force": False,
        "salt": "s",
        "salt_id": "id",
        **given,
    }


REPLAYED = f"cat {shlex.quote(str(CASES / 'cpu.jsonl'))}"


def nothing_is_left(host: Host) -> bool:
    return not host.mine() and not (host.home / ".stoker" / "slots" / SLOT).exists()


def test_its_environment_is_proven_before_it_begins_and_nothing_is_left(host: Host) -> None:
    found = llamabench.llamabench(host.context(), asks(host, REPLAYED))
    assert [run["valid"] for run in found["runs"]] == [True] * 3
    assert found["probe"]["proof"]["verdict"] == "in-force"
    assert [test["input"] for test in found["probe"]["tests"]] == [64, 0, 64]
    assert found["probe"]["build"]["backends"] == "CPU"
    assert (Path(found["path"]) / "result.jsonl").read_text() == (CASES / "cpu.jsonl").read_text()
    assert nothing_is_left(host)


def test_one_that_fails_says_what_it_said(host: Host) -> None:
    with pytest.raises(AgentError) as caught:
        llamabench.llamabench(host.context(), asks(host, "echo no such tensor >&2; exit 1"))
    assert (caught.value.kind, caught.value.evidence[-1]) == ("died", "no such tensor")
    assert "ended with exit status 1" in caught.value.what
    assert nothing_is_left(host)


def test_gpus_in_use_are_refused_with_who_uses_them(host: Host) -> None:
    host.gpus(2)
    code = "import sys, time; file = open(sys.argv[1]); print('up', flush=True); time.sleep(99)"
    holder = host.python(code, host.device(1))
    with pytest.raises(AgentError) as caught:
        llamabench.llamabench(host.context(), asks(host, REPLAYED, gpus=(0, 1)))
    assert caught.value.kind == "blocked"
    assert any(str(holder) in line for line in caught.value.evidence)
    assert [process.pid for process in host.mine()] == [holder]
    beside = llamabench.llamabench(host.context(), asks(host, REPLAYED, gpus=(0, 1), force=True))
    assert any("another process is on GPU 1" in text for text in beside["contaminated"])


def test_a_cancelled_one_leaves_nothing(host: Host) -> None:
    context = host.context()
    caught: list[AgentError] = []

    def run() -> None:
        try:
            llamabench.llamabench(context, asks(host, "echo begun >&2; exec sleep 99"))
        except AgentError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: [one for one in host.mine() if "sleep 99" in one.title], "it measures")
    context.cancel()
    thread.join(20)
    assert [error.kind for error in caught] == ["cancelled"]
    assert nothing_is_left(host)
