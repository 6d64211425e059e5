"""Two runs side by side: figures, the judged difference, and the verdict of a run against its baseline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stoker.results.baseline import Baseline, Key, Missing
from stoker.results.explain import Explanation, explain
from stoker.results.record import Record
from stoker.results.stats import INCONCLUSIVE, MAX_LOSS, NO_BASELINE, Verdict, judge


@dataclass(frozen=True)
class Row:
    """One metric of two runs.

    Args:
        name: The metric.
        unit: Its unit.
        a: Of the first run; None where it has none.
        b: Of the second.
        change: b against a, relative; positive is a larger figure; None where one is missing.
    """

    name: str
    unit: str
    a: float | None
    b: float | None
    change: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side.

    Args:
        a: The first run's id: what it is compared with.
        b: The second's.
        rows: Metrics side by side.
        verdict: Of b against a; None where they are not comparable or one has no valid run.
        unlike: What keeps them from being compared; empty where nothing does.
        explanation: What else differs between them.
    """

    a: str
    b: str
    rows: tuple[Row, ...]
    verdict: Verdict | None
    unlike: tuple[str, ...]
    explanation: Explanation


def compare(a: Record, b: Record, *, max_loss: float = MAX_LOSS) -> Comparison:
    """Put two runs side by side, b judged against a where they measured the same.

    Two hosts may be compared on purpose, so that the host alone does not forbid a verdict.
    """
    unlike = Key.of(a).differs(Key.of(b))
    forbidding = [text for text in unlike if not text.startswith("host:")]
    verdict = None
    if not forbidding and a.samples and b.samples:
        verdict = _disturbed(
            judge(a.samples, b.samples, max_loss=max_loss), (*a.contaminated, *b.contaminated)
        )
    return Comparison(a.run_id, b.run_id, tuple(_rows(a, b)), verdict, unlike, explain(b, a))


def assess(record: Record, base: Baseline | Missing, *, max_loss: float = MAX_LOSS) -> Verdict:
    """The verdict of a run against its baseline.

    Args:
        record: The run.
        base: What ``Baselines.find`` found for it.
        max_loss: The loss that ``ok`` must rule out, 0..1.
    """
    if not record.samples:
        why = next((run.why for launch in record.launches for run in launch.runs if run.why), "no run at all")
        return Verdict(INCONCLUSIVE, why=why, line=f"no valid run: {why}")
    if isinstance(base, Missing):
        return Verdict(NO_BASELINE, why=base.line, line=base.line)
    if Key.of(record) != base.key:
        apart = "; ".join(base.key.differs(Key.of(record)))
        return Verdict(NO_BASELINE, why=apart, line=f"not comparable ({apart})")
    return _disturbed(judge(base.samples, record.samples, max_loss=max_loss), record.contaminated)


def _disturbed(verdict: Verdict, contaminated: tuple[str, ...]) -> Verdict:
    """A disturbed measurement decides nothing: a neighbour's load looks like a regression."""
    if not contaminated:
        return verdict
    why = f"contaminated: {contaminated[0]}"
    return replace(verdict, verdict=INCONCLUSIVE, need=None, why=why, line=f"{verdict.line}; {why}")


def _rows(a: Record, b: Record) -> Iterator[Row]:
    for name in dict.fromkeys((*a.metrics, *b.metrics)):
        one, other = a.metrics.get(name), b.metrics.get(name)
        unit = (one or other or next(iter(a.metrics.values()))).unit
        change = (
            other.value / one.value - 1 if one and other and one.value and one.unit == other.unit else None
        )
        yield Row(name, unit, one.value if one else None, other.value if other else None, change)
