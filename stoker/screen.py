"""What people see: Rich's one door. Tables, live lines, errors; host text is cleaned before it is shown."""

from __future__ import annotations

import codecs
import io
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from stoker.errors import ConfigError, StokerError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Escape sequences first, whole; then every other control, and the marks that reorder or hide text.
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_].*?(?:\x1b\\|\x07|$)|[ -/]*[0-~]?)|\x9b[0-?]*[ -/]*[@-~]", re.S
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_GOOD, _BAD, _DIM = "green", "bold red", "dim"
_LONGEST = 20_000  # of a part of a line
_LARGEST = 1e15  # of a number that a host sends and a bar can show
VERDICT_STYLE = {
    "ok": "bold green",
    "improved": "bold cyan",
    "regressed": "bold red",
    "unstable": "bold yellow",
    "inconclusive": "yellow",
    "no-baseline": "dim",
}


def clean(text: object, limit: int = 2000) -> str:
    """Text that a host, a profile or a log said, safe to show.

    Args:
        text: Anything; ``str()`` of it is taken.
        limit: Characters kept; an ellipsis says that more were cut.

    Returns:
        The same without terminal escapes, control characters (tab and newline stay) and reordering marks.
    """
    plain = _CONTROLS.sub("", _ESCAPES.sub("", str(text)[: 2 * limit]))
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


def clean_line(text: object, limit: int = _LONGEST) -> str:
    """The same on one line: a line break is shown as a sign, so that nobody forges a line of ours."""
    return clean(text, limit).replace("\n", "⏎")


def seconds(value: float | None) -> str:
    """A duration as people read it: ``0.4 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if value is None:
        return "-"
    if value < 100:
        return f"{value:.1f} s"
    if value < 3600:
        return f"{int(value // 60)} min {int(value % 60):02d} s"
    return f"{int(value // 3600)} h {int(value % 3600 // 60):02d} min"


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
        # Rich falls back to 80 columns without a terminal and would cut what a log file should hold whole.
        self.console = Console(file=file, highlight=False, soft_wrap=not file.isatty())
        self.errors = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())

    def say(self, *parts: str | tuple[str, str]) -> None:
        """One line; a part is text or (text, style). Cleaned, and nothing is read as markup."""
        self.console.print(_line(parts))

    def text(self, text: str) -> None:
        """A text of several lines, as it is."""
        for line in text.removesuffix("\n").split("\n"):
            self.say(line)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> None:
        """A table that fits the terminal.

        Args:
            columns: Headings; one that ends with ``>`` is right-aligned, one with ``!`` is never broken.
            rows: Cells: text, or (text, style).
            title: Above the table; none when empty.
        """
        self.console.print(_table(columns, rows, title))

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
        with LiveSheet(self, hosts, event, draw) as board:
            yield board

    def error(self, error: StokerError, word: tuple[str, str] | None = None) -> None:
        """An error with its place, the last evidence and the next step, on stderr.

        Args:
            error: What is wrong.
            word: In place of ``error``, with its style.
        """
        if isinstance(error, ConfigError):
            for problem in error.problems:
                self.errors.print(_line([("error ", _BAD), str(problem)]))
            return
        place = f"{error.where}: " if error.where else ""
        self.errors.print(_line([word or ("error ", _BAD), (place, "bold"), error.what]))
        self.evidence(error.evidence, self.errors)
        if error.next_step:
            self.errors.print(_line([("  next: ", "cyan"), error.next_step]))

    def trace(self, text: str) -> None:
        """A traceback, on stderr; what a host said may stand in it."""
        for line in text.removesuffix("\n").split("\n"):
            self.errors.print(_line([line]))

    def evidence(self, lines: Sequence[str], console: Console | None = None) -> None:
        """The last lines of a log or output, marked as quoted."""
        for line in lines[-12:]:
            (console or self.console).print(_line([("  │ ", _DIM), (clean_line(line, 300), _DIM)]))

    @contextmanager
    def board(self, hosts: Sequence[str]) -> Iterator[Board]:
        """Live lines of what happens on hosts; a bar each where a terminal is looked at.

        Args:
            hosts: Names, for the width of the first column.
        """
        board = Board(self.console, max((len(h) for h in hosts), default=0))
        with board:
            yield board


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


class Board:
    """Live progress of many hosts; safe to call from their threads."""

    def __init__(self, console: Console, width: int) -> None:
        self._console = console
        self._width = width
        self._lock = threading.Lock()
        self._rows: dict[str, TaskID] = {}
        self._stages: dict[str, str] = {}
        self._progress = Progress(
            TextColumn("{task.fields[host]}", style="bold", markup=False),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}", style=_DIM, markup=False),
            console=console,
            transient=True,
            disable=not console.is_interactive,
        )
        self._shows: dict[str, Callable[[str, dict[str, Any]], None]] = {
            "step": self._step,
            "stage": self._stage,
            "run": self._run,
            "log": self._log,
            "output": self._output,
            "note": self._log,
            "activity": self._activity,
        }

    def __enter__(self) -> Board:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def event(self, host: str, event: dict[str, Any]) -> None:
        """Show an event of the wire, or our own ``activity`` or ``note``; what is unknown is passed over."""
        show = self._shows.get(str(event.get("type")))
        if show is None:
            return
        with self._lock:
            show(host, event)

    def line(self, host: str, *parts: str | tuple[str, str]) -> None:
        """One finished thing about a host."""
        with self._lock:
            self._line(host, *parts)

    def _line(self, host: str, *parts: str | tuple[str, str]) -> None:
        self._progress.console.print(_line([(host.ljust(self._width) + "  ", "bold"), *parts]))

    def _row(self, host: str, what: str, fraction: float | None, text: str = "") -> None:
        """The host's bar; without a known fraction it pulses."""
        total, done = (None, 0.0) if fraction is None else (1.0, fraction)
        shown = clean_line(text, max(10, self._console.width - self._width - 60))
        if host not in self._rows:
            name = host.ljust(self._width)
            self._rows[host] = self._progress.add_task(what, total=total, host=name, text=shown)
        self._progress.update(self._rows[host], description=what, total=total, completed=done, text=shown)

    def _step(self, host: str, event: dict[str, Any]) -> None:
        name = clean_line(event.get("name", ""), 60)
        if event.get("state") == "begin":
            self._row(host, name, None)
            return
        detail = clean_line(event.get("detail") or "", 200)
        took = seconds(_number(event.get("seconds")))
        sign = ("✗ ", _BAD) if event.get("ok") is False else ("✓ ", _GOOD)
        self._line(host, sign, f"{name:<24} ", (f"{took:>8}", _DIM), f"  {detail}" if detail else "")

    def _stage(self, host: str, event: dict[str, Any]) -> None:
        name = clean_line(event.get("name", ""), 60)
        fraction = _number(event.get("fraction")) or 0.0
        self._row(host, name, min(1.0, max(0.0, fraction)), str(event.get("text", "")))
        if self._stages.get(host) != name:
            self._stages[host] = name
            took = seconds(_number(event.get("elapsed_s")))
            self._line(host, ("· ", _DIM), f"{name:<24} ", (f"{took:>8}", _DIM))

    def _run(self, host: str, event: dict[str, Any]) -> None:
        index, of = int(_number(event.get("index")) or 0), int(_number(event.get("of")) or 1)
        speed = _number(event.get("tok_s"))
        if event.get("warmup"):
            self._row(host, "warm-up", None)
            return
        self._row(host, f"run {index + 1}/{of}", (index + 1) / max(of, 1))
        if speed is not None:
            self._line(host, ("· ", _DIM), f"run {index + 1}/{of}".ljust(25), f"{speed:8.1f} tok/s")

    def _log(self, host: str, event: dict[str, Any]) -> None:
        self._line(host, str(event.get("text", "")))

    def _output(self, host: str, event: dict[str, Any]) -> None:
        for line in clean(event.get("text", ""), 100_000).splitlines():
            self._line(host, (line, _DIM if event.get("stream") == "stderr" else ""))

    def _activity(self, host: str, event: dict[str, Any]) -> None:
        self._row(host, clean_line(event.get("name", ""), 60), None)


