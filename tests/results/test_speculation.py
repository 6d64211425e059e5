"""Whether speculation pays: the arithmetic, and what servers' figures come to."""

from __future__ import annotations

import pytest

from stoker.results.statistics.speculation import COSTS, OPEN, PAYS, Acceptance, acceptance, weigh

PLAIN = [[100.0, 100.4, 99.8, 100.1, 99.9]]


def launches(factor: float) -> list[list[float]]:
    return [[factor * pace for pace in launch] for launch in PLAIN]


def test_the_arithmetic_is_that_of_steps() -> None:
    found = weigh("3 steps", 4, PLAIN, launches(1.25), Acceptance(2.31, 0.44, "counters"))
    assert found.speedup == pytest.approx(1.25)
    assert found.plain_step_s == pytest.approx(4 / 100, rel=1e-3)
    assert found.step_s == pytest.approx(4 * 2.31 / 125, rel=1e-3)
    assert found.break_even == pytest.approx(2.31 / 1.25)
    assert found.word == PAYS


@pytest.mark.parametrize(("factor", "word"), [(1.3, PAYS), (0.7, COSTS), (1.0, OPEN), (1.01, OPEN)])
def test_it_pays_only_where_the_noise_allows_to_say_so(factor: float, word: str) -> None:
    assert weigh("1 step", 1, PLAIN, launches(factor), Acceptance(None, None)).word == word


def test_without_an_acceptance_length_the_paces_still_say_whether_it_pays() -> None:
    found = weigh("1 step", 1, PLAIN, launches(1.3), Acceptance(None, None))
    assert (found.step_s, found.break_even, found.word) == (None, None, PAYS)


def test_counters_of_several_launches_are_taken_together() -> None:
    seen = {"source": "counters", "tokens": 300, "accepted": 100, "drafted": 400}
    other = {"source": "counters", "tokens": 500, "accepted": 300, "drafted": 400}
    found = acceptance([{"speculation": seen}, {"speculation": other}])
    assert found == Acceptance(2.0, 0.5, "counters")


@pytest.mark.parametrize(
    "seen",
    [
        None,
        "much",
        {},
        {"source": "counters", "tokens": 0, "accepted": 0, "drafted": 0},
        {"source": "counters", "tokens": 10, "accepted": 10, "drafted": 5},
        {"source": "gauge", "length": float("nan"), "rate": True},
    ],
)
def test_figures_that_cannot_be_are_none(seen: object) -> None:
    found = acceptance([{"speculation": seen}])
    assert (found.length, found.rate) == (None, None)


def test_an_engines_own_average_is_named_as_one() -> None:
    found = acceptance([{"speculation": {"source": "gauge", "length": 2.4, "rate": 0.6}}])
    assert found == Acceptance(2.4, 0.6, "gauge")
