"""Is it slower? The verdict over launches of runs.

The unit of evidence is the *launch*: a restart shifts the mean by more than the runs within one launch tell,
so that tests over pooled runs raise false alarms. A loss counts when it exceeds both 3 % and three standard
errors of launch means. Everything is computed on y = ln(x), or −ln(x) where lower is better: a negative
change is always worse.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stoker.errors import InputError

OK = "ok"
REGRESSED = "regressed"
IMPROVED = "improved"
UNSTABLE = "unstable"
INCONCLUSIVE = "inconclusive"
NO_BASELINE = "no-baseline"
VERDICTS = (OK, REGRESSED, IMPROVED, UNSTABLE, INCONCLUSIVE, NO_BASELINE)

MAX_LOSS = 0.10

_STANDARD_ERRORS = 3.0
_TOLERANCE = -math.log(1 - 0.03)
_WITH_ONE_RUN = -math.log(1 - 0.20)
_WITH_TWO_RUNS = -math.log(1 - 0.10)
_UNSTABLE_LOSS = -math.log(1 - 0.15)
_UNSTABLE_SPREAD = 0.04
_DRIFT = 0.05
_CLUSTER_GAP = 0.03
# Priors, worth four degrees of freedom each: 1 % within a launch and 1 % between launches.
_PRIOR_DF = 4.0
_PRIOR_WITHIN = 0.01
_PRIOR_BETWEEN = 0.01
# What makes the SD of n − 1 of n runs (the farthest dropped) an estimate of σ, by n.
_SPREAD_FACTOR = {3: 2.40, 4: 1.66, 5: 1.45, 6: 1.37, 7: 1.31, 8: 1.27, 9: 1.25, 10: 1.23}
# Variance of a launch's location in units of σ²/n, by n; 1.13 from five runs on.
_LOCATION_FACTOR = {1: 1.0, 2: 1.0, 3: 1.35, 4: 1.19}

Launches = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Need:
    """What would decide an inconclusive comparison.

    Args:
        what: ``runs``, ``launches`` (new ones) or ``launches-each-side``.
        count: How many more; for ``launches-each-side``, how many in all.
    """

    what: str
    count: int

    def __str__(self) -> str:
        plural = "" if self.count == 1 else "s"
        if self.what == "runs":
            return f"{self.count} more run{plural} a launch"
        if self.what == "launches":
            return f"{self.count} more launch{'es' if plural else ''}"
        return f"{self.count} launch{'es' if plural else ''} on each side"


@dataclass(frozen=True)
class Verdict:
    """Whether the new launches are as fast as the baseline's.

    Args:
        verdict: One of ``VERDICTS``.
        change: Relative, negative is worse: −0.293 is a loss of 29.3 %; None without a baseline.
        threshold: The loss that had to be exceeded, 0..1; None without a baseline.
        ruled_out: A loss as large as this, 0..1, is ruled out; None without a baseline.
        need: What would decide; None where it is decided.
        why: Why it is not decided, or unstable; empty otherwise.
        line: All of it for people, on one line.
    """

    verdict: str
    change: float | None = None
    threshold: float | None = None
    ruled_out: float | None = None
    need: Need | None = None
    why: str = ""
    line: str = ""


@dataclass(frozen=True)
class _Evidence:
    """The figures that the rule decides on, all in ln.

    Args:
        d: New minus baseline, with few runs as favourable to the new side as they allow.
        d_up: The same, as unfavourable as they allow: what an improvement must show.
        h: Three standard errors of d.
        s: Standard deviation between launches.
        spread: Pooled standard deviation within launches, as observed.
    """

    d: float
    d_up: float
    h: float
    s: float
    spread: float


def judge(
    base: Launches, new: Launches, *, higher_is_better: bool = True, max_loss: float = MAX_LOSS
) -> Verdict:
    """Compare launches of runs by the rule.

    Args:
        base: The baseline's launches, each a list of runs; none gives ``no-baseline``.
        new: The new launches, likewise.
        higher_is_better: True for tok/s, False for seconds.
        max_loss: The loss that ``ok`` must rule out, 0..1.

    Raises:
        InputError: A value that is not a positive finite number, an empty launch, or no new launch.
    """
    if not 0 < max_loss < 1:
        raise InputError(f"a maximal loss of {max_loss} is not between 0 and 1")
    _check(base, "the baseline")
    _check(new, "the new measurement")
    if not new:
        raise InputError("there is nothing measured to judge")
    if not base:
        return Verdict(NO_BASELINE, line=f"{_shape(new)}; there is no baseline to compare with")
    sign = 1 if higher_is_better else -1
    b = [[sign * math.log(x) for x in launch] for launch in base]
    x = [[sign * math.log(x) for x in launch] for launch in new]
    evidence = _weigh(b, x)
    runs = sum(len(launch) for launch in x)
    few = {1: _WITH_ONE_RUN, 2: _WITH_TWO_RUNS}.get(runs, 0.0)
    threshold = max(_TOLERANCE, evidence.h, few)
    limit = -math.log(1 - max_loss)
    shaky = _shaky(evidence.spread, x)
    name = _decide(evidence, threshold, limit, runs, bool(shaky))
    need = _need(evidence, limit, b, x) if name == INCONCLUSIVE else None
    change, bar = math.expm1(evidence.d), -math.expm1(-threshold)
    ruled_out = -math.expm1(min(0.0, evidence.d - evidence.h))
    parts = [f"{_shape(new)} against {_numbers(base)}"]
    parts.append(f"{'loss' if change < 0 else 'gain'} {100 * abs(change):.1f} %, threshold {100 * bar:.1f} %")
    parts += [f"rules out a loss above {100 * ruled_out:.1f} %"] if name == OK else []
    parts += [shaky] if name == UNSTABLE else []
    parts += [f"to decide: {need}"] if need else []
    why = shaky if name == UNSTABLE else ""
    return Verdict(name, change, bar, ruled_out, need, why, "; ".join(parts))


def _check(launches: Launches, side: str) -> None:
    for launch in launches:
        if not launch:
            raise InputError(f"{side} has a launch without a valid run")
        for value in launch:
            # NaN makes every comparison false, so that a gate behind it would pass.
            if isinstance(value, bool) or not math.isfinite(value) or value <= 0:
                raise InputError(f"{side} has a value that is not a positive number: {value}")


def _weigh(base: list[list[float]], new: list[list[float]]) -> _Evidence:
    n_base, n_new = len(base), len(new)
    few_base, few_new = min(map(len, base)), min(map(len, new))
    within, spread = _within(base + new)
    m_base = [_location(launch, statistics.fmean) for launch in base]
    m_new = [_location(launch, max) for launch in new]
    m_low = [_location(launch, min) for launch in new]
    # With one or two runs a launch's location is picked, not estimated: it says nothing about launches.
    counts = few_new >= 3
    squares = _squares(m_base) + (_squares(m_new) if counts else 0.0)
    df = _PRIOR_DF + n_base - 1 + (n_new - 1 if counts else 0)
    prior = _PRIOR_DF * (_PRIOR_BETWEEN**2 + within * _location_variance(few_base))
    variance = (prior + squares) / df
    extra = max(0.0, _location_variance(few_new) - _location_variance(few_base)) * within / n_new
    error = math.sqrt(variance * (1 / n_base + 1 / n_new) + extra)
    middle = statistics.fmean(m_base)
    return _Evidence(
        d=statistics.fmean(m_new) - middle,
        d_up=statistics.fmean(m_low) - middle,
        h=_STANDARD_ERRORS * error,
        s=math.sqrt(variance),
        spread=spread,
    )


def _within(launches: list[list[float]]) -> tuple[float, float]:
    """(variance within a launch with its prior, SD within as observed; 0 where no launch has three runs)."""
    squares = df = 0.0
    for launch in launches:
        if len(launch) >= 3:
            worth = 0.6 * (len(launch) - 1)
            squares += worth * _spread(launch) ** 2
            df += worth
    pooled = (_PRIOR_DF * _PRIOR_WITHIN**2 + squares) / (_PRIOR_DF + df)
    return pooled, math.sqrt(squares / df) if df else 0.0


def _spread(launch: Sequence[float]) -> float:
    """SD of the runs without the one farthest from the median, corrected for the dropping."""
    middle = statistics.median(launch)
    farthest = max(range(len(launch)), key=lambda i: abs(launch[i] - middle))
    rest = [y for i, y in enumerate(launch) if i != farthest]
    mean = statistics.fmean(rest)
    variance = sum((y - mean) ** 2 for y in rest) / (len(rest) - 1)
    return _SPREAD_FACTOR[min(len(launch), 10)] * math.sqrt(variance)


def _location(launch: Sequence[float], pick: Callable[[Sequence[float]], float]) -> float:
    """A launch's location: picked from one or two runs, the median of three or four, else a trimmed mean."""
    n = len(launch)
    if n <= 2:
        return pick(launch)
    if n <= 4:
        return statistics.median(launch)
    cut = int(0.2 * n)
    return statistics.fmean(sorted(launch)[cut : n - cut])


