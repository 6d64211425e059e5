"""A server's log: its end, and what is added to it; in bounded memory, however long it is."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Mapping, Optional

from .. import blot
from ..context import AgentError, Context
from ..logfiles import logtime
from ..logfiles.logsearch import MAX_LINES, Grep, Wish, last, shown
from ..logfiles.logtail import LINE_BYTES, LogTail, clean
from ..logfiles.logtime import Clock
from . import state
from .state import Launch

DEFAULT_LINES = 50
_POLL_S = 0.1
_PIECE = 1 << 20
# A line without an end that stays so is shown as it is: a progress bar, or a server's last word.
_UNFINISHED_S = 1.0


def logs(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``logs``: the ends of logs; with ``follow``, ``log`` events until cancelled.

    A follow goes on with the next launch of a slot, unless ``launch_id`` names one.

    Args:
        params: ``slots`` (null: the only one with a living server, else the only one there is); ``launch_id``
            (null: the latest; else of one slot); ``lines``; ``grep``; ``since_at`` (Unix time) or ``since_s``
            (seconds ago, by this host's clock); ``follow``.

    Returns:
        ``{logs: [{slot, launch_id, path, lines, whole, dated}]}``, oldest line first. ``dated`` is false
        where ``since`` was asked for and the log has no times.

    Raises:
        AgentError: ``no-server``: nothing was launched there; ``bad-request``: several slots, or no regular
            expression; ``cancelled``.
    """
    launches = [state.must_have(ctx.home, slot, params.get("launch_id")) for slot in _slots(ctx, params)]
    grep = Grep(str(params["grep"])) if params.get("grep") else None
    if not params.get("follow"):
        return {"logs": [_end(params, launch, grep) for launch in launches]}
    followers = [_Follower(launch) for launch in launches]
    try:
        for follower in followers:
            follower.show_end(ctx, params, grep)
        while True:
            fixed = bool(params.get("launch_id"))
            more = [follower.show_news(ctx, grep, fixed=fixed) for follower in followers]
            ctx.cancelled.wait(0 if any(more) else _POLL_S)
            ctx.check_cancelled()
    finally:
        for follower in followers:
            follower.close()


def tail(path: str, count: int, until: Optional[int] = None) -> List[str]:
    """The last lines of a file, without escapes; of a progress bar that redraws itself its last state.

    Args:
        count: Of lines.
        until: Byte offset of the end; None: of the file.
    """
    return last(path, Wish(count), until).lines


def _end(
    params: Mapping[str, Any], launch: Launch, grep: Optional[Grep], until: Optional[int] = None
) -> Dict[str, Any]:
    """The end of one log, as it was asked for."""
    now = time.time()
    since = params.get("since_at")
    if params.get("since_s") is not None:
        since = now - float(params["since_s"])
    count = int(params.get("lines") or (DEFAULT_LINES if since is None else MAX_LINES))
    env = (launch.get("resolved") or {}).get("env") or {}
    clock = Clock(float(launch["started_at"]), now)
    with logtime.zone(env.get("TZ") if isinstance(env.get("TZ"), str) else None):
        found = last(launch["log"], Wish(min(count, MAX_LINES), grep, since, clock), until)
    return {
        "slot": launch["slot"],
        "launch_id": launch["launch_id"],
        "path": launch["log"],
        "lines": found.lines,
        "whole": found.whole,
        "dated": found.dated,
    }


class _Follower(LogTail):
    """Follows the log of one slot, beginning after the last line that is complete now.

    Args:
        launch: Whose log.
        anew: From its begin instead.
    """

    def __init__(self, launch: Launch, *, anew: bool = False) -> None:
        super().__init__(launch["log"])
        self.launch = launch
        self._begin = 0
        self._unfinished = ""
        self._since = time.monotonic()
        self._told = ""
        if not anew and self._open() and self._fd is not None:
            size = os.fstat(self._fd).st_size
            end = os.pread(self._fd, min(size, LINE_BYTES), max(0, size - LINE_BYTES))
            self._begin = self._at = size - (len(end) - 1 - end.rfind(b"\n"))

    def show_end(self, ctx: Context, params: Mapping[str, Any], grep: Optional[Grep]) -> None:
        """What was there before."""
        found = _end(params, self.launch, grep, self._begin)
        if not found["dated"]:
            ctx.emit("note", text="%s tells no times: lines count from their arrival" % self.path)
        for line in found["lines"]:
            self._show(ctx, line)

    def show_news(self, ctx: Context, grep: Optional[Grep], *, fixed: bool) -> bool:
        """What was added since.

        Returns:
            Whether there is more to be had at once.
        """
        before = self.taken
        for line in self.read(_PIECE):
            told, self._told = self._told, ""
            if line != told and (grep is None or grep(line)):  # else its end was all that was missing
                self._show(ctx, line)
        partial = clean(shown(self._rest))
        # What may be the beginning of a secret is shown with its end: the door knows whole ones.
        partial = partial[: len(partial) - blot.of(tuple(ctx.secrets)).begun(partial)]
        if partial != self._unfinished:
            self._unfinished, self._since = partial, time.monotonic()
        elif partial and partial != self._told and time.monotonic() - self._since > _UNFINISHED_S:
            self._told = partial
            if grep is None or grep(partial):
                self._show(ctx, partial)
        more = self.taken - before >= _PIECE
        if not fixed and not more:
            self._turn_to_the_next(ctx)
        return more

    def _turn_to_the_next(self, ctx: Context) -> None:
        latest = state.current(ctx.home, self.launch["slot"])
        if latest is None or latest["launch_id"] == self.launch["launch_id"]:
            return
        told = latest["slot"], latest["launch_id"], latest["log"]
        ctx.emit("note", text="slot %s goes on with launch %s: %s" % told)
        self.close()
        _Follower.__init__(self, latest, anew=True)

    def _show(self, ctx: Context, line: str) -> None:
        ctx.check_cancelled()
        ctx.emit("log", text=line, slot=self.launch["slot"])

    def _split(self, piece: bytes) -> List[str]:
        """As a terminal shows it: a progress bar is one line, however often it is redrawn."""
        parts = piece.split(b"\n")
        parts[0] = self._rest + parts[0]
        rest = parts.pop()
        redraw = rest.rstrip(b"\r").rpartition(b"\r")[2]
        self._rest = redraw[:LINE_BYTES] + (b"\r" if rest.endswith(b"\r") else b"")
        return [line for line in map(clean, map(shown, parts)) if line]


def _slots(ctx: Context, params: Mapping[str, Any]) -> List[str]:
    """The slots that are meant.

    Raises:
        AgentError: ``no-server``: there is none; ``bad-request``: several, and none is named.
    """
    if params.get("slots"):
        return list(params["slots"])
    launches = state.launches(ctx.home)
    from . import serving  # dear, and rarely needed

    living = [one for one in launches if serving.alive(ctx.home, ctx.facts, one, {})]
    found = [launch["slot"] for launch in (living if len(living) == 1 else launches)]
    if len(found) == 1:
        return found
    if found:
        raise AgentError("bad-request", "several slots have logs: " + ", ".join(found), (), "add --slot NAME")
    raise AgentError("no-server", "nothing was launched here", next_step="start a server: inv start")
