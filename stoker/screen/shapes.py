"""Cleaned text as it is shown: lines, and what is above and below a table; nothing in them is markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.screen.words import clean_line

if TYPE_CHECKING:
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
