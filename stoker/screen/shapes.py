"""Cleaned text as it is shown: lines, and what is above and below a table; nothing in them is markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.screen.words import clean_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_TAB = 8
_NARROW = 20  # columns of a terminal that has no room for an indent
_HANG = 2  # blanks more before the rows that a line is continued in
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
        hang: Blanks before what does not fit in the first row of a terminal; None leaves the folding to the
            terminal, so that a command or a script that is copied from it is whole.
    """

    parts: tuple[tuple[str, str], ...]
    hang: int | None = None

    @property
    def plain(self) -> str:
        """Without its styles, tabs as blanks, as Rich has it."""
        return "".join(text for text, _ in self.parts).expandtabs(_TAB)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What Rich shows of it: the rows after the first are indented."""
        from rich.text import Text

        shown = Text(tab_size=_TAB)
        for text, style in self.parts:
            shown.append(text, style)
        shown.expand_tabs()
        width = options.max_width
        hang = min(self.hang or 0, width // 2) if width >= _NARROW else 0
        if options.no_wrap or not hang or shown.cell_len <= width:
            yield shown
            return
        first = shown.wrap(console, width)[0]
        first.rstrip()
        yield first
        rest = shown[len(first) :]
        rest = rest[len(rest.plain) - len(rest.plain.lstrip(" ")) :]
        for row in rest.wrap(console, width - hang):
            row.rstrip()
            yield Text(" " * hang).append_text(row)


def line_of(parts: Iterable[str | tuple[str, str]], *, whole: bool = False, after: int = 0) -> Line:
    """Parts as one styled line, cleaned; nothing in them is markup.

    Args:
        parts: Text, or (text, style).
        whole: A terminal folds it, so that it can be copied.
        after: Columns of what stands before the text, such as a host's name; later rows begin behind it.
    """
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    cleaned = tuple((clean_line(text), style) for text, style in pairs)
    text = "".join(text for text, _ in cleaned)[after:]
    return Line(cleaned, None if whole else after + len(text) - len(text.lstrip(" ")) + _HANG)


def joined(lines: Sequence[Line]) -> Line:
    """Several lines as one, to be shown at once."""
    parts: list[tuple[str, str]] = []
    for line in lines:
        parts += [*line.parts, ("\n", "")]
    return Line(tuple(parts[:-1]))
