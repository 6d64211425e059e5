"""How much a server has to do, as its Prometheus metrics tell: now, and since its start."""

from __future__ import annotations

import math
import re
import time
from typing import Any, Dict, Iterable, Mapping, NamedTuple, Optional, Tuple

from ..context import Context
from . import http
from .gate import Server

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})?\s+(\S+)")
_ANSWER_S = 10.0
# Gauges are written by the engine's loop: for a moment they still show the request that just ended. Some stay
# so for half a minute (sglang#26495); an engine that really works moves its other figures meanwhile.
SETTLE_S = 2.0
STALE_S = 32.0
_PAUSE_S = 0.1


class Traffic(NamedTuple):
    """What the metrics say; None where they do not.

    Args:
        running: Requests that run now.
        waiting: Requests that wait.
        finished: Requests ended since the start.
        tokens: Tokens generated since the start.
        throughput: Tokens a second now, by the engine's own gauge.
        steps: Decoding steps since the start, of an engine that counts tokens at the end of a request.
        why: Why nothing is known; empty where something is.
        page: Every figure of the engine's, to see whether any moves.
        moving: Whether one did while it was watched.
    """

    running: Optional[float] = None
    waiting: Optional[float] = None
    finished: Optional[float] = None
    tokens: Optional[float] = None
    throughput: Optional[float] = None
    steps: Optional[float] = None
    why: str = ""
    page: Tuple[Tuple[str, float], ...] = ()
    moving: bool = False

    @property
    def busy(self) -> bool:
        """Whether somebody uses the server."""
        return (self.running or 0) + (self.waiting or 0) > 0


def read(ctx: Context, server: Server, timeout_s: float = _ANSWER_S) -> Traffic:
    """Ask once."""
    names = server.engine["metrics"]
    if not names["path"] or not any(names[kind] for kind in ("running", "finished", "generation_tokens")):
        return Traffic(why="%s has no metrics that Stoker knows" % server.engine["name"])
    try:
        answer = http.get(
            server.address, server.port, names["path"], timeout_s, server.headers, poll=ctx.check_cancelled
        )
    except http.HttpError as error:
        return Traffic(why="GET %s: %s" % (names["path"], error))
    if answer.status != 200:
        return Traffic(why="GET %s answers %d" % (names["path"], answer.status))
    return parse(answer.body.decode("utf-8", "replace"), names)


def settled(
    ctx: Context, server: Server, finished: Optional[float] = None, patience_s: float = SETTLE_S
) -> Traffic:
    """Watch until nothing runs any more and as many have finished as were sent.

    Args:
        finished: What the counter of finished requests must reach; None: anything.
        patience_s: At most so long. A server that moves, or lets requests wait, is believed after two
            seconds.
    """
    began = time.monotonic()
    first = found = read(ctx, server)
    while True:
        short = finished is not None and found.finished is not None and found.finished < finished
        waited = time.monotonic() - began
        if found.why or not (found.busy or short) or waited > patience_s:
            return found
        if waited > SETTLE_S and (found.moving or found.waiting):
            return found
        ctx.check_cancelled()
        time.sleep(_PAUSE_S)
        found = read(ctx, server)
        found = found._replace(moving=found.page != first.page)


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
        throughput=_sum(sums, names.get("throughput") or ()),
        steps=_sum(sums, names.get("steps") or ()),
    )
    if traffic == Traffic():
        return Traffic(why="the metrics have none of the names that Stoker knows")
    spaces = tuple({_space(name) for kind in names.values() if not isinstance(kind, str) for name in kind})
    return traffic._replace(page=tuple(sorted(i for i in sums.items() if i[0].startswith(spaces))))


def _space(name: str) -> str:
    """An engine's own names begin alike: ``vllm:``, ``sglang:``; those of its process move by themselves."""
    return name.partition(":")[0] + ":" if ":" in name else name.partition("_")[0] + "_"


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