def _location_variance(n: int) -> float:
    return _LOCATION_FACTOR.get(n, 1.13) / n


def _squares(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    return sum((v - mean) ** 2 for v in values)


def _shaky(spread: float, new: list[list[float]]) -> str:
    """Why the new runs are no steady measurement; empty where they are."""
    if spread > _UNSTABLE_SPREAD:
        return f"runs of one launch spread by {100 * spread:.1f} %"
    if any(len(launch) >= 5 and _drifts(launch) for launch in new):
        return "the runs drift in one direction"
    if any(len(launch) >= 5 and _clusters(launch) for launch in new):
        return "the runs form two clusters"
    return ""


def _drifts(launch: Sequence[float]) -> bool:
    steps = [b - a for a, b in pairwise(launch)]
    monotone = all(step > 0 for step in steps) or all(step < 0 for step in steps)
    return monotone and abs(launch[-1] - launch[0]) > _DRIFT


def _clusters(launch: Sequence[float]) -> bool:
    """Whether one gap, with two runs or more on either side, dwarfs the spread on both sides of it."""
    s = sorted(launch)
    first = max(range(2, len(s) - 1), key=lambda i: s[i] - s[i - 1])  # of the upper cluster
    gap = s[first] - s[first - 1]
    widest = max(s[first - 1] - s[0], s[-1] - s[first], 0.003)
    return gap > _CLUSTER_GAP and gap > 4 * widest


def _decide(evidence: _Evidence, threshold: float, limit: float, runs: int, shaky: bool) -> str:
    noisy = evidence.spread > _UNSTABLE_SPREAD
    if evidence.d < -threshold and not (noisy and evidence.d > -_UNSTABLE_LOSS):
        return REGRESSED
    if shaky:
        return UNSTABLE
    if evidence.d_up > threshold:
        return IMPROVED
    if runs >= 3 and evidence.d - evidence.h > -limit:
        return OK
    return INCONCLUSIVE


def _need(evidence: _Evidence, limit: float, base: list[list[float]], new: list[list[float]]) -> Need:
    runs = min(map(len, new))
    if runs < 5:
        return Need("runs", 5 - runs)
    g = max(abs(evidence.d), limit - abs(evidence.d))
    s2 = evidence.s**2
    rest = g * g / (_STANDARD_ERRORS**2 * s2) - 1 / len(base)
    if rest > 1 / 6:  # more than six new launches are better spent on both sides
        return Need("launches", max(1, math.ceil(1 / rest) - len(new)))
    return Need("launches-each-side", math.ceil(18 * s2 / g**2))


def _numbers(launches: Launches) -> str:
    """``3 × 5``: launches and runs a launch."""
    counts = sorted({len(launch) for launch in launches})
    return f"{len(launches)} × " + (f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}")


def _shape(launches: Launches) -> str:
    """``1 launch × 5 runs``."""
    count, _, runs = _numbers(launches).partition(" × ")
    launch = "launch" if count == "1" else "launches"
    return f"{count} {launch} × {runs} run{'' if runs == '1' else 's'}"
