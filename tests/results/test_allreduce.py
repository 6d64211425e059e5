"""All-reduces as records: their figures, their baselines, and what a profile could gain by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.benchmarks import allreduce, merge
from stoker.errors import InputError
from stoker.results.allreduce import estimate
from stoker.results.baselines.baseline import Baseline, Baselines
from stoker.results.compare import assess, compare
from stoker.results.explaining.causes import Side
from stoker.results.explaining.look_args import look
from stoker.results.records.fingerprint import Fingerprint
from stoker.results.records.fromjson import build, loads
from stoker.results.records.record import Record, Subject
from tests.results.made import fingerprint, run

BENCH = merge({}, {"name": "allreduce", "runs": "3", "hidden": 7168, "ranks": 8, "dtype": "bfloat16"})
NOW = 1_764_000_000.0


def size(batch: int, us: float) -> dict[str, Any]:
    marks = {"p10_s": us * 0.9e-6, "p50_s": us * 1e-6, "p90_s": us * 1.2e-6}
    count = batch * 14336
    return {"batch": batch, "bytes": count, "way": "graph", **marks, "busbw_gb_s": 1.75 * count / us / 1e3}


def probed(us: float, profile: str = "tuned", launches: int = 1, layers: int | None = 61) -> Record:
    """A record in which batch 1 takes so many microseconds, and batch 64 twice as many."""
    results = [
        {
            "run_id": f"20261129-100000-node174-{profile}",
            "started_at": NOW + at,
            "bench": BENCH.to_wire(),
            "launch": {"launch_id": f"l{at}", "ready_s": 1.0},
            "engine": "sglang",
            "model": "/models/kimi",
            "engine_version": "0.5.23",
            "simulated": False,
            "warmup": None,
            "runs": [{**run(index, 1e6 / us / 2**0.5), "tpot_s": None} for index in range(3)],
            "contaminated": [],
            "machine": {},
            "fingerprint": fingerprint(),
            "probe": {
                "ranks": 8,
                "model": {"hidden": 7168, "layers": layers},
                "sizes": [size(1, us), size(64, 2 * us)],
            },
        }
        for at in range(launches)
    ]
    subject = Subject("node174", "sglang", profile, f"hash-{profile}", "kimi", {})
    return build(results, subject)


def decoded(tpot_s: float, profile: str) -> Record:
    one = {**run(0, 1 / tpot_s), "tpot_s": tpot_s}
    result = {
        "run_id": "20261129-090000-node174-dddd",
        "started_at": NOW,
        "bench": merge({}, {"runs": 1}).to_wire(),
        "launch": {"launch_id": "d"},
        "engine": "sglang",
        "model": "kimi",
        "runs": [one],
        "fingerprint": fingerprint(),
        "warmup": None,
        "contaminated": [],
        "machine": {},
        "simulated": False,
    }
    return build([result], Subject("node174", "sglang", profile, f"hash-{profile}", "kimi", {}))


def test_the_figures_are_latencies_and_the_judged_one_a_rate() -> None:
    record = probed(30.0)
    assert record.metrics["latency_us"].value == pytest.approx(30 * 2**0.5)
    assert record.metrics["batch1_p50_us"].value == pytest.approx(30)
    assert record.metrics["batch64_p90_us"].value == pytest.approx(72)
    assert record.pace is not None
    assert record.pace.value == pytest.approx(1e6 / 30 / 2**0.5)


def test_a_record_reads_back_as_it_was() -> None:
    record = probed(30.0)
    again = loads(record.dumps(), "run.json")
    assert again == record
    assert isinstance(again.bench, allreduce.AllReduce)


def test_a_slower_one_is_regressed_against_its_baseline(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path)
    baselines.accept([probed(30.0, launches=3)], by="me")
    slow = probed(45.0, "plain", launches=3)
    base = baselines.find(slow)
    assert isinstance(base, Baseline)
    assert assess(slow, base).verdict == "regressed"
    assert compare(base, slow).metrics[0].change == pytest.approx(30 / 45 - 1)
    assert assess(probed(30.0, launches=3), base).verdict == "ok"


def test_the_deadline_is_no_part_of_what_is_compared(tmp_path: Path) -> None:
    other = merge(BENCH.to_wire(), {"deadline": 300})
    assert other.load == BENCH.load
    assert merge(BENCH.to_wire(), {"batches": "1,2"}).load != BENCH.load


def test_an_estimate_says_its_assumption_and_what_it_was_held_against() -> None:
    found = estimate(probed(30.0), probed(61.0, "plain"), decoded(0.0159, "plain"))
    assert found is not None
    assert (found.batch, found.steps) == (1, 122)
    assert found.saved_s == pytest.approx(122 * 31e-6)
    assert found.change == pytest.approx(0.0159 / (0.0159 - 122 * 31e-6) - 1)
    assert found.line.startswith(
        "estimate, batch 1: 122 all-reduces a step (2 × 61 layers, assumed) × 31.0 µs"
    )
    assert "15.90 ms per token (20261129-090000-node174-dddd): about +31.2 % tok/s" in found.line


def test_a_decoding_under_the_new_profile_is_taken_as_the_faster_side() -> None:
    found = estimate(probed(30.0), probed(61.0, "plain"), decoded(0.0112, "tuned"))
    assert found is not None
    assert found.change == pytest.approx((0.0112 + 122 * 31e-6) / 0.0112 - 1)


def test_more_than_a_token_takes_is_no_gain_that_can_be() -> None:
    found = estimate(probed(30.0), probed(300.0, "plain"), decoded(0.0159, "plain"))
    assert found is not None
    assert found.change is None
    assert "more than a token takes" in found.line


def test_without_a_decoding_only_the_time_is_told() -> None:
    found = estimate(probed(61.0), probed(30.0, "plain"), None)
    assert found is not None
    assert found.change is None
    assert "ms more per token; no decode of this model is recorded" in found.line


def test_without_layers_nothing_is_estimated() -> None:
    assert estimate(probed(30.0, layers=None), probed(61.0, layers=None), None) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batches", "1,x"),
        ("batches", "0,1"),
        ("batches", ",".join(map(str, range(1, 40)))),
        ("hidden", "-1"),
        ("ranks", "17"),
        ("ranks", True),
        ("dtype", "int8"),
        ("tool", "nccl"),
        ("deadline", "1"),
        ("runs", "0"),
        ("tokens", "500"),
    ],
)
def test_a_parameter_that_cannot_be_is_named_with_its_flag(name: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        merge({}, {"name": "allreduce", name: value})
    assert caught.value.where == f"--{name}"


def test_of_a_profiles_other_benchmark_only_the_runs_are_taken() -> None:
    found = merge({"name": "decode", "runs": 7, "tokens": 100, "concurrency": 4}, {"name": "allreduce"})
    assert isinstance(found, allreduce.AllReduce)
    assert (found.runs, found.batches) == (7, "1,2,4,8,16,32,64")


def test_its_parameters_are_refused_by_other_benchmarks() -> None:
    with pytest.raises(InputError) as caught:
        merge({}, {"hidden": "5"})
    assert (caught.value.where, caught.value.next_step) == ("--hidden", "--bench allreduce")


def test_batch_sizes_are_put_in_order() -> None:
    found = merge({}, {"name": "allreduce", "batches": "8, 1,8"})
    assert isinstance(found, allreduce.AllReduce)
    assert found.batches == "1,8"


def test_a_probe_has_no_server_that_could_report_its_arguments() -> None:
    argv = ("python", "-c", allreduce.program("llm-probe"))
    probes = Side("a", Fingerprint(argv=argv), "vllm"), Side("b", Fingerprint(argv=argv), "vllm")
    assert look(*probes).unknown == ()
    server = Side("c", Fingerprint(argv=("python", "-m", "vllm")), "vllm")
    assert [one.what for one in look(server, server).unknown] == ["arguments as the server reports them"]
