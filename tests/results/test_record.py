"""Records: what is built of a host's answer, and what is refused in it or in a file."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from stoker.benchmarks import Bench
from stoker.errors import InputError
from stoker.results.records.fromjson import build, loads
from stoker.results.records.identity import SCHEMA, is_safe_id, new_run_id
from stoker.results.records.metric import Metric
from stoker.results.statistics.stats import judge
from tests.results.made import bad, good, invalid, record, result, run, subject


def test_a_record_survives_its_own_file() -> None:
    before = good().judged(judge([[88.0] * 5], good().samples))
    after = loads(before.dumps(), "run.json")
    assert after == before


def test_the_file_names_its_schema_and_what_was_measured_at_the_top() -> None:
    data = json.loads(good().dumps())
    assert data["schema"] == 1
    assert (data["host"], data["profile"], data["engine"]) == ("node174", "nccl-tuned", "sglang")
    assert data["resolved"]["env"]["NCCL_PROTO"] == "LL"
    assert data["metrics"]["decode_tok_s"]["unit"] == "tok/s"


def test_overall_speed_is_all_tokens_over_all_seconds_of_valid_runs() -> None:
    made = record([50.0, 100.0])
    assert made.metrics["decode_tok_s"].value == pytest.approx(1000 / (10 + 5))
    assert made.metrics["tpot_s"].value == pytest.approx(0.015)
    assert made.metrics["ttft_s"] == Metric(0.2, "s")


def test_invalid_runs_are_kept_and_count_nowhere() -> None:
    made = build([result([], runs=[run(0, 88.0), invalid(1)])], subject())
    assert made.samples == ((88.0,),)
    assert made.metrics["decode_tok_s"].value == pytest.approx(88.0)
    assert [r.valid for r in made.launches[0].runs] == [True, False]


def test_without_a_valid_run_there_is_no_number_at_all() -> None:
    made = build([result([], runs=[invalid(0)])], subject())
    assert made.metrics == {}
    assert made.samples == ()


def test_launches_are_kept_apart() -> None:
    second = result([87.0, 87.1], launch={"launch_id": "other"}, contaminated=["a stranger"])
    made = build([result([88.0, 88.1]), second], subject())
    assert made.samples == ((88.0, 88.1), (87.0, 87.1))
    assert made.contaminated == ("a stranger",)
    assert [launch.launch_id for launch in made.launches] == ["20260101-115000-ab12", "other"]


@pytest.mark.parametrize(
    "other", [{"model": "another"}, {"bench": {"name": "decode", "runs": 1, "tokens": 9, "concurrency": 1}}]
)
def test_launches_that_measured_different_things_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="different things"):
        build([result([88.0]), result([88.0], **other)], subject())


@pytest.mark.parametrize("value", [math.nan, math.inf, 10**400, 0.0, -3.0, None, "88", True])
def test_a_valid_run_must_have_a_speed(value: Any) -> None:
    with pytest.raises(InputError, match=r"runs\[0\]\.tok_s"):
        build([result([], runs=[{**run(0, 88.0), "tok_s": value}])], subject())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("run_id", "../../etc/passwd"),
        ("run_id", 7),
        ("started_at", "yesterday"),
        ("model", None),
        ("runs", {}),
        ("runs", ["x"]),
        ("simulated", "no"),
        ("contaminated", [1]),
        ("fingerprint", []),
        ("fingerprint", {"env": {"NCCL_PROTO": 7}}),
        ("fingerprint", {"gpus": ["x"]}),
    ],
)
def test_an_answer_of_another_shape_is_refused_by_field(field: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        build([result([88.0], **{field: value})], subject(), where="node174")
    assert caught.value.where == "node174"
    assert field in caught.value.what


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"schema": "1"}', '{"schema": 1}', '{"schema": 1, "x": NaN}']
)
def test_a_damaged_file_is_an_input_error_that_names_it(text: str) -> None:
    with pytest.raises(InputError) as caught:
        loads(text, "results/x/run.json")
    assert caught.value.where == "results/x/run.json"


def test_a_newer_schema_says_so() -> None:
    data = {**good().to_json(), "schema": SCHEMA + 1}
    with pytest.raises(InputError, match="newer Stoker"):
        loads(json.dumps(data), "run.json")


def test_ids_are_safe_sorted_by_time_and_unique() -> None:
    made = new_run_id("root@10.1.2.3", now=0.0)
    assert re.fullmatch(r"19700101-000000-root-10\.1\.2\.3-[0-9a-f]{4}", made)
    assert is_safe_id(made)
    assert len({new_run_id("h", now=0) for _ in range(50)}) > 40
    assert is_safe_id(new_run_id("ü", now=0))


def test_parameters_of_the_benchmark_are_typed() -> None:
    assert bad().bench == Bench("decode", 5, 500, 1)
