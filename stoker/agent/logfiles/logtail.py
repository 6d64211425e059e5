"""A server's log while it grows: whole lines, in bounded memory, whatever is written there."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import time
from typing import Any, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Pattern

LINE_BYTES = 4096
KEPT_LINES = 50
_PIECE = 256 << 10
# What is read at once where time is short: lines of one character cost a thousand times what long ones do.
_SMALL = 16 << 10
_BREAK = re.compile(rb"[\r\n]")
# Code in a traceback is indented, behind a logger's prefix too.
_CODE = re.compile(r"(^|\] ) {3,}\S")
# Colours and cursor moves, window titles, and other control signs but the tab.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.|[\x00-\x08\x0b-\x1f\x7f]"
)


class LogTail:
    """Follows one file from its begin.

    A carriage return ends a line as a newline does: a progress bar is a line each time it is redrawn. Of a
    longer line only the first 4 KiB count. A file that was cut short or replaced under its name is read anew.

    Args:
        path: It need not exist yet.

    Attributes:
        taken: Bytes read so far, of all files under that name.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.taken = 0
        self._fd: Optional[int] = None
        self._at = 0
        self._rest = b""

    def read(self, limit: int = 1 << 20) -> List[str]:
        """The lines that were completed since the last call.

        Args:
            limit: Most bytes that are read now.

        Returns:
            Lines without their end and without escapes; empty ones are left out.
        """
        lines: List[str] = []
        until = self.taken + limit
        while self.taken < until:
            piece = self._next()
            if not piece:
                break
            lines += self._split(piece)
        return lines

    def partial(self) -> str:
        """What stands after the last line end: a progress bar as it is drawn."""
        return clean(self._rest)

    def news(self, until: float) -> Iterator[str]:
        """The lines that were completed since the last call, as long as there is time for them.

        Args:
            until: By ``time.monotonic``. What is not read by then is left for the next call.
        """
        while time.monotonic() < until:
            piece = self._next(_SMALL)
            if not piece:
                return
            yield from self._split(piece)

    def skip(self, keep: int) -> int:
        """Leave out what there is up to the last bytes.

        Args:
            keep: How many of them.

        Returns:
            How many bytes were left out.
        """
        if self._fd is None:
            return 0
        end = os.fstat(self._fd).st_size - keep
        skipped = max(0, end - self._at)
        if skipped:
            self._at, self._rest = end, b""
            self.taken += skipped
        return skipped

    def finish(self) -> List[str]:
        """The line without an end, which nobody will end any more; nothing where there is none."""
        last = self.partial()
        self._rest = b""
        return [last] if last else []

    def close(self) -> None:
        """Give the file back."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _next(self, size: int = _PIECE) -> bytes:
        if self._fd is None and not self._open():
            return b""
        assert self._fd is not None
        if os.fstat(self._fd).st_size < self._at:
            self._at, self._rest = 0, b""  # cut short: what is written now is new
        piece = os.pread(self._fd, size, self._at)
        self._at += len(piece)
        self.taken += len(piece)
        if not piece and self._replaced():
            self.close()
            return b"\n" if self._rest else self._next(size)
        return piece

    def _open(self) -> bool:
        with contextlib.suppress(OSError):
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            self._at = 0
        return self._fd is not None

    def _replaced(self) -> bool:
        assert self._fd is not None
        try:
            now = os.stat(self.path)
        except OSError:
            return False  # moved away, and no successor yet
        ours = os.fstat(self._fd)
        return (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino)

    def _split(self, piece: bytes) -> List[str]:
        parts = _BREAK.split(piece)
        parts[0] = self._rest + parts[0][:LINE_BYTES]
        self._rest = parts.pop()[:LINE_BYTES]
        return [line for line in map(clean, parts) if line]


class Recent:
    """The last lines, each kept once where several workers say the same.

    Args:
        size: How many lines.
    """

    def __init__(self, size: int = KEPT_LINES) -> None:
        self._lines: Deque[str] = collections.deque(maxlen=size)
        self._said: Deque[str] = collections.deque(maxlen=16)

    def add(self, line: str) -> bool:
        """Keep a line.

        Returns:
            False where another worker (or the same) has just said it.
        """
        said = message(line)
        if said in self._said:
            return False
        self._said.append(said)
        self._lines.append(line)
        return True

    def lines(self) -> List[str]:
        """Oldest first."""
        return list(self._lines)


_PREFIXES = re.compile(
    r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: [A-Z]+\d+)*\]\s*"  # SGLang, with ranks
    r"|\(\w+ pid=\d+\)\s*(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[\S+:\d+\])?\s*"  # vLLM
)


def message(line: str) -> str:
    """A line without the time and the name of the worker that wrote it."""
    prefix = _PREFIXES.match(line)
    return line[prefix.end() :] if prefix else line


class Fatal(NamedTuple):
    """A line of the engine's that tells why it will not come up.

    Args:
        rank: Place in the engine's tuple: the lower, the more telling.
    """

    rank: int
    cause: str
    advice: str
    final: bool
    line: str


class _Stage(NamedTuple):
    name: str
    pattern: Pattern[str]
    begin: float
    end: float


class Matcher:
    """What the lines of a log say about a start.

    Args:
        engine: ``Engine.to_wire()``.

    Attributes:
        stage: Name of the latest stage; empty before the first.
        fraction: Of the start that is done, 0..1; it never falls.
        ready: Whether the engine said that it serves: a hint, no proof.
        ended: The first line after which there is nothing to wait for.
    """

    def __init__(self, engine: Mapping[str, Any]) -> None:
        stages = list(engine["stages"])
        ends = [stage["fraction"] for stage in stages[1:]] + [1.0]
        self._stages = [
            _Stage(stage["name"], re.compile(stage["pattern"]), stage["fraction"], end)
            for stage, end in zip(stages, ends)
        ]
        self._ready = re.compile(engine["ready"]) if engine["ready"] else None
        self._fatal = [(re.compile(fatal["pattern"]), fatal) for fatal in engine["fatal"]]
        self._causes: Dict[int, Fatal] = {}
        self._at = -1
        self.stage = ""
        self.fraction = 0.0
        self.ready = False
        self.ended: Optional[Fatal] = None

    def feed(self, line: str) -> bool:
        """Take one line into account.

        Returns:
            Whether the stage or the fraction changed.
        """
        self._note_cause(line)
        if self._ready and self._ready.search(line):
            self.ready = True
        return self.progress(line)

    def progress(self, line: str) -> bool:
        """The same for a line that is not complete yet: it may move the bar, and names no cause."""
        before = self._at, self.fraction
        for at, stage in enumerate(self._stages):
            # Workers are not in step, and a draft model is loaded after the first: the bar does not go back.
            found = stage.pattern.search(line) if at >= self._at else None
            if found:
                self._at, self.stage = at, stage.name
                inside = _share(found.groupdict()) * (stage.end - stage.begin)
                self.fraction = max(self.fraction, stage.begin + inside)
        return before != (self._at, self.fraction)

    @property
    def cause(self) -> Optional[Fatal]:
        """The most telling of the causes that were seen."""
        return self._causes[min(self._causes)] if self._causes else None

    def _note_cause(self, line: str) -> None:
        for rank, (pattern, fatal) in enumerate(self._fatal):
            known = self._causes.get(rank)
            if (known is None or _says_more(line, known.line)) and pattern.search(line):
                found = Fatal(rank, fatal["cause"], fatal["advice"], fatal["final"], line)
                self._causes[rank] = found
                if fatal["final"] and (self.ended is None or self.ended is known):
                    self.ended = found


def _says_more(line: str, known: str) -> bool:
    """Whether a traceback's last line comes after its code: ``raise X(`` says less than ``X: why``."""
    return bool(_CODE.search(known)) and not _CODE.search(line)


def _share(groups: Mapping[str, Optional[str]]) -> float:
    """How much of a stage a progress line says is done, 0..1."""
    percent, done, total = groups.get("percent"), groups.get("done"), groups.get("total")
    if percent:
        return min(1.0, float(percent) / 100)
    if done and total and float(total):
        return min(1.0, float(done) / float(total))
    return 0.0


def clean(raw: bytes) -> str:
    """One line as text: decoded, at most 4 KiB of it, without escapes and trailing blanks."""
    return _ESCAPES.sub("", raw[:LINE_BYTES].decode("utf-8", "replace")).rstrip()


def last_lines(path: str, count: int, limit: int = 4 << 20) -> List[str]:
    """The last lines of a file.

    Args:
        count: At most so many.
        limit: Most bytes that are read, from the end.

    Raises:
        OSError: It cannot be read.
    """
    data = b""
    with open(path, "rb") as file:
        at = file.seek(0, os.SEEK_END)
        floor = max(0, at - limit)
        while at > floor and len(_BREAK.findall(data)) <= count:
            size = min(_PIECE, at - floor)
            at -= size
            file.seek(at)
            data = file.read(size) + data
    lines = [line for line in map(clean, _BREAK.split(data)) if line]
    return lines[-count:] if count > 0 else []
