"""GPUs under load: the servers that run decode for some seconds, and the driver is asked meanwhile."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ..asking import http
from ..asking.gate import CHAT_PATH
from ..context import AgentError, Context
from ..evidence import serverinfo
from ..generators import load
from ..generators.load import Limits, Measured
from ..generators.stream import Target
from ..measuring.sampler import Sampler
from ..starting import subject

_TOKENS = 128
# The driver's utilisation is a mean over the last second.
_LEAST_S = 3.0
# A driver without persistence mode takes seconds for an answer; each server must be seen at work.
_LEAST_SAMPLES = 3
_MOST_S = 30.0
_INTERVAL_S = 0.25
_LIMITS = Limits(connect_s=5.0, silence_s=20.0, token_s=1.0)


class Loaded(NamedTuple):
    """What a load showed.

    Args:
        gpus: Each GPU as it was meanwhile, as ``Sampler.gpus`` has it.
        driven: What was asked of which server, in words.
        failed: Which servers could not be driven, and why.
    """

    gpus: List[Dict[str, Any]]
    driven: List[str]
    failed: List[str]


def drive(ctx: Context, engines: Sequence[Any], servers: Sequence[Mapping[str, Any]]) -> Loaded:
    """Let every server that runs decode, one after the other.

    Args:
        engines: ``Engine.to_wire()`` of each.
        servers: Of ``status``.

    Raises:
        AgentError: ``cancelled``.
    """
    sampler = Sampler(ctx.facts, ctx.login_env, _INTERVAL_S)
    driven: List[str] = []
    failed: List[str] = []
    sampler.start()
    try:
        for one in servers:
            if not one["alive"]:
                continue
            name = f"slot {one['slot']}" if one["slot"] else f"port {one['port']}"
            try:
                driven.append(f"{name}: {_one(ctx, engines, one, sampler)} tokens")
            except AgentError as error:
                if error.kind == "cancelled":
                    raise
                failed.append(f"{name}: {error.what}")
    finally:
        sampler.stop()
    return Loaded(sampler.gpus() if driven else [], driven, failed)


def _one(ctx: Context, engines: Sequence[Any], server: Mapping[str, Any], sampler: Sampler) -> int:
    """Decode until the driver must have seen it; the number of tokens.

    Raises:
        AgentError: It serves no completion.
    """
    found = subject.find(ctx, {"engines": engines, "slot": server["slot"], "port": server["port"]})
    told = serverinfo.ask(ctx, found)
    if not told.model:
        raise AgentError("no-server", "it does not list its model")
    target = Target(
        address=http.reachable(found.address),
        port=found.port,
        headers=found.headers,
        path=found.engine["completion_path"],
        model=told.model,
        extra=found.engine["completion_extra"],
        stream_usage=found.engine["stream_usage"],
    )
    tokens, began = 0, time.monotonic()
    enough = sampler.machine()["samples"] + _LEAST_SAMPLES
    while not tokens or time.monotonic() < began + _LEAST_S or sampler.machine()["samples"] < enough:
        if time.monotonic() > began + _MOST_S:
            break
        measured = _decode(ctx, target)
        if target.path != CHAT_PATH and _missing(measured):
            target = target._replace(path=CHAT_PATH)
            continue
        came = sum(request["tokens"] for request in measured.requests)
        if not came:
            raise AgentError("io", f"no completion came: {measured.requests[-1]['why']}")
        tokens += came
    return tokens


def _decode(ctx: Context, target: Target) -> Measured:
    seed = str(time.time())
    return load.measure(target, 1, _TOKENS, 1, seed, ctx.check_cancelled, limits=_LIMITS)


def _missing(measured: Measured) -> bool:
    return all(request["error"] in ("http-404", "http-405") for request in measured.requests)
