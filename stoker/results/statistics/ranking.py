"""Which of many settings is fastest: means over launches, with what the noise leaves open."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.results.statistics import noise

_STANDARD_ERRORS = 3.0


@dataclass(frozen=True)
class Rank:
    """One setting.

    Args:
        name: Its name.
        value: Mean over its launches, in the runs' unit.
        low: The least that three standard errors leave.
        high: The most.
        launches: How many it was measured on.
        ties: Whether the noise does not tell it from the best.
    """

    name: str
    value: float
    low: float
    high: float
    launches: int
    ties: bool


def rank(measured: Mapping[str, Sequence[Sequence[float]]], *, higher_is_better: bool = True) -> list[Rank]:
    """Settings, the best first.

    The SD between launches is pooled over all settings: one launch each says nothing of its own.

    Args:
        measured: Setting to its launches, each its runs; a setting without launches is left out.
        higher_is_better: True for tok/s, False for seconds.
    """
    sides = {
        name: noise.logs(runs, higher_is_better=higher_is_better) for name, runs in measured.items() if runs
    }
    if not sides:
        return []
    every = [launch for side in sides.values() for launch in side]
    inner, _ = noise.within(every)
    means = {name: [noise.location(launch) for launch in side] for name, side in sides.items()}
    deviations = sum(noise.squares(side) for side in means.values())
    df = sum(len(side) - 1 for side in means.values())
    sd = math.sqrt(noise.between(inner, min(map(len, every)), deviations, df))
    middle = {name: statistics.fmean(side) for name, side in means.items()}
    best = max(middle, key=lambda name: middle[name])
    sign = 1 if higher_is_better else -1
    ranks = []
    for name in sorted(middle, key=lambda name: -middle[name]):
        half = _STANDARD_ERRORS * sd / math.sqrt(len(means[name]))
        apart = _STANDARD_ERRORS * sd * math.sqrt(1 / len(means[name]) + 1 / len(means[best]))
        low, value, high = sorted(math.exp(sign * (middle[name] + step)) for step in (-half, 0.0, half))
        ties = name != best and middle[best] - middle[name] < apart
        ranks.append(Rank(name, value, low, high, len(means[name]), ties))
    return ranks
