"""The probe of all-reduces on a host: launched, proven, ended. Torch is a stand-in that says so of itself."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.probing import probe as probing
from stoker.benchmarks import allreduce
from stoker.engines import get
from stoker.fleet.measuring.probeplan import engine_of
from tests.agent.conftest import ENGINES, Host

STANDIN = Path(__file__).parents[1] / "standin_torch"
# Prints its table for each size of a range, as the program does, which fails where a sum is wrong.
PERF = """\
#!/bin/sh
sleep 0.3
echo "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
size=$2
while [ $size -le $4 ]; do
    echo "  $size 1 bfloat16 sum -1 20.0 1.0 1.0 0 10.0 1.0 1.0 $WRONG"
    size=$((size * 2))
done
[ "$WRONG" = 0 ] && word=OK || word=FAILED
echo "# Out of bounds values : $WRONG $word"
[ "$WRONG" = 0 ]
"""
BENCH = allreduce.merged({}, {"runs": 2, "batches": "1,4", "hidden": 64, "ranks": 2}).to_wire()
SLOT = "zoo-probe"


def asks(host: Host, env: dict[str, str] | None = None, **given: Any) -> dict[str, Any]:
    """A request: what the profile sets, and what else is asked for."""
    program = allreduce.program(SLOT)
    variables = {"PYTHONPATH": str(STANDIN), **(env or {})}
    exports = "".join(f"export {name}='{value}'\n" for name, value in variables.items())
    planned = host.plan(
        engine=engine_of(get("vllm"), given.get("tool", "torch")),
        slot=SLOT,
        argv=(sys.executable, "-c", program),
        script=f'#!/bin/sh\n{exports}cd "$HOME"\nexec {sys.executable} -c "{program}"\n',
        env=variables,
        gpus=given.pop("gpus", ()),
        model_path=given.pop("model_path", ""),
    )
    return {
        "plan": {**planned, "port": 0},
        "serves": "zoo",
        "engines": ENGINES,
        "bench": {**BENCH, **given},
        "script": allreduce.script(),
        "run_id": "r1",
        "force": False,
        "salt": "s",
        "salt_id": "id",
    }


def left_of(host: Host) -> list[str]:
    """Processes of the probe that live."""
    return [process.title for process in host.mine()]


def fails(host: Host, request: dict[str, Any]) -> AgentError:
    with pytest.raises(AgentError) as caught:
        probing.probe(host.context(), request)
    assert left_of(host) == []
    assert not (host.home / ".stoker" / "slots" / SLOT).exists()
    return caught.value


def test_every_rank_is_proven_each_size_measured_and_nothing_is_left(host: Host) -> None:
    found = probing.probe(host.context(), asks(host, {"NCCL_PROTO": "LL"}))
    told = found["probe"]
    assert (told["ranks"], told["hidden"], told["dtype"]) == (2, 64, "bfloat16")
    assert told["proof"]["verdict"] == "in-force"
    assert len(told["proof"]["workers"]) == 2
    assert [(row["batch"], row["bytes"]) for row in told["sizes"] if row["batch"]] == [(1, 128), (4, 512)]
    assert [row["bytes"] for row in told["sizes"] if not row["batch"]] == [1 << n for n in range(10, 21)]
    assert all(row["wrong"] == 0 and row["p10_s"] <= row["p50_s"] <= row["p90_s"] for row in told["sizes"])
    assert all(row["busbw_gb_s"] == row["algbw_gb_s"] for row in told["sizes"])  # 2 (n - 1) / n of two ranks
    assert [run["valid"] for run in found["runs"]] == [True, True]
    assert found["simulated"] is True
    assert found["fingerprint"]["env"]["NCCL_PROTO"] == "LL"
    assert left_of(host) == []
    assert not (host.home / ".stoker" / "slots" / SLOT).exists()
    kept = json.loads((Path(found["path"]) / "bench.json").read_text())
    assert kept["probe"]["sizes"] == told["sizes"]


def test_the_hidden_size_is_that_of_the_models_config(host: Host) -> None:
    model = host.root / "model"
    model.mkdir()
    config = {"text_config": {"hidden_size": 128, "num_hidden_layers": 61, "torch_dtype": "float32"}}
    (model / "config.json").write_text(json.dumps(config))
    told = probing.probe(host.context(), asks(host, hidden=0, runs=1, model_path=str(model)))["probe"]
    assert told["model"] == {
        "hidden": 128,
        "layers": 61,
        "dtype": "float32",
        "source": f"{model}/config.json",
    }
    assert [row["bytes"] for row in told["sizes"] if row["batch"]] == [512, 2048]


def test_without_a_hidden_size_nothing_is_begun(host: Host) -> None:
    error = fails(host, asks(host, hidden=0))
    assert (error.kind, "--hidden" in error.next_step) == ("bad-request", True)


def test_an_environment_without_torch_is_told_before_anything_starts(host: Host) -> None:
    error = fails(host, asks(host, {"PYTHONPATH": "/nonexistent"}))
    assert error.kind == "preflight"
    assert "cannot import torch" in error.what


def test_a_rank_that_cannot_import_torch_says_why(host: Host) -> None:
    error = fails(host, asks(host, {"STANDIN_TORCH": "absent"}))
    assert error.kind == "preflight"
    assert "libcudart.so.13" in error.what


def test_gpus_that_are_not_there_are_named(host: Host) -> None:
    host.gpus(2)
    error = fails(host, asks(host, gpus=(0, 1, 2)))
    assert error.kind == "preflight"
    assert "GPU 2 is not there" in error.what


def test_gpus_in_use_are_refused_with_who_uses_them(host: Host) -> None:
    host.gpus(2)
    code = "import sys, time; file = open(sys.argv[1]); print('up', flush=True); time.sleep(99)"
    holder = host.python(code, host.device(1))
    with pytest.raises(AgentError) as caught:
        probing.probe(host.context(), asks(host, gpus=(0, 1)))
    assert caught.value.kind == "blocked"
    assert any(str(holder) in line for line in caught.value.evidence)
    assert "--force" in caught.value.next_step
    assert [process.pid for process in host.mine()] == [holder]


def perf(host: Host, text: str = PERF) -> None:
    """A program of that name on the PATH."""
    tool = host.bin / "all_reduce_perf"
    tool.write_text(text)
    tool.chmod(0o755)


def test_nccl_tests_are_read_into_the_same_rows(host: Host) -> None:
    host.gpus(2)
    perf(host)
    request = asks(host, {"WRONG": "0"}, gpus=(0, 1), tool="nccl-tests", batches="1,2,8")
    found = probing.probe(host.context(), request)
    rows = [row for row in found["probe"]["sizes"] if row["batch"]]
    assert [(row["batch"], row["p50_s"], row["way"]) for row in rows] == [
        (1, pytest.approx(10e-6), "nccl-tests"),
        (2, pytest.approx(10e-6), "nccl-tests"),
        (8, pytest.approx(10e-6), "nccl-tests"),
    ]
    curve = [row["bytes"] for row in found["probe"]["sizes"] if not row["batch"]]
    assert curve == [1 << power for power in range(10, 25)]
    assert [run["tok_s"] for run in found["runs"]] == [pytest.approx(1e5)] * 2
    assert [run["tokens"] for run in found["runs"]] == [300] * 2
    assert found["probe"]["proof"]["verdict"] == "in-force"


def test_a_probe_beside_what_holds_the_gpus_says_that_it_was_not_alone(host: Host) -> None:
    host.gpus(2)
    perf(host)
    code = "import sys, time; file = open(sys.argv[1]); print('up', flush=True); time.sleep(99)"
    holder = host.python(code, host.device(1))
    request = asks(host, {"WRONG": "0"}, gpus=(0, 1), tool="nccl-tests", batches="1", runs=1)
    found = probing.probe(host.context(), {**request, "force": True})
    assert any("time.sleep(99)" in text for text in found["contaminated"]), found["contaminated"]
    assert found["runs"][0]["valid"] is True
    assert [process.pid for process in host.mine()] == [holder]


def test_nccl_tests_that_fail_by_wrong_sums_are_read_to_their_end(host: Host) -> None:
    host.gpus(2)
    perf(host)
    request = asks(host, {"WRONG": "3"}, gpus=(0, 1), tool="nccl-tests", batches="1", runs=1)
    found = probing.probe(host.context(), request)
    assert [(run["valid"], run["tok_s"]) for run in found["runs"]] == [(False, None)]
    assert found["runs"][0]["why"].startswith("wrong sums: 3 elements")


def test_nccl_tests_that_end_early_are_told_with_their_last_lines(host: Host) -> None:
    host.gpus(2)
    perf(host, "#!/bin/sh\nsleep 0.3\necho 'gpu01: Test NCCL failure common.cu:1204'\nexit 3\n")
    error = fails(host, asks(host, gpus=(0, 1), tool="nccl-tests"))
    assert error.kind == "died"
    assert error.what.startswith("all_reduce_perf of the probe of")
    assert any("Test NCCL failure" in line for line in error.evidence)


def test_without_nccl_tests_on_the_path_that_is_said(host: Host) -> None:
    host.gpus(2)
    error = fails(host, asks(host, gpus=(0, 1), tool="nccl-tests"))
    assert "all_reduce_perf" in error.what


def test_a_rank_that_dies_is_named_with_its_signal(host: Host) -> None:
    error = fails(host, asks(host, {"STANDIN_TORCH": "die"}))
    assert error.kind == "died"
    assert error.what.startswith("rank 1 of the probe of")
    assert error.detail["exit"] == {"signal": 6}


def test_what_torch_raises_is_told(host: Host) -> None:
    error = fails(host, asks(host, {"STANDIN_TORCH": "raise"}))
    assert error.kind == "died"
    assert "unhandled cuda error" in error.what


def test_a_probe_that_hangs_is_ended_at_its_deadline_with_its_last_lines(host: Host) -> None:
    error = fails(host, asks(host, {"STANDIN_TORCH": "hang"}, deadline=3))
    assert error.kind == "timeout"
    assert "within 3 s" in error.what
    assert any("stuck in a kernel" in line for line in error.evidence)


def test_a_wrong_sum_makes_its_run_no_measurement(host: Host) -> None:
    found = probing.probe(host.context(), asks(host, {"STANDIN_TORCH": "wrong"}))
    assert any(row["wrong"] for row in found["probe"]["sizes"])
    assert found["runs"][0]["valid"] is False
    assert found["runs"][0]["why"].startswith("wrong sums: ")


def test_a_cancelled_probe_leaves_nothing(host: Host) -> None:
    context = host.context()
    caught: list[AgentError] = []

    def run() -> None:
        try:
            probing.probe(context, asks(host, {"STANDIN_TORCH": "hang"}))
        except AgentError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    end = time.monotonic() + 20
    while not any("rank 1" in title for title in left_of(host)) and time.monotonic() < end:
        time.sleep(0.02)
    context.cancel()
    thread.join(30)
    assert [error.kind for error in caught] == ["cancelled"]
    assert left_of(host) == []
