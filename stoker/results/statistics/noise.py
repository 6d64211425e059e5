"""What launches tell of the noise: where a launch lies, the spread within it, the SD between launches.

Everything here takes y = ln(x), or −ln(x) where lower is better, so that differences are relative.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from stoker.errors import InputError

# Priors, worth four degrees of freedom each: 1 % within a launch and 1 % between launches.
PRIOR_DF = 4.0
_PRIOR_WITHIN = 0.01
_PRIOR_BETWEEN = 0.01
# What makes the SD of n − 1 of n runs (the farthest dropped) an estimate of σ, by n.
_SPREAD_FACTOR = {3: 2.40, 4: 1.66, 5: 1.45, 6: 1.37, 7: 1.31, 8: 1.27, 9: 1.25, 10: 1.23}
# Variance of a launch's location in units of σ²/n, by n; 1.13 from five runs on.
_LOCATION_FACTOR = {1: 1.0, 2: 1.0, 3: 1.35, 4: 1.19}

Launches = Sequence[Sequence[float]]


def checked(launches: Launches, side: str) -> None:
    """See that every launch has runs and every run is a positive number.

    Args:
        launches: In their own unit.
        side: What they are, for the message.

    Raises:
        InputError: They are not.
    """
    for launch in launches:
        if not launch:
            raise InputError(f"{side} has a launch without a valid run")
        for value in launch:
            # NaN makes every comparison false, so that a gate behind it would pass.
            if isinstance(value, bool) or not math.isfinite(value) or value <= 0:
                raise InputError(f"{side} has a value that is not a positive number: {value}")


def logs(launches: Launches, *, higher_is_better: bool = True) -> list[list[float]]:
    """Values as y: a larger one is always better."""
    sign = 1 if higher_is_better else -1
    return [[sign * math.log(x) for x in launch] for launch in launches]


def location(launch: Sequence[float], pick: Callable[[Sequence[float]], float] = statistics.fmean) -> float:
    """A launch's location: the median of three or four runs, of more a trimmed mean.

    Args:
        launch: Its runs.
        pick: Takes it from one or two, which are too few to estimate one.
    """
    n = len(launch)
    if n <= 2:
        return pick(launch)
    if n <= 4:
        return statistics.median(launch)
    cut = int(0.2 * n)
    return statistics.fmean(sorted(launch)[cut : n - cut])


def location_variance(n: int) -> float:
    """Variance of the location of n runs, in units of σ² within a launch."""
    return _LOCATION_FACTOR.get(n, 1.13) / n


def within(launches: Launches) -> tuple[float, float]:
    """(variance within a launch with its prior, SD within as observed; 0 where no launch has three runs)."""
    total = df = 0.0
    for launch in launches:
        if len(launch) >= 3:
            worth = 0.6 * (len(launch) - 1)
            total += worth * _spread(launch) ** 2
            df += worth
    pooled = (PRIOR_DF * _PRIOR_WITHIN**2 + total) / (PRIOR_DF + df)
    return pooled, math.sqrt(total / df) if df else 0.0


def between(inner: float, runs: int, deviations: float, df: float) -> float:
    """Variance between launches: a prior and what was seen, by their degrees of freedom.

    Args:
        inner: Variance within a launch.
        runs: Of a launch.
        deviations: Sum of squares of launch locations around what is fitted to them.
        df: Its degrees of freedom.
    """
    prior = PRIOR_DF * (_PRIOR_BETWEEN**2 + inner * location_variance(runs))
    return (prior + deviations) / (PRIOR_DF + df)


def squares(values: Sequence[float]) -> float:
    """Sum of squares around the mean."""
    mean = statistics.fmean(values)
    return sum((v - mean) ** 2 for v in values)


def _spread(launch: Sequence[float]) -> float:
    """SD of the runs without the one farthest from the median, corrected for the dropping."""
    middle = statistics.median(launch)
    farthest = max(range(len(launch)), key=lambda i: abs(launch[i] - middle))
    rest = [y for i, y in enumerate(launch) if i != farthest]
    mean = statistics.fmean(rest)
    variance = sum((y - mean) ** 2 for y in rest) / (len(rest) - 1)
    return _SPREAD_FACTOR[min(len(launch), 10)] * math.sqrt(variance)
