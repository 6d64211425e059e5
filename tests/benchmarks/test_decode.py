"""A benchmark's parameters: defaults, the profile's, the command line's, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.benchmarks import Bench, merge
from stoker.errors import InputError


def test_the_defaults_are_five_runs_of_500_tokens_alone() -> None:
    assert merge({}) == Bench("decode", 5, 500, 1)


def test_the_command_line_wins_over_the_profile_and_what_is_not_given_stays() -> None:
    profile = {"name": "decode", "runs": 3, "tokens": 100, "concurrency": 8}
    assert merge(profile, {"runs": "10", "tokens": None}) == Bench("decode", 10, 100, 8)


@pytest.mark.parametrize("name", ["runs", "tokens", "concurrency"])
@pytest.mark.parametrize("value", ["abc", "", "-3", "0", "1.5", "1e3", "²", True, 2.0, [], "9" * 30])
def test_a_number_that_is_none_is_named_with_its_place(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        merge({}, {name: value})
    assert caught.value.where == f"--{name}"
    with pytest.raises(InputError) as caught:
        merge({name: value})
    assert caught.value.where == f"bench.{name}"


def test_one_token_has_no_pace() -> None:
    with pytest.raises(InputError, match="tokens goes from 2 to"):
        merge({"tokens": 1})


def test_an_unknown_benchmark_names_the_nearest() -> None:
    with pytest.raises(InputError, match="'decod' is no benchmark") as caught:
        merge({}, {"name": "decod"})
    assert (caught.value.where, caught.value.next_step) == ("--bench", "did you mean 'decode'?")


def test_an_unknown_parameter_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"bench\.token is not known") as caught:
        merge({"token": 5})
    assert caught.value.next_step == "did you mean 'tokens'?"


def test_it_travels_as_json_and_reads_for_people() -> None:
    bench = merge({"concurrency": 8})
    assert bench.to_wire() == {"name": "decode", "runs": 5, "tokens": 500, "concurrency": 8}
    assert bench.title == "decode 5 × 500 tokens, concurrency 8"
