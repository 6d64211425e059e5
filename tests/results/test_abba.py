"""Is it the cause: what ABBA finds, what it does not, and how often it errs."""

from __future__ import annotations

import math
import random

import pytest

from stoker.errors import InputError
from stoker.results.statistics.abba import CONFIRMED, NOT_THE_CAUSE, UNDECIDED, Point, effect, order


def points(
    dice: random.Random,
    gain: float,
    *,
    drift: float = 0.0,
    within: float = 0.01,
    between: float = 0.01,
    pairs: int = 1,
) -> list[Point]:
    """Launches in ABBA order, a minute apart, at 90 tok/s."""
    made = []
    for index, restored in enumerate(order(pairs)):
        mean = math.log(90) + (gain if restored else 0) + drift * index + dice.gauss(0, between)
        made.append(Point(60.0 * index, restored, [math.exp(mean + dice.gauss(0, within)) for _ in range(5)]))
    return made


def test_the_order_is_a_b_b_a() -> None:
    assert order() == (False, True, True, False)
    assert order(2) == (False, True, True, False, False, True, True, False)


def test_the_storys_loss_is_confirmed_with_both_numbers_and_its_share() -> None:
    gain = math.log(90 / 63.6)
    found = effect(points(random.Random(1), gain, within=0.003, between=0.003), 0.293)
    assert found.verdict == CONFIRMED
    assert found.low < found.change < found.high
    assert found.change == pytest.approx(math.expm1(gain), abs=0.03)
    assert found.share == pytest.approx(1, abs=0.1)
    assert f"{found.without:.1f} without, {found.restored:.1f} with it restored" in found.line


def test_what_changes_nothing_is_not_the_cause_of_a_large_loss() -> None:
    assert effect(points(random.Random(2), 0.0), 0.293).verdict == NOT_THE_CAUSE


def test_noise_larger_than_the_loss_decides_nothing() -> None:
    dice = random.Random(3)
    found = [effect(points(dice, 0.0), 0.03).verdict for _ in range(200)]
    assert found.count(UNDECIDED) > 180


def test_a_steady_drift_is_no_effect() -> None:
    found = effect(points(random.Random(4), 0.0, drift=-0.05, within=1e-4, between=1e-4), 0.293)
    assert abs(found.change) < 0.01


def test_a_drift_is_no_effect_where_an_interruption_spread_the_launches() -> None:
    """The order alone cancels it only where launches follow each other at equal distances."""
    made = []
    for at_s, restored in zip((0.0, 60.0, 120.0, 3600.0), order(), strict=True):
        pace = 90 * math.exp(-0.3 * at_s / 3600)
        made.append(Point(at_s, restored, [pace, pace * 1.0001, pace * 0.9999]))
    found = effect(made, 0.293)
    assert abs(found.change) < 0.01
    assert found.verdict == NOT_THE_CAUSE


def test_seconds_gain_by_falling() -> None:
    made = [Point(p.at_s, p.restored, [1 / x for x in p.runs]) for p in points(random.Random(5), 0.3)]
    found = effect(made, 0.26, higher_is_better=False)
    assert found.verdict == CONFIRMED
    assert found.restored < found.without


@pytest.mark.parametrize(("gain", "least", "most"), [(0.0, 0.0, 0.02), (math.log(1 / 0.71), 0.99, 1.0)])
def test_how_often_it_is_confirmed(gain: float, least: float, most: float) -> None:
    dice = random.Random(6)
    found = [effect(points(dice, gain), 0.29).verdict for _ in range(300)]
    assert least <= found.count(CONFIRMED) / 300 <= most


def test_one_launch_of_a_kind_is_too_few() -> None:
    with pytest.raises(InputError):
        effect([Point(0, False, [1.0]), Point(1, True, [1.0]), Point(2, True, [1.0])])
