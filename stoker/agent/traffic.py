"""How much a server has to do, as its Prometheus metrics tell: now, and since its start."""

from __future__ import annotations

import math
import re
import time
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional

from . import http
from .context import Context
from .gate import Server

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})?\s+(\S+)")
_ANSWER_S = 10.0
# Gauges are written by the engine's loop: for a moment they still show the request that just ended.
_SETTLE_S = 2.0
_PAUSE_S = 0.1


class Traffic(NamedTuple):
    """What the metrics say; None where they do not.

    Args:
        running: Requests that run now.
        waiting: Requests that wait.
        finished: Requests ended since the start.
        tokens: Tokens generated since the start.
        why: Why nothing is known; empty where something is.
    """

    running: Optional[float] = None
    waiting: Optional[float] = None
    finished: Optional[float] = None
    tokens: Optional[float] = None
    why: str = ""

    @property
    def busy(self) -> bool:
        """Whether somebody uses the server."""
        return (self.running or 0) + (self.waiting or 0) > 0


def read(ctx: Context, server: Server) -> Traffic:
    """Ask once."""
    names = server.engine["metrics"]
    if not names["path"] or not any(names[kind] for kind in ("running", "finished", "generation_tokens")):
        return Traffic(why="%s has no metrics that Stoker knows" % server.engine["name"])
    try:
        answer = http.get(
            server.address, server.port, names["path"], _ANSWER_S, server.headers, poll=ctx.check_cancelled
        )
    except http.HttpError as error:
        return Traffic(why="GET %s: %s" % (names["path"], error))
    if answer.status != 200:
        return Traffic(why="GET %s answers %d" % (names["path"], answer.status))
    return parse(answer.body.decode("utf-8", "replace"), names)


def settled(ctx: Context, server: Server, finished: Optional[float] = None) -> Traffic:
    """Ask until nothing runs any more and as many have finished as were sent, for two seconds at most."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        found = read(ctx, server)
        short = finished is not None and found.finished is not None and found.finished < finished
        if found.why or not (found.busy or short) or time.monotonic() > deadline:
            return found
        ctx.check_cancelled()
        time.sleep(_PAUSE_S)


def parse(text: str, names: Mapping[str, Any]) -> Traffic:
    """Metrics text to figures, summed over label sets.

    Args:
        names: ``Metrics`` of the engine: which names are summed.
    """
    sums: Dict[str, float] = {}
    for line in text.splitlines():
        found = _SAMPLE.match(line)
        if found is not None:
            value = _number(found.group(2))
            if value is not None:
                sums[found.group(1)] = sums.get(found.group(1), 0.0) + value
    traffic = Traffic(
        running=_sum(sums, names["running"]),
        waiting=_sum(sums, names["waiting"]),
        finished=_sum(sums, names["finished"]),
        tokens=_sum(sums, names["generation_tokens"]),
    )
    if traffic == Traffic():
        return Traffic(why="the metrics have none of the names that Stoker knows")
    return traffic


def _sum(sums: Mapping[str, float], names: Iterable[str]) -> Optional[float]:
    """None where none of them is there: missing is not zero."""
    known = [sums[name] for name in names if name in sums]
    return sum(known) if known else None


def _number(text: str) -> Optional[float]:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
