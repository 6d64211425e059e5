"""What a server's log tells while it starts: stages for the bar, the cause of a failure, the last lines."""

from __future__ import annotations

import re
import time
from typing import Any, Dict, List, Mapping, Optional

from ..context import Context
from .logtail import Fatal, LogTail, Matcher, Recent, message

_EMIT_S = 0.25
_EVIDENCE_LINES = 30
_DRAIN_S = 0.5
# A log that grows faster than it can be read must not hold up who looks at the clock as well.
_READ_S = 0.2
_REST_S = 2.0
_KEPT_BYTES = 16 << 10
# The last line of a traceback. The first ones of a log are the root: what follows falls over them.
_RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt|Exit)(: |$)")
_RAISED_KEPT = 4
_URL_PORT = re.compile(r"https?://(?:\[[0-9a-fA-F:]*\]|[^\s/:\[\]]*):(\d{1,5})")


class StartLog:
    """Follows one log and emits ``stage`` events.

    Args:
        path: Of the log.
        engine: ``Engine.to_wire()``.
        began: Of the launch, by ``time.monotonic``.
        own: Paths that we ask ourselves: the access log's lines about them are no sign of life.

    Attributes:
        stages: ``{name, at_s}`` of the stages seen, in order.
        urls: Ports of the URLs that the log names.
    """

    def __init__(
        self,
        ctx: Context,
        path: str,
        engine: Mapping[str, Any],
        began: float,
        own: str,
    ) -> None:
        self._ctx = ctx
        self._tail = LogTail(path)
        self._matcher = Matcher(engine)
        self._recent = Recent()
        self._raised: Dict[str, str] = {}
        self._began = began
        self._own = re.compile(own)
        self._partial = ""
        self._skipped = 0
        self._emitted_at = 0.0
        self._text = ""
        self.stages: List[Dict[str, Any]] = []
        self.urls: List[int] = []
        self._emit("starting")

    @property
    def says_ready(self) -> bool:
        """Whether the engine wrote that it serves."""
        return self._matcher.ready

    @property
    def fraction(self) -> float:
        """How much of the start is done by the log's word, 0..1; never falls."""
        return self._matcher.fraction

    @property
    def ended(self) -> Optional[Fatal]:
        """A line after which the engine will not come up."""
        return self._matcher.ended

    @property
    def cause(self) -> Optional[Fatal]:
        """The most telling line about a failure."""
        return self._matcher.cause

    def read(self) -> bool:
        """Take in what is new.

        Returns:
            Whether the server wrote anything but answers to our own questions.
        """
        alive = False
        moved = False
        for line in self._tail.news(time.monotonic() + _READ_S):
            moved = self._take(line) or moved
            alive = alive or not self._own.search(line)
        partial = self._tail.partial()
        if partial != self._partial:
            self._partial = partial
            moved = self._matcher.progress(partial) or moved
            alive = True
        self._note_stage()
        if moved or time.monotonic() - self._emitted_at > 1.0:
            self._emit(self._matcher.stage or "starting")
        return alive

    def drain(self) -> None:
        """Take in the rest: its writers have ended, or do so within half a second.

        Of more than can be read in two seconds only the end is looked at.
        """
        until = time.monotonic() + _DRAIN_S
        quiet = 0
        while quiet < 2 and time.monotonic() < until:
            time.sleep(0.05)
            quiet = 0 if self.read() else quiet + 1
        for line in self._tail.news(time.monotonic() + _REST_S):
            self._take(line)
        self._skipped = self._tail.skip(_KEPT_BYTES)
        for line in [*self._tail.news(time.monotonic() + _REST_S), *self._tail.finish()]:
            self._take(line)

    def evidence(self) -> List[str]:
        """The last lines, and after them the first exceptions, where those stand further up."""
        last = self._recent.lines()[-_EVIDENCE_LINES:]
        if self._skipped:
            last.insert(0, f"({self._skipped} bytes of the log were skipped: too many lines to read in time)")
        return last + [f"further up: {line}" for line in self._raised.values() if line not in last]

    def arrive(self) -> None:
        """The server is ready: that is the last stage."""
        self.stages.append({"name": "ready", "at_s": self._age_s()})
        self._emit("ready", 1.0)

    def close(self) -> None:
        """Give the file back."""
        self._tail.close()

    def _take(self, line: str) -> bool:
        if self._recent.add(line) and not self._own.search(line):
            self._text = line
        said = message(line)
        if len(self._raised) < _RAISED_KEPT and _RAISED.match(said):
            self._raised.setdefault(said, line)
        self.urls += [int(port) for port in _URL_PORT.findall(line) if int(port) not in self.urls]
        moved = self._matcher.feed(line)
        self._note_stage()
        return moved

    def _note_stage(self) -> None:
        name = self._matcher.stage
        if name and (not self.stages or self.stages[-1]["name"] != name):
            self.stages.append({"name": name, "at_s": self._age_s()})
            self._emitted_at = 0.0

    def _emit(self, name: str, fraction: Optional[float] = None) -> None:
        now = time.monotonic()
        if fraction is None and now - self._emitted_at < _EMIT_S:
            return
        self._emitted_at = now
        self._ctx.emit(
            "stage",
            name=name,
            fraction=round(self._matcher.fraction if fraction is None else fraction, 4),
            text=self._partial or self._text,
            elapsed_s=self._age_s(),
        )

    def _age_s(self) -> float:
        return round(time.monotonic() - self._began, 3)
