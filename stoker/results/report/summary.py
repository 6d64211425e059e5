"""The first thing to look at: every series on a line."""

from __future__ import annotations

from stoker.results.history import Series
from stoker.results.report import words
from stoker.results.report.gather import Material
from stoker.results.report.model import Cell, Part, Row, Section, Table, row
from stoker.results.sparkline import sparkline
from stoker.results.statistics.stats import REGRESSED

_COLUMNS = ("host", "profile", "launches>", "trend", "now>", "95 %>", "baseline>", "latest", "last step")
_FEW = 10  # series: so many stand open whatever they are
_INTRO = (
    "Now: the mean of up to 20 launches since the last step, with the interval that holds the true mean in 19"
    " of 20 cases. Latest: the newest run's verdict, as judged when it was measured; a disturbed run decides"
    " nothing."
)


def section(material: Material) -> Section:
    """A table for each benchmark, those with something regressed first; what was measured once is folded."""
    told: dict[str, list[Series]] = {}
    for one in material.series:
        told.setdefault(words.subject(one.key), []).append(one)
    order = sorted(told, key=lambda name: (-sum(map(_is_bad, told[name])), words.natural(name)))
    tables = {name: _table(material, name, told[name]) for name in order}
    parts = [Part(name, tables=(table,)) for name, table in tables.items() if not table.fold]
    folded = tuple(table for table in tables.values() if table.fold)
    parts += [Part("Measured once", tables=folded)] if folded else []
    return Section("summary", "Where things stand", _INTRO, tuple(parts), _lead(material))


def _lead(material: Material) -> Cell:
    bad, every = sum(map(_is_bad, material.series)), len(material.series)
    if not bad:
        return Cell("No latest run is regressed.", "ok")
    return Cell(
        f"The latest run of {bad} in {every} is regressed." if every > 1 else "Regressed.", "regressed"
    )


def _is_bad(one: Series) -> bool:
    return one.latest.verdict == REGRESSED


def _table(material: Material, name: str, several: list[Series]) -> Table:
    order = sorted(several, key=lambda one: (not _is_bad(one), one.key))
    rows = tuple(_row(material, one) for one in order)
    is_once = all(len(one.runs) == 1 for one in several) and len(material.series) > _FEW
    fold = f"{name}: {words.count(len(several), 'server')}" if is_once else ""
    return Table(_COLUMNS, rows, fold)


def _row(material: Material, one: Series) -> Row:
    level, base = one.level, material.baselines.get(one.key)
    latest, unit = one.latest, words.unit(one.key.measured)
    change = f" {words.percent(latest.change)}" if latest.change is not None else ""
    return row(
        one.key.host,
        words.profile(one.key.profile),
        f"{len(one.places):,}",
        Cell(sparkline(one.values), "trend"),
        words.pace(level.tok_s if level else None, unit),
        f"{words.pace(level.low, '')} – {words.pace(level.high, '')}" if level else "–",
        words.pace(base.tok_s, unit) if base else "–",
        Cell((latest.verdict or "not judged") + change, latest.verdict or "not-judged"),
        _step(one),
        host=one.key.host,
    )


def _step(one: Series) -> Cell:
    if not one.steps:
        return Cell("–")
    step = one.steps[-1]
    kind = "regressed" if step.change < 0 else "improved"
    return Cell(f"{words.percent(step.change)} on {words.moment(step.first.point.at)[:10]}", kind)
