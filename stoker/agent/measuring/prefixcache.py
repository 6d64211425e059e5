"""The server's prefix cache: emptied before a level, and how much of the prompts came out of it."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ..asking import http
from ..asking.gate import Server
from ..asking.traffic import Traffic
from ..context import Context
from .drafts import grown

_ANSWER_S = 30.0


def flush(ctx: Context, server: Server) -> bool:
    """Ask the server to empty it; whether it says that it did (vLLM does so only in its developer mode)."""
    path = server.engine["flush_path"]
    where = http.reachable(server.address)
    try:
        with http.Connection(server.address, server.port, _ANSWER_S, ctx.check_cancelled) as connection:
            connection.send(http.request("POST", path, where, server.port, server.headers))
            return connection.answer(http.LIMIT).status == 200
    except http.HttpError:
        return False


def hit_share(names: Mapping[str, Any], before: Traffic, after: Traffic) -> Optional[float]:
    """Share of the prompts' tokens that came out of it meanwhile, 0..1; None where the metrics do not tell.

    Args:
        names: ``Metrics`` of the engine.
        before: The metrics before.
        after: And afterwards.
    """
    cached = grown(names.get("cached") or (), before, after)
    asked = grown(names.get("looked_up") or (), before, after)
    if cached is None or asked is None or asked <= 0 or not 0 <= cached <= asked:
        return None
    return round(cached / asked, 6)
