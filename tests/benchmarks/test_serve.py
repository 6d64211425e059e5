"""The parameters of ``serve``: loads, lengths, limits, and what two measurements must share."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.benchmarks import Bench, lengths, levels, merge
from stoker.errors import InputError

OPEN = {"name": "serve", "rate": "4", "requests": 50, "input": "64", "output": "8-16"}


def test_without_a_rate_requests_come_as_others_end_and_each_place_has_two() -> None:
    bench = merge({"name": "serve", "concurrency": 256})
    assert (bench.rate, bench.arrivals, bench.concurrency, bench.requests) == (0.0, "", 256, 512)
    assert (bench.input, bench.output, bench.tokens) == ("512", "128", 0)


def test_each_load_of_a_command_is_a_benchmark_of_its_own() -> None:
    rates = levels({}, {"name": "serve", "rate": "1,2.5,4"})
    assert [(bench.rate, bench.concurrency, bench.arrivals) for bench in rates] == [
        (1.0, 0, "poisson"),
        (2.5, 0, "poisson"),
        (4.0, 0, "poisson"),
    ]
    assert [bench.concurrency for bench in levels({}, {"name": "serve", "concurrency": "1,8"})] == [1, 8]


def test_a_profile_may_name_loads_and_the_command_line_wins() -> None:
    profile = {"name": "serve", "runs": 3, "tokens": 500, "concurrency": 1, "rate": (1.0, 2.0), "seed": 7}
    assert [bench.rate for bench in levels(profile)] == [1.0, 2.0]
    (bench,) = levels(profile, {"concurrency": "8"})
    assert (bench.concurrency, bench.rate, bench.seed, bench.runs) == (8, 0.0, 7, 3)


def test_the_size_of_a_run_that_is_typed_takes_the_place_of_the_profiles() -> None:
    profile = {"name": "serve", "seconds": 30, "goodput": "ttft=1"}
    (bench,) = levels(profile, {"requests": 40, "goodput": ""})
    assert (bench.requests, bench.seconds, bench.goodput) == (40, 0.0, "")
    (bench,) = levels({"name": "serve", "requests": 30}, {"seconds": "4"})
    assert (bench.requests, bench.seconds) == (0, 4.0)


def test_where_one_load_is_meant_several_are_refused() -> None:
    with pytest.raises(InputError, match="one load at a time can be measured here, not 1/s poisson, 2/s poi"):
        merge({}, {"name": "serve", "rate": "1,2"})


def test_what_travels_comes_back_the_same() -> None:
    for bench in (
        merge(OPEN),
        merge({"name": "serve", "seconds": "30", "goodput": "tpot=0.05,ttft=0.5"}),
        merge({"name": "serve", "input": "lognormal:512:300", "output": "normal:128:16:2-200", "seed": "3"}),
    ):
        assert merge(bench.to_wire()) == bench
    assert merge({}).to_wire() == {"name": "decode", "runs": 5, "tokens": 500, "concurrency": 1}


def test_a_load_says_all_that_is_measured_but_how_often() -> None:
    bench = merge({**OPEN, "goodput": "tpot=0.05,ttft=0.5", "arrivals": "fixed"}, {"runs": "7"})
    assert bench.load == (
        "rate 4, arrivals fixed, requests 50, input 64, output 8-16, seed 0, goodput ttft=0.5,tpot=0.05"
    )
    assert bench.title == "serve 7 × 50 requests 64+8-16, 4/s fixed"
    assert bench.size == "64+8-16 4/s"
    assert merge({}).load == ""


def test_at_a_rate_the_clients_pace_is_judged_and_else_the_throughput() -> None:
    assert merge(OPEN).judged == "user_tok_s"
    assert merge({"name": "serve"}).judged == "output_tok_s"
    assert Bench().judged == "decode_tok_s"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"rate": "0"}, "rate goes from 0.001"),
        ({"rate": "nan"}, "is not a number"),
        ({"rate": "1,,2"}, "is not a number"),
        ({"rate": "1", "concurrency": "2"}, "not both"),
        ({"requests": "5", "seconds": "5"}, "not both"),
        ({"tokens": "5"}, "--tokens is of decode"),
        ({"arrivals": "bursts"}, "is no kind of arrivals"),
        ({"input": "many"}, "is no distribution of lengths"),
        ({"input": "9-5"}, "out of bounds"),
        ({"output": "1"}, "lengths go from 2"),
        ({"output": "normal:8:2:0-20"}, "lengths go from 2"),
        ({"goodput": "ttft"}, "is no limit"),
        ({"goodput": "speed=1"}, "is no limit of a request"),
        ({"goodput": "ttft=1,ttft=2"}, "limited twice"),
        ({"goodput": "ttft=-1"}, "out of bounds"),
        ({"seed": "-1"}, "is not a whole number"),
    ],
)
def test_what_cannot_be_measured_is_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        levels({}, {"name": "serve", **given})


def test_a_parameter_of_the_other_benchmark_names_its_own() -> None:
    with pytest.raises(InputError, match="--rate is of the benchmark serve") as caught:
        merge({}, {"rate": "4"})
    assert caught.value.next_step == "--bench serve"
    with pytest.raises(InputError, match=r"bench\.input is of the benchmark serve"):
        merge({"input": "64"})


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("512", "512"),
        (" 256-768 ", "256-768"),
        ("normal:512:128", "normal:512:128:1-1024"),
        ("lognormal:512:300:16-4096", "lognormal:512:300:16-4096"),
    ],
)
def test_one_distribution_has_one_text(written: str, text: str) -> None:
    assert lengths.parse(written, "", least=1).text == text
    assert lengths.parse(text, "", least=1).text == text


def test_others_load_generators_keep_so_many_requests_at_once() -> None:
    bench = merge({}, {"name": "vllm-serve", "concurrency": "8", "output": "64", "tokenizer": "/models/t"})
    assert (bench.concurrency, bench.requests, bench.input, bench.output) == (8, 100, "512", "64")
    assert bench.judged == "output_tok_s"
    assert merge(bench.to_wire()) == bench


@pytest.mark.parametrize(
    "odd", [{"rate": "4"}, {"seconds": "10"}, {"goodput": "ttft=1"}, {"input": "256-768"}, {"tokens": "5"}]
)
def test_what_others_load_generators_do_not_know_is_refused(odd: dict[str, str]) -> None:
    with pytest.raises(InputError):
        merge({}, {"name": "vllm-serve", **odd})
