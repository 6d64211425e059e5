"""A server's log: its end, and what is added to it; in bounded memory, however long it is."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional

from . import state
from .context import AgentError, Context
from .logtail import LINE_BYTES, LogTail, clean
from .state import Launch

DEFAULT_LINES = 50
MAX_LINES = 20_000
_MAX_BYTES = 8 << 20
_POLL_S = 0.1


def logs(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``logs``: the end of a launch's log; with ``follow``, ``log`` events until cancelled.

    Args:
        params: ``slot``; ``lines``; ``follow``; ``launch_id`` (null: the latest).

    Returns:
        ``{path, lines}``, oldest line first.

    Raises:
        AgentError: ``no-server``: nothing was launched there; ``cancelled``.
    """
    launch = _launch(ctx, params)
    count = min(int(params.get("lines") or DEFAULT_LINES), MAX_LINES)
    path = launch["log"]
    if not params.get("follow"):
        return {"path": path, "lines": tail(path, count)}
    follower = _Follower(path)
    lines = tail(path, count, follower.begin)
    for line in lines:
        ctx.emit("log", text=line)
    _follow(ctx, follower)
    return {"path": path, "lines": lines}


def tail(path: str, count: int, until: Optional[int] = None) -> List[str]:
    """The last lines of a file, without escapes; of a progress bar that redraws itself its last state.

    Args:
        count: Of lines; at most 8 MiB are looked at.
        until: Byte offset of the end; None: of the file.
    """
    data, at = b"", 0
    try:
        with open(path, "rb") as file:
            at = file.seek(0, os.SEEK_END) if until is None else until
            while at > 0 and data.count(b"\n") <= count and len(data) < _MAX_BYTES:
                step = min(at, max(1 << 16, len(data)))
                at -= step
                file.seek(at)
                data = file.read(step) + data
    except OSError:
        return []
    parts = data.split(b"\n")
    if at > 0:
        parts = parts[1:] or parts  # it begins somewhere in a line
    shown = [clean(re.split(rb"\r+", part.rstrip(b"\r"))[-1][:LINE_BYTES]) for part in parts]
    return [line for line in shown if line][-count:] if count > 0 else []


class _Follower(LogTail):
    """Begins after the last line that is complete now.

    Attributes:
        begin: Offset of that.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.begin = 0
        if self._open() and self._fd is not None:
            size = os.fstat(self._fd).st_size
            last = os.pread(self._fd, min(size, LINE_BYTES), max(0, size - LINE_BYTES))
            self.begin = self._at = size - (len(last) - 1 - max(last.rfind(b"\n"), last.rfind(b"\r")))


def _follow(ctx: Context, follower: _Follower) -> None:
    try:
        while True:
            for line in follower.read():
                ctx.emit("log", text=line)
            ctx.cancelled.wait(_POLL_S)
            ctx.check_cancelled()
    finally:
        follower.close()


def _launch(ctx: Context, params: Dict[str, Any]) -> Launch:
    slot, launch_id = params["slot"], params.get("launch_id")
    launch = state.recorded(ctx.home, slot, launch_id) if launch_id else state.current(ctx.home, slot)
    if launch is None:
        known = state.history(ctx.home, slot) if launch_id else state.slots(ctx.home)
        what = (
            f"no launch {launch_id} in slot {slot}" if launch_id else f"nothing was launched in slot {slot}"
        )
        raise AgentError("no-server", what, next_step="known here: " + (", ".join(known) or "nothing"))
    return launch
