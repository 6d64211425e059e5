"""Is it slower? The verdict over launches of runs.

The unit of evidence is the *launch*: a restart shifts the mean by more than the runs within one launch tell,
so that tests over pooled runs raise false alarms. A loss counts when it exceeds both 3 % and three standard
errors of launch means. Everything is computed on y = ln(x), or −ln(x) where lower is better: a negative
change is always worse.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stoker.errors import InputError
from stoker.results.statistics import noise
from stoker.results.statistics.noise import Launches

OK = "ok"
REGRESSED = "regressed"
IMPROVED = "improved"
UNSTABLE = "unstable"
INCONCLUSIVE = "inconclusive"
NO_BASELINE = "no-baseline"
VERDICTS = (OK, REGRESSED, IMPROVED, UNSTABLE, INCONCLUSIVE, NO_BASELINE)

MAX_LOSS = 0.10

_STANDARD_ERRORS = 3.0
# Of one look among up to five.
_SURE = 0.998
_TOLERANCE = -math.log(1 - 0.03)
_WITH_ONE_RUN = -math.log(1 - 0.20)
_WITH_TWO_RUNS = -math.log(1 - 0.10)
_UNSTABLE_LOSS = -math.log(1 - 0.15)
_UNSTABLE_SPREAD = 0.04
_DRIFT = 0.05
_CLUSTER_GAP = 0.03


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
    base: Launches,
    new: Launches,
    *,
    higher_is_better: bool = True,
    max_loss: float = MAX_LOSS,
    again: bool = False,
) -> Verdict:
    """Compare launches of runs by the rule.

    Args:
        base: The baseline's launches, each a list of runs; none gives ``no-baseline``.
        new: The new launches, likewise.
        higher_is_better: True for tok/s, False for seconds.
        max_loss: The loss that ``ok`` must rule out, 0..1.
        again: One look of several while launches are added until it is sure: each look could be the false
            alarm, so that more is demanded of it, of ``ok`` too.

    Raises:
        InputError: A value that is not a positive finite number, an empty launch, or no new launch.
    """
    if not 0 < max_loss < 1:
        raise InputError(f"a maximal loss of {max_loss} is not between 0 and 1")
    noise.checked(base, "the baseline")
    noise.checked(new, "the new measurement")
    if not new:
        raise InputError("there is nothing measured to judge")
    if not base:
        return Verdict(NO_BASELINE, line=f"{_shape(new)}; there is no baseline to compare with")
    b, x = (noise.logs(side, higher_is_better=higher_is_better) for side in (base, new))
    evidence = _weigh(b, x, again)
    runs = sum(len(launch) for launch in x)
    few = {1: _WITH_ONE_RUN, 2: _WITH_TWO_RUNS}.get(runs, 0.0)
    threshold = max(_TOLERANCE, evidence.h, few)
    limit = -math.log(1 - max_loss)
    shaky = _shaky(evidence.spread, x)
    name = _decide(evidence, threshold, limit, runs, bool(shaky))
    if again and name == OK and evidence.d + evidence.h > limit:
        name = INCONCLUSIVE
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


def _weigh(base: list[list[float]], new: list[list[float]], again: bool = False) -> _Evidence:
    n_base, n_new = len(base), len(new)
    few_base, few_new = min(map(len, base)), min(map(len, new))
    within, spread = noise.within(base + new)
    m_base = [noise.location(launch, statistics.fmean) for launch in base]
    m_new = [noise.location(launch, max) for launch in new]
    m_low = [noise.location(launch, min) for launch in new]
    # With one or two runs a launch's location is picked, not estimated: it says nothing about launches.
    counts = few_new >= 3
    squares = noise.squares(m_base) + (noise.squares(m_new) if counts else 0.0)
    df = n_base - 1 + (n_new - 1 if counts else 0)
    variance = noise.between(within, few_base, squares, df)
    extra = max(0.0, noise.location_variance(few_new) - noise.location_variance(few_base)) * within / n_new
    error = math.sqrt(variance * (1 / n_base + 1 / n_new) + extra)
    middle = statistics.fmean(m_base)
    return _Evidence(
        d=statistics.fmean(m_new) - middle,
        d_up=statistics.fmean(m_low) - middle,
        h=_errors(df, again) * error,
        s=math.sqrt(variance),
        spread=spread,
    )


def _errors(df: float, again: bool) -> float:
    """How many standard errors a loss must exceed."""
    if not again:
        return _STANDARD_ERRORS
    from scipy import stats

    return float(stats.t.ppf(_SURE, noise.PRIOR_DF + df))


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
