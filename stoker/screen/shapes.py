"""Cleaned text as it is shown: lines and tables; nothing in them is read as markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stoker.screen.words import clean_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_TAB = 8
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
    from rich.table import Table

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
    from rich.text import Text

    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return Text(clean_line("-" if text is None else text), style=style)


@dataclass(frozen=True)
class Line:
    """A styled line, or several; made by :func:`line_of` and :func:`joined`.

    Args:
        parts: (text, style) each, cleaned.
    """

    parts: tuple[tuple[str, str], ...]

    @property
    def plain(self) -> str:
        """Without its styles, tabs as blanks, as Rich has it."""
        return "".join(text for text, _ in self.parts).expandtabs(_TAB)

    def __rich__(self) -> Text:
        """What Rich shows of it."""
        from rich.text import Text

        shown = Text()
        for text, style in self.parts:
            shown.append(text, style)
        return shown


def line_of(parts: Iterable[str | tuple[str, str]]) -> Line:
    """Parts as one styled line, cleaned; nothing in them is markup."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Line(tuple((clean_line(text), style) for text, style in pairs))


def joined(lines: Sequence[Line]) -> Line:
    """Several lines as one, to be shown at once."""
    parts: list[tuple[str, str]] = []
    for line in lines:
        parts += [*line.parts, ("\n", "")]
    return Line(tuple(parts[:-1]))