class LiveSheet(Board):
    """A board that is one table, kept current; see :meth:`Screen.live`."""

    def __init__(self, screen: Screen, hosts: Sequence[str], event: str, draw: Draw) -> None:
        super().__init__(screen.console, max((len(host) for host in hosts), default=0))
        self._screen = screen
        self._hosts = set(hosts)
        self._event = event
        self._draw = draw
        self._seen: dict[str, dict[str, Any]] = {}
        self._fresh: set[str] = set()
        self._live = Live(self._render(), console=screen.console, auto_refresh=False, screen=False)

    def __enter__(self) -> LiveSheet:
        if self._console.is_interactive:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_interactive:
            self._live.stop()

    def event(self, host: str, event: dict[str, Any]) -> None:
        """Draw anew where it is what counts."""
        if event.get("type") != self._event:
            return
        with self._lock:
            self._seen[host] = event
            self._fresh.add(host)
            if self._console.is_interactive:
                self._live.update(self._render(), refresh=True)
            elif self._fresh >= self._hosts:
                self._fresh.clear()
                self._screen.sheet(self._draw(self._seen))

    def line(self, host: str, *parts: str | tuple[str, str]) -> None:
        """What a host has to say stands in the table."""

    def _render(self) -> Group:
        sheet = self._draw(self._seen)
        now = Text(time.strftime("%H:%M:%S  (Ctrl-C ends it)"), style=_DIM)
        return Group(_table(sheet.columns, sheet.rows), *(_line([line]) for line in sheet.lines), now)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Table:
    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for name in columns:
        side: Literal["left", "right"] = "right" if name.endswith(">") else "left"
        whole = name.endswith("!")  # what people copy stays on one line
        table.add_column(name.rstrip(">!"), justify=side, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(*(_cell(cell) for cell in row))
    return table


def _number(value: Any) -> float | None:
    """A number a host sent, or None where it sent something else, or one that no bar can show."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return float(value)


def _cell(cell: Any) -> Text:
    """A table's cell; tuples carry a style."""
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return Text(clean_line("-" if text is None else text), style=style)


def _line(parts: Iterable[str | tuple[str, str]]) -> Text:
    """Parts as one styled line, cleaned; nothing in them is markup."""
    line = Text()
    for part in parts:
        text, style = (part, "") if isinstance(part, str) else part
        line.append(clean_line(text), style)
    return line
