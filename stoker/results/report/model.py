"""What a report is made of: sections of parts, each with plots and tables; the page escapes all text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Args:
        text: Of anybody.
        kind: A class of the page's style sheet, such as ``regressed``; never out of a record.
    """

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Args:
        cells: As many as there are columns.
        host: Whose it is, so that it can be left out with its host; empty: it always stays.
    """

    cells: tuple[Cell, ...]
    host: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        columns: Headings; one that ends with ``>`` is right-aligned.
        rows: In order.
        fold: Folded under these words; empty: it stands open.
        note: Below it, e.g. what was left out.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    fold: str = ""
    note: str = ""


@dataclass(frozen=True)
class Plot:
    """A plot.

    Args:
        title: Above it.
        figure: ``{data, layout}`` as plotly.js has them, without colours: ``meta`` names each trace's role.
        note: Below it: what it shows and what it leaves out.
    """

    title: str
    figure: dict[str, Any]
    note: str = ""


@dataclass(frozen=True)
class Part:
    """A piece of a section that belongs together.

    Args:
        title: Its heading.
        host: Whose it is; empty where it is of several.
        lines: What it says, a paragraph each.
        plots: Its plots, side by side where there is room.
        tables: Its tables.
    """

    title: str
    host: str = ""
    lines: tuple[Cell, ...] = ()
    plots: tuple[Plot, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Section:
    """A chapter of the report.

    Args:
        name: Its anchor.
        title: Its heading.
        intro: What it shows and how it is to be read.
        parts: Its pieces; a section without any is left out.
        lead: Its gist, above all else.
        note: At its end, e.g. what was left out.
    """

    name: str
    title: str
    intro: str
    parts: tuple[Part, ...]
    lead: Cell | None = None
    note: str = ""


@dataclass(frozen=True)
class Report:
    """A whole report.

    Args:
        title: Of the page.
        facts: What it rests on, a line each.
        hosts: Every host in it, in order.
        sections: In order.
    """

    title: str
    facts: tuple[str, ...]
    hosts: tuple[str, ...]
    sections: tuple[Section, ...]


def row(*cells: str | Cell, host: str = "") -> Row:
    """A row of texts and cells."""
    return Row(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in cells), host)


def newest(rows: Sequence[Row], most: int, what: str) -> tuple[tuple[Row, ...], str]:
    """The first rows, and a note that says how many there are where some are left out."""
    return tuple(rows[:most]), "" if len(rows) <= most else f"The latest {most} of {len(rows):,} {what}."
