"""Runs over time: where a server became slower or faster for good, and how fast it is now.

A point is a launch, as everywhere; what disturbed runs tell is left out. The rule of the steps: change
points of the mean (``ruptures``), which count only where the medians on both sides differ by more than 3 %
and by more than four standard errors.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from stoker.results.records.points import Point

if TYPE_CHECKING:
    from stoker.results.records.summary import Summary

LEAST = 8  # points: fewer tell no step from noise
_AGREE = 3  # points on either side
_TOLERANCE = -math.log(1 - 0.03)
_LEAST_NOISE = 0.01
_RECENT = 20  # launches that tell how fast it is now
_PRIOR_DF = 4.0


@dataclass(frozen=True, order=True)
class SeriesKey:
    """What the points of one series share.

    Args:
        host: The inventory's name.
        profile: Empty for servers that were started by hand.
        engine: The engine's name.
        model: As the server reported it.
        measured: The benchmark with its parameters.
        simulated: Pretended and real never meet.
    """

    host: str
    profile: str
    engine: str
    model: str
    measured: str
    simulated: bool


@dataclass(frozen=True)
class Place:
    """A launch in a series.

    Args:
        run: The record that it is in.
        point: When and how fast.
    """

    run: Summary
    point: Point


@dataclass(frozen=True)
class Step:
    """The speed changed here, and stayed.

    Args:
        index: Of the first place after it.
        last: The last place before it.
        first: The first place after it.
        before: Median speed from the step before (or the beginning) to this one, tok/s.
        after: Median speed from here to the next step (or the end), tok/s.
    """

    index: int
    last: Place
    first: Place
    before: float
    after: float

    @property
    def change(self) -> float:
        """Relative; negative is slower."""
        return self.after / self.before - 1


@dataclass(frozen=True)
class Level:
    """How fast it is now: the mean of the latest launches since the last step.

    Args:
        tok_s: Their mean.
        low: Of the interval that holds the true mean in 19 of 20 cases.
        high: Likewise.
        launches: How many there are.
    """

    tok_s: float
    low: float
    high: float
    launches: int


@dataclass(frozen=True)
class Series:
    """One server's speed over time.

    Args:
        key: What its points share.
        runs: Every record, oldest first; also disturbed ones and those without a valid run.
        places: Each launch that counts, oldest first.
        steps: Where the speed changed for good; none where there are fewer than eight launches.
    """

    key: SeriesKey
    runs: tuple[Summary, ...]
    places: tuple[Place, ...]
    steps: tuple[Step, ...]

    @property
    def latest(self) -> Summary:
        """The newest record."""
        return self.runs[-1]

    @property
    def values(self) -> tuple[float, ...]:
        """tok/s of each launch that counts."""
        return tuple(place.point.tok_s for place in self.places)

    @property
    def level(self) -> Level | None:
        """How fast it is now; None where no launch counts."""
        since = self.steps[-1].index if self.steps else 0
        return _level([place.point for place in self.places[since:][-_RECENT:]])


def series(rows: Iterable[Summary]) -> tuple[Series, ...]:
    """Records as series, by host, profile, engine, model and benchmark with its parameters.

    Args:
        rows: As the store lists them, in any order.
    """
    groups: dict[SeriesKey, list[Summary]] = {}
    for row in rows:
        groups.setdefault(_key(row), []).append(row)
    return tuple(_series(key, groups[key]) for key in sorted(groups))


def _key(row: Summary) -> SeriesKey:
    return SeriesKey(row.host, row.profile, row.engine, row.model, row.measured, row.simulated)


def _series(key: SeriesKey, rows: list[Summary]) -> Series:
    runs = sorted(rows, key=lambda row: (row.created, row.run_id))
    places = [Place(run, point) for run in runs if not run.contaminated for point in run.points]
    places.sort(key=lambda place: place.point.at)
    return Series(key, tuple(runs), tuple(places), tuple(_steps(places)))


def _steps(places: list[Place]) -> Iterable[Step]:
    values = [place.point.tok_s for place in places]
    cuts = change_points(values)
    medians = [statistics.median(values[a:b]) for a, b in pairwise((0, *cuts, len(values)))] if cuts else []
    for number, cut in enumerate(cuts):
        yield Step(cut, places[cut - 1], places[cut], medians[number], medians[number + 1])


def change_points(values: Sequence[float]) -> list[int]:
    """Where a series of speeds changed for good.

    Args:
        values: Positive, in order of time.

    Returns:
        Index of the first value after each change; none where there are fewer than eight values.
    """
    if len(values) < LEAST:
        return []
    y = [math.log(value) for value in values]
    s = _noise(y)
    cuts = _penalised(_clipped(y, 2.5 * s), penalty=4 * s * s * math.log(len(y)))
    # A cut that proves nothing joins its two sides, which changes what the cuts beside it prove.
    while cuts:
        surplus = _surplus(y, cuts, s)
        weakest = min(range(len(cuts)), key=surplus.__getitem__)
        if surplus[weakest] > 0:
            break
        del cuts[weakest]
    return cuts


def _noise(y: Sequence[float]) -> float:
    """Standard deviation of a point, told by neighbours, so that steps do not count; at least 1 %."""
    differences = [b - a for a, b in pairwise(y)]
    middle = statistics.median(differences)
    mad = statistics.median(abs(difference - middle) for difference in differences)
    return max(_LEAST_NOISE, 1.4826 * mad / math.sqrt(2))


def _clipped(y: Sequence[float], most: float) -> list[float]:
    """Each value kept near the median of the five around it: one outlier is no step."""
    found = []
    for index, value in enumerate(y):
        middle = statistics.median(y[max(0, index - 2) : index + 3])
        found.append(min(max(value, middle - most), middle + most))
    return found


def _penalised(y: Sequence[float], *, penalty: float) -> list[int]:
    """Change points of the mean that cost least, each one costing a penalty besides."""
    import numpy as np
    from ruptures import KernelCPD

    # The linear kernel's cost is that of Pelt("l2"), compiled: ten thousand points take a second, not hours.
    fitted = KernelCPD(kernel="linear", min_size=_AGREE, jump=1).fit(np.array(y).reshape(-1, 1))
    return [int(cut) for cut in fitted.predict(pen=penalty)[:-1]]


def _surplus(y: Sequence[float], cuts: Sequence[int], s: float) -> list[float]:
    """By how much each step exceeds what it must, in ln."""
    parts = [y[a:b] for a, b in pairwise((0, *cuts, len(y)))]
    return [
        abs(statistics.median(b) - statistics.median(a))
        - max(_TOLERANCE, 4 * s * math.sqrt(1 / len(a) + 1 / len(b)))
        for a, b in pairwise(parts)
    ]


def _level(points: Sequence[Point]) -> Level | None:
    """The mean with its interval; a launch varies by 1 % before its fellows tell otherwise."""
    if not points:
        return None
    from scipy.stats import t

    y = [math.log(point.tok_s) for point in points]
    k, middle = len(y), statistics.fmean(y)
    within = statistics.fmean(point.spread**2 / point.runs for point in points)
    df = _PRIOR_DF + k - 1
    variance = (_PRIOR_DF * (_LEAST_NOISE**2 + within) + sum((v - middle) ** 2 for v in y)) / df
    half = float(t.ppf(0.975, df)) * math.sqrt(variance / k)
    return Level(math.exp(middle), math.exp(middle - half), math.exp(middle + half), k)
