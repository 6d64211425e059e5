"""The verdict rule, against the reference it was simulated with and at its edges."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from stoker.errors import InputError
from stoker.results.statistics import stats
from stoker.results.statistics.stats import Need, judge
from tests.results import verdict_ref

NEED_WORDS = {"runs": "runs", "new launches": "launches", "launches each side": "launches-each-side"}


def side(
    dice: random.Random, launches: int, runs: int, pace: float, within: float, between: float
) -> list[list[float]]:
    """Launches of runs around a pace; now and then an outlier, a drift, two clusters or equal values."""
    made = []
    for _ in range(launches):
        centre = pace * math.exp(dice.gauss(0, between))
        values = [centre * math.exp(dice.gauss(0, within)) for _ in range(runs)]
        shape = dice.random()
        if shape < 0.08:
            values[dice.randrange(runs)] *= dice.choice([0.5, 0.9, 1.2])
        elif shape < 0.16:
            values = [v * (1 + dice.choice([-0.02, 0.02]) * i) for i, v in enumerate(sorted(values))]
        elif shape < 0.24:
            values = [v * dice.choice([1.0, 1.06]) for v in values]
        elif shape < 0.28:
            values = [centre] * runs
        made.append(values)
    return made


def random_case(dice: random.Random) -> tuple[list[list[float]], list[list[float]], bool]:
    within, between = dice.choice([0.001, 0.005, 0.01, 0.02, 0.06]), dice.choice([0, 0.005, 0.01, 0.03])
    change = dice.choice([0.6, 0.71, 0.85, 0.9, 0.95, 0.97, 1, 1, 1, 1.03, 1.1, 1.41])
    pace = dice.choice([0.01, 88.8, 12000.0])
    base = side(dice, dice.randint(1, 4), dice.randint(1, 12), pace, within, between)
    new = side(dice, dice.randint(1, 4), dice.randint(1, 12), pace * change, within, between)
    if dice.random() < 0.3:  # launches of unequal length
        new = [launch[: dice.randint(1, len(launch))] for launch in new]
    return base, new, dice.random() < 0.7


@pytest.mark.parametrize("seed", range(4))
def test_judge_agrees_with_the_reference_over_random_cases(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(200):
        base, new, higher = random_case(dice)
        want: dict[str, Any] = verdict_ref.compare(base, new, higher)  # type: ignore[no-untyped-call]
        have = judge(base, new, higher_is_better=higher)
        assert have.verdict == want["verdict"], (base, new, higher)
        assert have.change == pytest.approx(want["change"], abs=1e-9)
        assert have.threshold == pytest.approx(want["T"], abs=1e-9)
        assert have.ruled_out == pytest.approx(want["ruled_out"], abs=1e-9)
        need = want["need"]
        assert have.need == (None if need is None else Need(NEED_WORDS[need[0]], int(need[1])))


@pytest.mark.parametrize("seed", range(3))
def test_a_look_of_several_agrees_with_the_reference_and_is_never_more_easily_ok(seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(200):
        base, new, higher = random_case(dice)
        want: dict[str, Any] = verdict_ref.compare(base, new, higher, sure_look=1)  # type: ignore[no-untyped-call]
        have = judge(base, new, higher_is_better=higher, again=True)
        assert have.threshold == pytest.approx(want["T"], abs=1e-9)
        assert have.verdict == want["verdict"] or (have.verdict, want["verdict"]) == ("inconclusive", "ok")


def test_random_cases_reach_every_verdict_and_every_need() -> None:
    dice = random.Random(99)
    seen = set()
    for _ in range(800):
        base, new, higher = random_case(dice)
        verdict = judge(base, new, higher_is_better=higher)
        seen |= {verdict.verdict, verdict.need.what if verdict.need else ""}
    assert seen >= set(stats.VERDICTS) - {stats.NO_BASELINE} | set(NEED_WORDS.values())


BASE = [[90.6, 90.3, 90.4, 90.5, 90.2], [88.6, 88.9, 88.7, 89.0, 88.8], [87.6, 87.9, 87.7, 87.5, 87.7]]


def test_the_storys_loss_is_a_regression_and_its_line_says_on_what_evidence() -> None:
    verdict = judge(BASE, [[63.0, 62.9, 62.9, 62.8, 62.9]])
    assert verdict.verdict == "regressed"
    assert verdict.line == "1 launch × 5 runs against 3 × 5; loss 29.3 %, threshold 4.2 %"


def test_an_equal_measurement_is_ok_and_says_which_loss_it_rules_out() -> None:
    verdict = judge(BASE, [[88.8, 88.9, 88.7, 88.8, 88.9]])
    assert verdict.verdict == "ok"
    assert "rules out a loss above 4." in verdict.line


@pytest.mark.parametrize("runs", [[88.0], [88.0, 88.1]])
def test_one_or_two_runs_are_never_ok_and_say_how_many_more(runs: list[float]) -> None:
    verdict = judge(BASE, [runs])
    assert verdict.verdict == "inconclusive"
    assert verdict.need == Need("runs", 5 - len(runs))
    assert f"{5 - len(runs)} more runs" in verdict.line


def test_one_run_regresses_only_beyond_twenty_percent() -> None:
    assert judge(BASE, [[73.0]]).verdict == "inconclusive"
    assert judge(BASE, [[62.9]]).verdict == "regressed"


def test_a_longer_time_is_a_loss_where_lower_is_better() -> None:
    verdict = judge(
        [[0.20, 0.21, 0.20, 0.19, 0.20]], [[0.26, 0.25, 0.27, 0.26, 0.25]], higher_is_better=False
    )
    assert verdict.verdict == "regressed"
    assert verdict.change is not None
    assert verdict.change < 0


def test_two_clusters_are_unstable_and_named() -> None:
    verdict = judge(BASE, [[89.0, 93.2, 89.1, 93.1, 89.05]])
    assert (verdict.verdict, verdict.why) == ("unstable", "the runs form two clusters")


def test_a_drift_is_unstable_and_named() -> None:
    verdict = judge(BASE, [[91.0, 90.0, 88.5, 87.0, 85.5]])
    assert (verdict.verdict, verdict.why) == ("unstable", "the runs drift in one direction")


def test_without_a_baseline_there_is_a_line_and_no_number() -> None:
    verdict = judge([], [[88.8] * 5])
    assert (verdict.verdict, verdict.change) == ("no-baseline", None)
    assert verdict.line == "1 launch × 5 runs; there is no baseline to compare with"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.0, -1.0])
@pytest.mark.parametrize("on_new_side", [True, False])
def test_what_is_no_positive_number_is_refused(bad: float, on_new_side: bool) -> None:
    good, spoilt = [[88.8] * 5], [[88.8, bad, 88.8]]
    with pytest.raises(InputError, match="not a positive number"):
        judge(good, spoilt) if on_new_side else judge(spoilt, good)


@pytest.mark.parametrize("new", [[], [[]], [[88.8], []]])
def test_nothing_measured_is_refused(new: list[list[float]]) -> None:
    with pytest.raises(InputError):
        judge(BASE, new)


@pytest.mark.parametrize("max_loss", [0.0, 1.0, -0.1, math.nan])
def test_a_maximal_loss_that_is_no_fraction_is_refused(max_loss: float) -> None:
    with pytest.raises(InputError, match="maximal loss"):
        judge(BASE, [[88.8] * 5], max_loss=max_loss)


def test_a_stricter_maximal_loss_turns_ok_into_inconclusive() -> None:
    new = [[88.8, 88.9, 88.7, 88.8, 88.9]]
    assert judge(BASE, new, max_loss=0.10).verdict == "ok"
    assert judge(BASE, new, max_loss=0.03).verdict == "inconclusive"
