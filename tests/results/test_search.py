"""The smallest set that explains a loss: found exactly, with few launches, through noise."""

from __future__ import annotations

import math
import random

import pytest

from stoker.errors import InputError
from stoker.results.statistics.search import MOST_LAUNCHES, Names, Scale, Search, scale


def names(count: int) -> list[str]:
    return [f"VAR_{index:02}" for index in range(count)]


@pytest.mark.parametrize("planted", [{"VAR_03"}, {"VAR_00", "VAR_07"}, {"VAR_01", "VAR_02", "VAR_09"}])
def test_the_planted_set_is_found_and_no_question_is_asked_twice(planted: set[str]) -> None:
    asked: list[Names] = []

    def is_slow(trial: Names) -> bool:
        asked.append(trial)
        return planted <= trial

    assert set(Search(names(12), is_slow).smallest()) == planted
    assert len(asked) == len(set(asked))
    assert len(asked) <= 40


def test_one_difference_is_the_answer_without_a_question() -> None:
    assert Search(["ONLY"], lambda trial: pytest.fail("nothing is to be asked")).smallest() == ("ONLY",)


def launch(dice: random.Random, mean: float, sd: float) -> list[float]:
    centre = mean + dice.gauss(0, sd)
    return [math.exp(centre + dice.gauss(0, 0.005)) for _ in range(5)]


@pytest.mark.parametrize(("loss", "sd"), [(0.10, 0.014), (0.29, 0.022)])
def test_planted_sets_are_found_through_noise(loss: float, sd: float) -> None:
    """One to three among 8 to 16: exactly, in every search."""
    dice = random.Random(11)
    for _ in range(12):
        among = names(dice.randint(8, 16))
        planted = set(dice.sample(among, dice.randint(1, 3)))
        good, slow = math.log(90), math.log(90) + math.log(1 - loss)
        known = scale([launch(dice, good, sd) for _ in range(6)], [launch(dice, slow, sd) for _ in range(6)])

        def is_slow(
            trial: Names,
            planted: set[str] = planted,
            known: Scale = known,
            good: float = good,
            slow: float = slow,
        ) -> bool:
            launches: list[list[float]] = []
            verdict = None
            while verdict is None:
                launches.append(launch(dice, slow if planted <= trial else good, sd))
                verdict = known.verdict(launches)
            assert len(launches) <= MOST_LAUNCHES
            return verdict

        assert set(Search(among, is_slow).smallest()) == planted


def test_a_clear_loss_takes_one_launch_a_question_and_a_faint_one_says_so() -> None:
    clear, faint = Scale(0.0, -0.34, 0.01), Scale(0.0, -0.02, 0.01)
    assert (clear.clear, clear.launches()) == (True, 1)
    assert not faint.clear
    assert faint.launches() > 3
    assert clear.loss == pytest.approx(1 - math.exp(-0.34))


def test_a_slow_side_that_is_not_slower_is_refused() -> None:
    with pytest.raises(InputError, match="no loss"):
        scale([[90.0] * 5], [[95.0] * 5])
    with pytest.raises(InputError, match="not a positive number"):
        scale([[90.0, math.nan]], [[80.0]])
