"""A table with cleaned cells: by Rich, or as Rich would write it where nothing has to be folded or styled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stoker.screen.words import clean_line

if TYPE_CHECKING:
    from rich.table import Table

_GAP = "  "
# Of all that is not ASCII these are known to be one column wide.
_NARROW = frozenset("✓✗·→×…│⏎–−±°µé")


@dataclass(frozen=True)
class Grid:
    """A table; made by :func:`table_of`.

    Args:
        columns: Headings, as ``Screen.table`` has them.
        rows: (text, style) a cell, cleaned.
        title: Above the table; none when empty.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]
    title: str = ""

    def plain(self, width: int) -> str | None:
        """Without styles; None where it does not fit, or where only Rich knows how wide a sign is.

        Args:
            width: Columns that there are.
        """
        head = [name.rstrip(">!") for name in self.columns]
        lines = [head, *([text for text, _ in row] for row in self.rows)]
        if self.title or not all(_is_simple(text) for line in lines for text in line):
            return None
        widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
        if sum(widths) + len(_GAP) * (len(widths) - 1) > width:
            return None
        right = [name.endswith(">") for name in self.columns]
        return "\n".join(_GAP.join(map(_placed, line, widths, right)) for line in lines)

    def __rich__(self) -> Table:
        """What Rich shows of it."""
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=Text(self.title) if self.title else None,
            title_justify="left",
            header_style="bold",
            box=None,
            pad_edge=False,
        )
        for name in self.columns:
            side: Literal["left", "right"] = "right" if name.endswith(">") else "left"
            whole = name.endswith("!")  # what people copy stays on one line
            table.add_column(name.rstrip(">!"), justify=side, overflow="fold", no_wrap=whole)
        for row in self.rows:
            table.add_row(*(Text(text, style=style) for text, style in row))
        return table


def table_of(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Grid:
    """A table with cleaned cells; its columns are named as ``Screen.table`` has it."""
    return Grid(tuple(columns), tuple(tuple(map(_cell, row)) for row in rows), clean_line(title))


def _cell(cell: Any) -> tuple[str, str]:
    """A table's cell; tuples carry a style."""
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return clean_line("-" if text is None else text), style


def _is_simple(text: str) -> bool:
    """Whether every sign is one column wide, and none of them markup (Rich reads headings as such)."""
    return "\t" not in text and "[" not in text and (text.isascii() or not _wide(text))


def _wide(text: str) -> set[str]:
    return {sign for sign in text if not sign.isascii()} - _NARROW


def _placed(text: str, width: int, is_right: bool) -> str:
    return text.rjust(width) if is_right else text.ljust(width)
