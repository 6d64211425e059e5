"""Cleaned text as Rich shows it: lines and tables; nothing in them is read as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from stoker.screen.words import clean_line

GOOD, BAD, DIM = "green", "bold red", "dim"


@dataclass(frozen=True)
class Sheet:
    """A table and lines below it.

    Args:
        columns: As of ``Screen.table``.
        rows: As of ``Screen.table``.
        lines: (text, style) each.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    lines: Sequence[tuple[str, str]]


Draw = Callable[[Mapping[str, dict[str, Any]]], Sheet]


def table_of(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Table:
    """A table with cleaned cells; its columns are named as ``Screen.table`` has it."""
    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for name in columns:
        side: Literal["left", "right"] = "right" if name.endswith(">") else "left"
        whole = name.endswith("!")  # what people copy stays on one line
        table.add_column(name.rstrip(">!"), justify=side, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(_cell(cell) for cell in row))
    return table


def _cell(cell: Any) -> Text:
    """A table's cell; tuples carry a style."""
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return Text(clean_line("-" if text is None else text), style=style)


def line_of(parts: Iterable[str | tuple[str, str]]) -> Text:
    """Parts as one styled line, cleaned; nothing in them is markup."""
    line = Text()
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        line.append(clean_line(text), style)
    return line
