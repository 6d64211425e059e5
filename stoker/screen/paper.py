"""Plain lines for what is read by no terminal: a script, a log, a pipe."""

from __future__ import annotations

import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING, TextIO

from stoker.screen.grid import Grid
from stoker.screen.shapes import Line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_WIDTH = 80


def is_plain(file: TextIO) -> bool:
    """Whether a stream shows no styles; as Rich finds out, where Rich is what is to be spared."""
    is_forced = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1"
    return not is_forced and not file.isatty()


class Paper:
    """What of Rich's console a stream without styles needs; Rich itself is loaded where only it knows how.

    Loading Rich costs as much as logging in to several hosts, and a line by it as much as a command.

    Args:
        file: Where it goes.
    """

    is_interactive = False

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._is_unread = False

    @property
    def file(self) -> TextIO:
        """Where it goes, as Rich has it."""
        return self._file

    @cached_property
    def _rich(self) -> Console:
        from rich.console import Console

        # Rich falls back to 80 columns without a terminal and would cut what a log file should hold whole.
        return Console(file=self._file, highlight=False, soft_wrap=True)

    @property
    def width(self) -> int:
        """Columns of the terminal that would show it; as Rich has it."""
        said = os.environ.get("COLUMNS", "")
        return int(said) if said.isdigit() else _terminals_width()

    def print(self, shown: Line | RenderableType, *, end: str = "\n") -> None:
        """Write a line, a table, or whatever Rich can show.

        Raises:
            BrokenPipeError: Nobody reads; in the main thread, which ends the command.
        """
        text: str | None = None
        if isinstance(shown, Line):
            text = shown.plain
        elif isinstance(shown, Grid):
            text = shown.plain(self.width)
        with self._lock:
            if text is None:
                self._rich.print(shown, end=end)
                return
            try:
                if self._is_unread:
                    raise BrokenPipeError
                self._file.write(text + end)
                self._file.flush()
            except BrokenPipeError:
                self._is_unread = True
                if threading.current_thread() is threading.main_thread():
                    raise


def put(console: Console | Paper, line: Line, *, end: str = "\n") -> None:
    """Write a line: folded between words with an indent, or left for the terminal to fold."""
    if isinstance(console, Paper):
        console.print(line, end=end)
    else:
        console.print(line, end=end, soft_wrap=line.hang is None or console.soft_wrap)


def _terminals_width() -> int:
    for fd in (0, 1, 2):
        try:
            return os.get_terminal_size(fd).columns or _WIDTH
        except OSError:
            continue
    return _WIDTH


def console_of(file: TextIO) -> Console | Paper:
    """Rich's console where styles are shown, plain lines elsewhere."""
    if is_plain(file):
        return Paper(file)
    from rich.console import Console

    return Console(file=file, highlight=False, soft_wrap=not file.isatty())
