"""The last run of each runbook, and what came of it on each host."""

from __future__ import annotations

from collections.abc import Collection

from stoker.results.report import words
from stoker.results.report.gather import Material
from stoker.results.report.model import Cell, Part, Row, Section, Table, row
from stoker.results.report.played import COUNTED, Played, PlayedHost

_MOST = 40
_INTRO = (
    "The last run of each runbook, as its journal tells it: how many steps came to what on each host, and"
    " where a host stopped. What a step said stands in the journal; nothing of it is shown here."
)
_ENDS = {0: "ended well", 3: "a host failed", 4: "a host was unreachable", 5: "a regression was found"}


def section(material: Material) -> Section:
    """A part for each runbook, the latest first."""
    order = sorted(material.plays, key=lambda one: (-one.began, one.book))
    left = len(order) - _MOST
    note = f"{words.count(left, 'more runbook')} left out." if left > 0 else ""
    measured = {one.key.host for one in material.every}
    parts = tuple(_part(one, measured) for one in order[:_MOST])
    return Section("runbooks", "Runbooks", _INTRO, parts, note=note)


def _part(one: Played, measured: Collection[str]) -> Part:
    if one.code is None:
        end = Cell("its end is not written down: it was killed, or still runs")
    else:
        end = Cell(_ENDS.get(one.code, f"exit code {one.code}"), "" if one.code == 0 else "regressed")
    columns = ("host", *(f"{name}>" for name in COUNTED), "stopped at")
    rows = tuple(_row(host, host.host in measured) for host in one.hosts)
    lines = (Cell(f"Begun {words.moment(one.began)}."), end)
    return Part(one.book, "", lines, tables=(Table(columns, rows),) if rows else ())


def _row(one: PlayedHost, is_measured: bool) -> Row:
    """A host's row; the page can leave out those hosts that it has measurements of."""
    counts = (str(one.counts.get(name, 0)) for name in COUNTED)
    return row(
        one.host,
        *counts,
        Cell(one.stopped, "regressed" if one.stopped else ""),
        host=one.host if is_measured else "",
    )
