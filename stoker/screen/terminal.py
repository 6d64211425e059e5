"""The terminal of one command: lines, tables, errors."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stoker.errors import ConfigError, StokerError
from stoker.screen.board import Board
from stoker.screen.grid import table_of
from stoker.screen.livesheet import LiveSheet
from stoker.screen.paper import Paper, console_of, put
from stoker.screen.shapes import BAD, DIM, Draw, Sheet, line_of
from stoker.screen.words import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

# How a text's commands have to be typed where it is read.
Spelled = Callable[[str], str]
_PLAIN = "stoker-plain"  # the name of what follows, for Python's codecs
_SIGNS = str.maketrans("✓✗·→×…│⏎–−±", "+x.>x~| --~")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for signs that a terminal's encoding lacks, one for one: no output ends a command."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_SIGNS)
    return "".join(sign if sign.isascii() else "?" for sign in text), error.end


class Screen:
    """The terminal of one command.

    Args:
        json: One JSON document goes to stdout, so everything for people goes to stderr.
    """

    def __init__(self, *, json: bool = False) -> None:
        self.json = json
        codecs.register_error(_PLAIN, _plain)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
                stream.reconfigure(errors=_PLAIN)
        file = sys.stderr if json else sys.stdout
        self.spelled: Spelled = str
        self.console = console_of(file)
        self.errors = console_of(sys.stderr)

    def say(self, *parts: str | tuple[str, str]) -> None:
        """One line; a part is text or (text, style). Cleaned, and nothing is read as markup."""
        put(self.console, line_of(self._spelled(parts)))

    def quote(self, *parts: str | tuple[str, str]) -> None:
        """One line of a script or a log: a terminal folds it, so that it can be copied as it is."""
        put(self.console, line_of(self._spelled(parts), whole=True))

    def _spelled(self, parts: Sequence[str | tuple[str, str]]) -> list[str | tuple[str, str]]:
        """Parts with their commands as they have to be typed here."""
        return [
            self.spelled(part) if isinstance(part, str) else (self.spelled(part[0]), part[1])
            for part in parts
        ]

    def text(self, text: str) -> None:
        """A text of several lines, as it is."""
        for line in text.removesuffix("\n").split("\n"):
            self.quote(line)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
        """A table that fits the terminal; nothing where it has no rows: headings alone say nothing.

        Args:
            columns: Headings; one that ends with ``>`` is right-aligned, one with ``!`` is never broken.
            rows: Cells: text, or (text, style).
            title: Above the table; none when empty.
        """
        made = table_of(columns, rows, title)
        if made.rows:
            self.console.print(made)

    def sheet(self, sheet: Sheet) -> None:
        """A table with what is to be said below it."""
        self.table(sheet.columns, sheet.rows)
        for line in sheet.lines:
            self.say(line)

    @property
    def width(self) -> int:
        """Columns of the terminal, or those that stand for one."""
        return self.console.width

    @contextmanager
    def live(self, hosts: Sequence[str], event: str, draw: Draw) -> Iterator[LiveSheet]:
        """A table that is drawn anew as hosts tell something; without a terminal a new one each round.

        Args:
            hosts: Their names.
            event: The type of the events that count.
            draw: Makes the sheet out of the latest such event of each host.
        """
        with LiveSheet(self.console, self.sheet, hosts, event, draw) as board:
            yield board

    def error(self, error: StokerError, word: tuple[str, str] | None = None) -> None:
        """An error with its place, the last evidence and the next step, on stderr.

        Args:
            error: What is wrong.
            word: In place of ``error``, with its style.
        """
        if isinstance(error, ConfigError):
            for problem in error.problems:
                put(self.errors, line_of([("error ", BAD), str(problem)]))
            return
        place = f"{error.where}: " if error.where else ""
        put(self.errors, line_of([word or ("error ", BAD), (place, "bold"), error.what]))
        self.evidence(error.evidence, self.errors)
        if error.next_step:
            put(self.errors, line_of([("  next: ", "cyan"), self.spelled(error.next_step)], whole=True))

    def aside(self, *parts: str | tuple[str, str], end: str = "\n") -> None:
        """One line on stderr, or the question that an answer is typed behind."""
        put(self.errors, line_of(parts), end=end)

    def trace(self, text: str) -> None:
        """A traceback, on stderr; what a host said may stand in it."""
        for line in text.removesuffix("\n").split("\n"):
            put(self.errors, line_of([line], whole=True))

    def evidence(self, lines: Sequence[str], console: Console | Paper | None = None) -> None:
        """The last lines of a log or output, marked as quoted."""
        for line in lines[-12:]:
            put(console or self.console, line_of([("  │ ", DIM), (clean_line(line, 300), DIM)]))

    @contextmanager
    def board(self, hosts: Sequence[str]) -> Iterator[Board]:
        """Live lines of what happens on hosts; a bar each where a terminal is looked at.

        Args:
            hosts: Names, for the width of the first column.
        """
        board = Board(self.console, max((len(h) for h in hosts), default=0), self.spelled)
        with board:
            yield board
