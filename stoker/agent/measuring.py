"""Which load generator measures, with which parameters."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from . import http, load, serve, workload
from .context import AgentError, Context
from .gate import CHAT_PATH
from .load import Measured
from .serverinfo import Server
from .stream import Target
from .subject import Subject
from .workload import Serve

_BOUNDS = {"runs": (1, 1000), "tokens": (2, 1000000), "concurrency": (1, 4096)}


class Wanted(NamedTuple):
    """The benchmark's parameters.

    Args:
        said: As they came; the result repeats them.
        runs: How many are measured.
        tokens: Of each request of ``decode``.
        concurrency: Requests of ``decode`` at once.
        serve: Those of ``serve``; None: it is ``decode``.
    """

    said: Mapping[str, Any]
    runs: int
    tokens: int
    concurrency: int
    serve: Optional[Serve] = None


def wanted(values: Mapping[str, Any]) -> Wanted:
    """The parameters, checked.

    Raises:
        AgentError: ``bad-request``.
    """
    name = values.get("name", "decode")
    if name == "serve":
        found = workload.wanted(values)
        return Wanted(dict(values), found.runs, 0, found.concurrency, found)
    if name != "decode":
        raise AgentError("bad-request", "there is no benchmark %r" % (name,))
    for field, (least, most) in _BOUNDS.items():
        value = values.get(field)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            what = "%s must be a whole number from %d to %d, not %r" % (field, least, most, value)
            raise AgentError("bad-request", what)
    said = {"name": name, **{field: values[field] for field in _BOUNDS}}
    return Wanted(said, values["runs"], values["tokens"], values["concurrency"])


def measure(ctx: Context, found: Subject, server: Server, wanted: Wanted, seed: str) -> Measured:
    """Warm up and measure; at the chat endpoint where the server has no other."""
    engine = found.engine
    target = Target(
        address=http.reachable(found.address),
        port=found.port,
        headers=found.headers,
        path=engine["completion_path"],
        model=server.model,
        extra=engine["completion_extra"],
        stream_usage=engine["stream_usage"],
    )

    def report(run: Dict[str, Any]) -> None:
        warmup = run["index"] == load.WARMUP
        told = {name: run[name] for name in ("tok_s", "valid", "why")}
        ctx.emit("run", index=max(0, run["index"]), of=wanted.runs, warmup=warmup, **told)

    measured = _at(target, wanted, seed, ctx.check_cancelled, report)
    missing = all(request["error"] in ("http-404", "http-405") for request in measured.requests)
    if missing and target.path != CHAT_PATH:
        return _at(target._replace(path=CHAT_PATH), wanted, seed, ctx.check_cancelled, report)
    return measured


def _at(
    target: Target,
    wanted: Wanted,
    seed: str,
    check: Callable[[], None],
    report: Callable[[Dict[str, Any]], None],
) -> Measured:
    if wanted.serve is not None:
        return serve.measure(target, wanted.serve, seed, check, report)
    return load.measure(target, wanted.runs, wanted.tokens, wanted.concurrency, seed, check, report)
