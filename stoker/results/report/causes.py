"""What differed: the newest run against its baseline, and both sides of each step."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.results.explaining.explain import Explanation, explain
from stoker.results.history import Series, Step
from stoker.results.report import words
from stoker.results.report.gather import Material
from stoker.results.report.model import Cell, Part, Section, Table, row
from stoker.results.statistics.stats import REGRESSED

_MOST = 40
_INTRO = (
    "What was in force in the newest run and in its baseline, and on both sides of each step: causes with the"
    " reason for their rank, what was checked and is equal, and what could not be compared."
)
_COLUMNS = ("", "what", "then → now", "why it ranks here")


def section(material: Material) -> Section:
    """A part for each pair that differs, those of regressed servers first."""
    order = sorted(material.series, key=lambda one: (one.latest.verdict != REGRESSED, one.key))
    pairs = [pair for one in order for pair in _pairs(material, one)]
    left = len(pairs) - _MOST
    note = f"{left} more pairs are left out: inv explain --run RUN." if left > 0 else ""
    parts = tuple(_part(*pair) for pair in pairs[:_MOST])
    return Section("causes", "What differed", _INTRO, parts, note=note)


def _pairs(material: Material, one: Series) -> Iterator[tuple[Series, str, Explanation]]:
    """Each explanation of a series, the newest first."""
    latest, base = material.latest(one), material.baselines.get(one.key)
    if latest is not None and base is not None and latest.run_id not in base.run_ids:
        yield one, "the newest run against its baseline", explain(latest, base)
    for step in reversed(one.steps):
        before = material.records.get(step.last.run.run_id)
        after = material.records.get(step.first.run.run_id)
        if before is not None and after is not None:
            yield one, _title(step), explain(after, before)


def _title(step: Step) -> str:
    return f"the step of {words.moment(step.first.point.at)[:10]} ({words.percent(step.change)})"


def _part(one: Series, title: str, found: Explanation) -> Part:
    heading = f"{one.key.host}, {words.profile(one.key.profile)}: {title}"
    lines = [Cell(found.headline, "headline"), Cell(f"{found.new.label} against {found.base.label}")]
    lines += [Cell(f"Not the same was measured: {text}", "regressed") for text in found.unlike]
    lines += [Cell(f"Next: {text}") for text in found.advice]
    return Part(heading, one.key.host, tuple(lines), tables=tuple(_tables(found)))


def _tables(found: Explanation) -> Iterator[Table]:
    if found.causes:
        rows = (
            row(Cell(c.confidence, c.confidence), c.title, c.detail, Cell(c.reason, "long"))
            for c in found.causes
        )
        yield Table(_COLUMNS, tuple(rows))
    checked = [row(text, "equal") for text in found.equal]
    checked += [row(item.what, f"not comparable: {item.why}") for item in found.unknown]
    if checked:
        counted = f"{len(found.equal)} checked and equal, {len(found.unknown)} not comparable"
        yield Table(("what", ""), tuple(checked), counted)
