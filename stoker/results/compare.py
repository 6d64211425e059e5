"""Two measurements side by side, and the verdict of a run against its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from stoker.results.baselines.baseline import Baseline, Missing
from stoker.results.explaining.explain import Explanation, explain
from stoker.results.figures import figure, percent
from stoker.results.meanwhile import disturbed
from stoker.results.records.metric import Metric
from stoker.results.records.record import Record
from stoker.results.statistics.noise import Launches
from stoker.results.statistics.stats import (
    IMPROVED,
    INCONCLUSIVE,
    MAX_LOSS,
    NO_BASELINE,
    OK,
    REGRESSED,
    Verdict,
    judge,
)


@dataclass(frozen=True)
class Row:
    """One metric on both sides.

    Args:
        name: The metric.
        unit: Its unit.
        a: Of what is compared with; None where it has none.
        b: Of the run.
        change: b against a, relative: positive is a larger figure; None where one is missing.
    """

    name: str
    unit: str
    a: float | None
    b: float | None
    change: float | None


@dataclass(frozen=True)
class Comparison:
    """Two measurements side by side.

    Args:
        metrics: Side by side.
        verdict: Of b against a; ``no-baseline`` where they measured different things.
        explanation: What else differs between them.
    """

    metrics: tuple[Row, ...]
    verdict: Verdict
    explanation: Explanation

    def rows(self) -> list[tuple[str, str, str, str]]:
        """For a table: metric, a and b with their unit, change."""
        return [
            (row.name, figure(row.a, row.unit), figure(row.b, row.unit), percent(row.change))
            for row in self.metrics
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        metrics = [vars(row) for row in self.metrics]
        return {
            "metrics": metrics,
            "verdict": asdict(self.verdict),
            "explanation": self.explanation.to_json(),
        }


def compare(a: Record | Baseline, b: Record, *, max_loss: float = MAX_LOSS) -> Comparison:
    """Put two measurements side by side, b judged against a where they measured the same.

    Two hosts may be compared on purpose, so that the host alone does not forbid a verdict.
    """
    explanation = explain(b, a)
    forbidding = [text for text in explanation.unlike if not text.startswith("host:")]
    contaminated = (*(a.contaminated if isinstance(a, Record) else ()), *b.contaminated)
    verdict = _judged(a.samples, b, forbidding, contaminated, max_loss)
    rows = _rows(_metrics(a), b.metrics)
    # What was judged is told as the verdict tells it: it knows launches, a median of all runs does not.
    found = (replace(row, change=_told(row, verdict)) if row.name == b.bench.judged else row for row in rows)
    return Comparison(tuple(found), verdict, explanation)


def assess(record: Record, base: Baseline | Missing, *, max_loss: float = MAX_LOSS) -> Verdict:
    """The verdict of a run against its baseline.

    Args:
        record: The run.
        base: What ``Baselines.find`` found for it.
        max_loss: The loss that ``ok`` must rule out, 0..1.
    """
    if isinstance(base, Missing):
        return Verdict(NO_BASELINE, why=base.line, line=base.line)
    unlike = base.key.differs(base.key.same_of(record))
    verdict = _judged(base.samples, record, unlike, record.contaminated, max_loss)
    return replace(verdict, line="; ".join([verdict.line, *_remarks(record, base)]))


def settle(
    record: Record, base: Baseline, old: Launches, new: Launches, *, max_loss: float = MAX_LOSS
) -> Verdict:
    """The verdict of a run against its baseline, once both were launched and measured again.

    Each look could be the false alarm, so that more is demanded of it than of a first one.

    Args:
        record: The run.
        base: What it is judged against.
        old: Launches of the baseline's setting that were added for this verdict.
        new: Launches of the run's own setting, likewise.
        max_loss: The loss that ``ok`` must rule out, 0..1.
    """
    own = () if record.contaminated else record.samples
    if not own and not new:
        why = "every launch was disturbed"
        return Verdict(INCONCLUSIVE, why=why, line=why)
    found = judge((*base.samples, *old), (*own, *new), max_loss=max_loss, again=True)
    added = ((len(old), "as accepted"), (len(new), "as it is"))
    parts = [f"{count} launched again {side}" for count, side in added if count]
    again = [f"of these {' and '.join(parts)}"] if parts else []
    return replace(found, line="; ".join([found.line, *again, *_remarks(record, base)]))


def slower(base: Baseline, now: Launches) -> bool:
    """Whether what was accepted is itself slower now than it was."""
    return judge(base.samples, now, again=True).verdict == REGRESSED


def _remarks(record: Record, base: Baseline) -> list[str]:
    """What a verdict says of its baseline and of the machine."""
    of_class = [f"the baseline is of its class, {base.key.hardware}"] if base.key.hardware else []
    return of_class + [f"disturbed: {text}" for text in disturbed(record)[:1]]


def _judged(
    base: Launches, record: Record, unlike: Sequence[str], contaminated: Sequence[str], max_loss: float
) -> Verdict:
    if unlike:
        apart = "not comparable (" + "; ".join(unlike) + ")"
        return Verdict(NO_BASELINE, why=apart, line=apart)
    if not record.samples or not base:
        found = [run.why for launch in record.launches for run in launch.runs if run.why]
        why = "no valid run" + (f": {found[0]}" if found else "")
        return Verdict(INCONCLUSIVE, why=why, line=why)
    verdict = _whole(judge(base, record.samples, max_loss=max_loss), record)
    if not contaminated:
        return verdict
    # Such a measurement decides nothing: a neighbour's load looks like a regression.
    why = f"contaminated: {contaminated[0]}"
    return replace(verdict, verdict=INCONCLUSIVE, need=None, why=why, line=f"{verdict.line}; {why}")


def incomplete(record: Record) -> str:
    """What is missing of the runs that were asked for; empty where all of them are measurements."""
    asked = record.bench.runs * len(record.launches)
    valid = sum(len(launch.samples) for launch in record.launches)
    if valid >= asked:
        return ""
    why = next((run.why for launch in record.launches for run in launch.runs if run.why), "")
    return f"{asked - valid} of {asked} runs are no measurement" + (f": {why}" if why else "")


def _whole(verdict: Verdict, record: Record) -> Verdict:
    """The verdict, which no lucky rest of the runs makes a good one; a loss that it shows is one."""
    missing = incomplete(record)
    if not missing:
        return verdict
    line = f"{verdict.line}; {missing}"
    if verdict.verdict not in (OK, IMPROVED):
        return replace(verdict, line=line)
    return replace(verdict, verdict=INCONCLUSIVE, need=None, why=missing, line=line)


def _metrics(run: Record | Baseline) -> Mapping[str, Metric]:
    return run.metrics if isinstance(run, Record) else {run.key.judged: Metric(run.tok_s, run.key.unit)}


def _told(row: Row, verdict: Verdict) -> float | None:
    return row.change if verdict.change is None or row.change is None else verdict.change


def _rows(a: Mapping[str, Metric], b: Mapping[str, Metric]) -> Iterator[Row]:
    for name in dict.fromkeys((*a, *b)):
        one, other = a.get(name), b.get(name)
        unit = one.unit if one else b[name].unit
        both = one and other and one.value and one.unit == other.unit
        change = other.value / one.value - 1 if both and one and other else None
        yield Row(name, unit, one.value if one else None, other.value if other else None, change)
