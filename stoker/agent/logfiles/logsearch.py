"""The end of a log that is asked for: by number of lines, by time, by pattern; in bounded memory and time."""

from __future__ import annotations

import os
import re
import signal
import threading
from typing import Any, BinaryIO, Iterator, List, NamedTuple, Optional, Pattern

from ..context import AgentError
from .logtail import LINE_BYTES, clean
from .logtime import Clock

MAX_LINES = 20_000
_PIECE = 256 << 10
_SEARCHED = 256 << 20
_SHOWN_BYTES = 6 << 20  # of one answer: a frame holds 16 MiB, and JSON makes six characters of a strange one
_LINE_CPU_S = 1.0
# Lines of several processes are not quite in order.
_JITTER_S = 60.0


class Wish(NamedTuple):
    """What is to be shown.

    Args:
        most: Lines.
        grep: Shows only lines in which this is found; None: all.
        since: Unix time; None: whenever.
        clock: Reads the lines' own times; needed with ``since``.
    """

    most: int
    grep: Optional[Grep] = None
    since: Optional[float] = None
    clock: Optional[Clock] = None


class Found(NamedTuple):
    """What was found.

    Args:
        lines: Oldest first.
        whole: False where more fit, and were left out for their size.
        dated: Whether the lines tell their time; only looked at with ``since``.
    """

    lines: List[str]
    whole: bool = True
    dated: bool = True


class Grep:
    """A regular expression that cannot hold the host up: a line may take a second of CPU time.

    Args:
        text: The expression.

    Raises:
        AgentError: ``bad-request``: it is none for this Python.
    """

    def __init__(self, text: str) -> None:
        try:
            self._pattern: Pattern[str] = re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            raise AgentError("bad-request", "grep: no regular expression: %s" % error) from error
        # Only the main thread may catch signals; requests run there.
        self._guarded = threading.current_thread() is threading.main_thread()

    def __call__(self, line: str) -> bool:
        """Whether it is found in a line.

        Raises:
            AgentError: ``bad-request``: it takes too long.
        """
        if not self._guarded:
            return bool(self._pattern.search(line))
        before = signal.signal(signal.SIGVTALRM, self._too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, _LINE_CPU_S)
        try:
            return bool(self._pattern.search(line))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    def _too_long(self, *_: Any) -> None:
        raise AgentError(
            "bad-request",
            "grep: %s took more than %g s on one line" % (self._pattern.pattern, _LINE_CPU_S),
            next_step="write it without nested repetitions, such as (a+)+",
        )


def last(path: str, wish: Wish, until: Optional[int] = None) -> Found:
    """The last lines that fit, without escapes; of a progress bar that redraws itself its last state.

    A line without a time of its own belongs to the one before it. A log without any times cannot be cut by
    time: then its last lines are shown if it was written to since, and ``dated`` is false.

    Args:
        until: Byte offset of the end; None: of the file.

    Raises:
        AgentError: ``bad-request``: the pattern takes too long.
    """
    try:
        with open(path, "rb") as file:
            end = file.seek(0, os.SEEK_END) if until is None else until
            search = _Search(wish)
            for raw in _backwards(file, end):
                if raw is None or not search.take(clean(raw)):
                    return search.found(whole=raw is not None)
            return search.at_the_begin(os.fstat(file.fileno()).st_mtime)
    except OSError:
        return Found([])


class _Search:
    """Lines are taken from the last to the first."""

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._lines: List[str] = []  # newest first, as all here
        self._undated: List[str] = []  # they belong to a line that is still to come
        self._dated = False
        self._bytes = 0
        self._full = False

    def take(self, line: str) -> bool:
        """Whether more is wanted."""
        wish = self._wish
        if not line or wish.most <= 0:
            return wish.most > 0
        stamp = wish.clock.of(line) if wish.clock is not None and wish.since is not None else None
        fits = wish.grep is None or wish.grep(line)
        if wish.since is None:
            return self._keep([line] if fits else [])
        if stamp is None:
            if fits and len(self._undated) < wish.most:
                self._undated.append(line)
            return True
        self._dated = True
        block, self._undated = [*self._undated, *([line] if fits else [])], []
        if stamp >= wish.since:
            return self._keep(block)
        return stamp >= wish.since - _JITTER_S

    def at_the_begin(self, written_at: float) -> Found:
        """Nothing is left: what has no time of its own is as old as the launch, or nobody knows."""
        wish = self._wish
        if wish.since is None or wish.clock is None:
            return self.found()
        written_at = wish.clock.started_at if self._dated else written_at
        self._keep(self._undated if written_at >= wish.since else [])
        return self.found()

    def found(self, *, whole: bool = True) -> Found:
        """What came of it."""
        dated = self._dated or self._wish.since is None
        return Found(self._lines[::-1], whole and not self._full, dated)

    def _keep(self, block: List[str]) -> bool:
        for line in block:
            if len(self._lines) >= self._wish.most:
                return False
            self._bytes += len(line)
            if self._bytes > _SHOWN_BYTES:
                self._full = True
                return False
            self._lines.append(line)
        return len(self._lines) < self._wish.most


def _backwards(file: BinaryIO, end: int) -> Iterator[Optional[bytes]]:
    """The lines before an offset, the last first; None and the end where too much would have to be read.

    Of a line only what is shown is kept: 4 KiB of its last redraw.
    """
    at, rest = end, b""
    while at > 0:
        if end - at >= _SEARCHED:
            yield None
            return
        step = min(at, _PIECE)
        at -= step
        file.seek(at)
        parts = (file.read(step) + rest).split(b"\n")
        for part in reversed(parts[1:]):
            yield shown(part)
        rest = _shown_end(parts[0])
    yield shown(rest)


def shown(line: bytes) -> bytes:
    """What a terminal would show of a line: its last redraw, at most 4 KiB of it."""
    return line.rstrip(b"\r").rpartition(b"\r")[2][:LINE_BYTES]


def _shown_end(line: bytes) -> bytes:
    """The same of a line whose begin is still to be read: the last redraw stays marked as one."""
    _, mark, redraw = line.rstrip(b"\r").rpartition(b"\r")
    return mark + redraw[:LINE_BYTES]
