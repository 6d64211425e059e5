"""Live progress of many hosts, a bar each where a terminal is looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stoker.screen.outputlines import OutputLines
from stoker.screen.paper import put
from stoker.screen.shapes import BAD, DIM, GOOD, joined, line_of
from stoker.screen.words import clean_line, seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from stoker.screen.paper import Paper

_PATIENCE_S = 0.5  # a line without an end that stays so for so long is shown as it is
_LARGEST = 1e15  # of a number that a host sends and a bar can show


class Board:
    """Live progress of many hosts; safe to call from their threads."""

    def __init__(self, console: Console | Paper, width: int, spelled: Callable[[str], str] = str) -> None:
        self._console = console
        self._spelled = spelled
        self._width = width
        self._lock = threading.Lock()
        self._rows: dict[str, TaskID] = {}
        self._stages: dict[str, str] = {}
        self._outputs: dict[tuple[str, str], OutputLines] = {}
        self._timer: threading.Timer | None = None
        self._bars = _bars(console) if console.is_interactive else None
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
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            timer, self._timer = self._timer, None
            if timer is not None:
                timer.cancel()
            self._tell_rests(None)
        if self._bars is not None:
            self._bars.stop()

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
            self._tell_rests(host)
            told = ((part, "") if isinstance(part, str) else part for part in parts)
            self._line(host, *((self._spelled(text), style) for text, style in told))

    def rest(self, host: str) -> None:
        """A host does nothing for now: it has no bar."""
        with self._lock:
            row = self._rows.pop(host, None)
            if row is not None and self._bars is not None:
                self._bars.remove_task(row)

    def _line(self, host: str, *parts: str | tuple[str, str], whole: bool = False) -> None:
        name = host.ljust(self._width) + "  "
        put(self._console, line_of([(name, "bold"), *parts], after=len(name), whole=whole))

    def _row(self, host: str, what: str, fraction: float | None, text: str = "") -> None:
        """The host's bar; without a known fraction it pulses."""
        if self._bars is None:
            return
        total, done = (None, 0.0) if fraction is None else (1.0, fraction)
        shown = clean_line(text, self._console.width)
        if host not in self._rows:
            name = host.ljust(self._width)
            self._rows[host] = self._bars.add_task(what, total=total, host=name, text=shown)
        self._bars.update(self._rows[host], description=what, total=total, completed=done, text=shown)

    def _step(self, host: str, event: dict[str, Any]) -> None:
        name = clean_line(event.get("name", ""), 60)
        if event.get("state") == "begin":
            self._row(host, name, None)
            return
        detail = clean_line(event.get("detail") or "", 200)
        took = seconds(_number(event.get("seconds")))
        sign = ("✗ ", BAD) if event.get("ok") is False else ("✓ ", GOOD)
        self._line(host, sign, f"{name:<24} ", (f"{took:>8}", DIM), f"  {detail}" if detail else "")

    def _stage(self, host: str, event: dict[str, Any]) -> None:
        name = clean_line(event.get("name", ""), 60)
        fraction = _number(event.get("fraction")) or 0.0
        self._row(host, name, min(1.0, max(0.0, fraction)), str(event.get("text", "")))
        if self._stages.get(host) != name:
            self._stages[host] = name
            took = seconds(_number(event.get("elapsed_s")))
            self._line(host, ("· ", DIM), f"{name:<24} ", (f"{took:>8}", DIM))

    def _run(self, host: str, event: dict[str, Any]) -> None:
        index, of = int(_number(event.get("index")) or 0), int(_number(event.get("of")) or 1)
        speed = _number(event.get("tok_s"))
        if event.get("warmup"):
            self._row(host, "warm-up", None)
            return
        self._row(host, f"run {index + 1}/{of}", (index + 1) / max(of, 1))
        if speed is not None:
            self._line(host, ("· ", DIM), f"run {index + 1}/{of}".ljust(25), f"{speed:8.1f} tok/s")

    def _log(self, host: str, event: dict[str, Any]) -> None:
        self._line(host, str(event.get("text", "")), whole=event.get("type") == "log")

    def _output(self, host: str, event: dict[str, Any]) -> None:
        stream = str(event.get("stream"))
        lines = self._outputs.setdefault((host, stream), OutputLines())
        self._print(host, stream, lines.add(str(event.get("text", ""))))
        if lines.waits_s is not None:
            self._look_again()

    def _print(self, host: str, stream: str, lines: Sequence[str]) -> None:
        """Many lines at once: one by one they would take Rich longer than the host."""
        head, style = (host.ljust(self._width) + "  ", "bold"), DIM if stream == "stderr" else ""
        texts = [line_of([head, (line, style)]) for line in lines]
        if texts:
            put(self._console, joined(texts))

    def _show_rests(self) -> None:
        """Lines whose end does not come: a question, or a command's last word."""
        with self._lock:
            if self._timer is None:
                return  # all was shown at the end
            self._timer = None
            self._tell_rests(None, _PATIENCE_S)
            if any(lines.waits_s is not None for lines in self._outputs.values()):
                self._look_again()

    def _look_again(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(_PATIENCE_S, self._show_rests)
            self._timer.daemon = True
            self._timer.start()

    def _tell_rests(self, of: str | None, patience_s: float = 0.0) -> None:
        for (host, stream), lines in self._outputs.items():
            waited = lines.waits_s
            if of in (None, host) and waited is not None and waited >= patience_s:
                self._print(host, stream, [lines.rest()])

    def _activity(self, host: str, event: dict[str, Any]) -> None:
        self._row(host, clean_line(event.get("name", ""), 60), None)


def _bars(console: Any) -> Progress:
    """The bars, not started yet."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    # What is said last gets all the width that is left, and is the only thing that is cut.
    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return Progress(
        TextColumn("{task.fields[host]}", style="bold", markup=False),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", style=DIM, markup=False, table_column=rest),
        console=console,
        transient=True,
        expand=True,
    )


def _number(value: Any) -> float | None:
    """A number a host sent, or None where it sent something else, or one that no bar can show."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return float(value)
