"""Is this the cause? Launches with and without it in the order A B B A, and what restoring it brought.

In that order a drift of the machine (it warms up, a neighbour comes) falls on both sides alike: A B A B and
A A B B do not keep it out. The effect is the coefficient of "restored" in a least-squares fit of the launch
means over time, on y = ln(x) (−ln(x) where lower is better): a positive effect is always a gain.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.errors import InputError
from stoker.results.statistics import noise

CONFIRMED = "confirmed"
NOT_THE_CAUSE = "not the cause"
UNDECIDED = "undecided"

_STANDARD_ERRORS = 3.0
_TOLERANCE = -math.log(1 - 0.03)


@dataclass(frozen=True)
class Point:
    """One launch of the experiment.

    Args:
        at_s: When it was measured, seconds since any fixed moment.
        restored: Whether the suspected cause was taken back in it.
        runs: Its valid runs, in their unit.
    """

    at_s: float
    restored: bool
    runs: Sequence[float]


@dataclass(frozen=True)
class Effect:
    """What restoring brought.

    Args:
        verdict: ``confirmed``, ``not the cause`` or ``undecided``.
        change: Relative, positive is a gain: 0.41 is 41 % faster.
        low: The least change that three standard errors leave, relative.
        high: The largest one.
        without: Mean of the launches without it, in the runs' unit.
        restored: Mean of the launches with it.
        share: How much of the loss it makes good, 0..1 and beyond; None where the loss is not known.
        line: All of it for people, on one line.
    """

    verdict: str
    change: float
    low: float
    high: float
    without: float
    restored: float
    share: float | None
    line: str


def order(pairs: int = 1) -> tuple[bool, ...]:
    """Which launches have the cause restored, in turn: A B B A, again and again.

    Args:
        pairs: How often.
    """
    return (False, True, True, False) * pairs


def effect(points: Sequence[Point], loss: float | None = None, *, higher_is_better: bool = True) -> Effect:
    """What restoring brought, and whether it explains the loss.

    Confirmed is a gain beyond three standard errors. It is not the cause where even the largest gain that
    they leave makes good less than half of the loss (or, where the loss is not known, less than 3 %).

    Args:
        points: At least two launches of each kind.
        loss: The loss that is to be explained, 0..1.
        higher_is_better: True for tok/s, False for seconds.

    Raises:
        InputError: Too few launches, or a value that is no positive number.
    """
    kinds = [point.restored for point in points]
    if min(kinds.count(True), kinds.count(False)) < 2:
        raise InputError("two launches of each kind are needed")
    noise.checked([point.runs for point in points], "the experiment")
    gain, error = _fit(points, higher_is_better)
    half = _STANDARD_ERRORS * error
    sought = -math.log(1 - loss) if loss else None
    verdict = UNDECIDED
    if gain > half:
        verdict = CONFIRMED
    elif gain + half < (sought / 2 if sought else _TOLERANCE):
        verdict = NOT_THE_CAUSE
    without, restored = (_middle(points, kind) for kind in (False, True))
    return _told(verdict, gain, half, without, restored, gain / sought if sought else None)


def _fit(points: Sequence[Point], higher_is_better: bool) -> tuple[float, float]:
    """(the gain in ln, its standard error), of a fit with a line of drift."""
    import numpy as np

    launches = noise.logs([point.runs for point in points], higher_is_better=higher_is_better)
    inner, _ = noise.within(launches)
    y = np.array([noise.location(launch) for launch in launches])
    at = np.array([point.at_s for point in points])
    at = (at - at.mean()) / (np.ptp(at) or 1.0)
    columns = np.column_stack([np.ones(len(y)), at, [float(point.restored) for point in points]])
    fitted = np.linalg.lstsq(columns, y, rcond=None)[0]
    deviations = float(((y - columns @ fitted) ** 2).sum())
    variance = noise.between(inner, min(map(len, launches)), deviations, max(0, len(y) - 3))
    shape = np.linalg.pinv(columns.T @ columns)[2, 2]
    return float(fitted[2]), math.sqrt(variance * float(shape))


def _middle(points: Sequence[Point], restored: bool) -> float:
    """Geometric mean of the launches of one kind, in the runs' unit."""
    own = [noise.location([math.log(x) for x in p.runs]) for p in points if p.restored is restored]
    return math.exp(statistics.fmean(own))


def _told(
    verdict: str, gain: float, half: float, without: float, restored: float, share: float | None
) -> Effect:
    low, change, high = (math.expm1(value) for value in (gain - half, gain, gain + half))
    part = f", {100 * share:.0f} % of the loss" if share is not None and verdict == CONFIRMED else ""
    line = (
        f"{verdict}: {without:.1f} without, {restored:.1f} with it restored; "
        f"{100 * change:+.1f} % ({100 * low:+.1f} to {100 * high:+.1f} %){part}"
    )
    return Effect(verdict, change, low, high, without, restored, share, line)
