"""The best setting first, with what the noise leaves open."""

from __future__ import annotations

import pytest

from stoker.results.statistics.ranking import rank

FAST, SLOW = [100.0, 101.0, 99.0, 100.5, 99.5], [80.0, 80.5, 79.5, 80.2, 79.8]


def test_the_best_comes_first_with_its_interval() -> None:
    ranks = rank({"slow": [SLOW], "fast": [FAST], "none": []})
    assert [one.name for one in ranks] == ["fast", "slow"]
    assert ranks[0].low < ranks[0].value < ranks[0].high
    assert ranks[0].value == pytest.approx(100, rel=0.01)
    assert not ranks[1].ties


def test_what_the_noise_does_not_tell_apart_ties_and_more_launches_tell() -> None:
    near = [x * 0.97 for x in FAST]
    assert rank({"a": [FAST], "b": [near]})[1].ties
    assert not rank({"a": [FAST] * 12, "b": [near] * 12})[1].ties


def test_seconds_rank_the_other_way() -> None:
    ranks = rank({"long": [[1 / x for x in SLOW]], "short": [[1 / x for x in FAST]]}, higher_is_better=False)
    assert [one.name for one in ranks] == ["short", "long"]
    assert ranks[0].low < ranks[0].value < ranks[0].high


def test_nothing_measured_ranks_nothing() -> None:
    assert rank({}) == []
