"""Which load generator measures, with which parameters."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from ..asking import http
from ..asking.gate import CHAT_PATH
from ..context import AgentError, Context
from ..evidence.serverinfo import Server
from ..generators import load, serve, workload
from ..generators.load import Measured
from ..generators.stream import Target
from ..generators.workload import Serve
from ..processes.procs import environ_of
from ..starting.subject import Subject
from . import tool

_INHERITED = ("PATH", "VIRTUAL_ENV", "HF_HOME", "HF_HUB_CACHE", "PYTHONPATH", "LD_LIBRARY_PATH")
_BOUNDS = {"runs": (1, 1000), "tokens": (2, 1000000), "concurrency": (1, 4096)}


class Wanted(NamedTuple):
    """The benchmark's parameters.

    Args:
        said: As they came; the result repeats them.
        runs: How many are measured.
        tokens: Of each request of ``decode``.
        concurrency: Requests of ``decode`` at once.
        serve: Those of ``serve``; None: it is another one.
        tool: Somebody else's load generator, as the controller describes it; None: it is ours.
    """

    said: Mapping[str, Any]
    runs: int
    tokens: int
    concurrency: int
    serve: Optional[Serve] = None
    tool: Optional[Mapping[str, Any]] = None


def wanted(values: Mapping[str, Any], spec: Optional[Mapping[str, Any]] = None) -> Wanted:
    """The parameters, checked.

    Args:
        values: Of the benchmark.
        spec: Of one that is somebody else's, what is run and how it is read.

    Raises:
        AgentError: ``bad-request``.
    """
    name = values.get("name", "decode")
    if spec is not None:
        return Wanted(dict(values), int(values["runs"]), 0, int(values["concurrency"]), None, spec)
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

    if wanted.tool is not None:
        return tool.measure(
            ctx, _asked(found, server, wanted, wanted.tool), _around(found, wanted.tool), report
        )
    measured = _at(target, wanted, seed, ctx.check_cancelled, report)
    missing = all(request["error"] in ("http-404", "http-405") for request in measured.requests)
    if missing and target.path != CHAT_PATH:
        return _at(target._replace(path=CHAT_PATH), wanted, seed, ctx.check_cancelled, report)
    return measured


def _asked(found: Subject, server: Server, wanted: Wanted, spec: Mapping[str, Any]) -> tool.Asked:
    """What somebody else's load generator is asked for."""
    said = wanted.said
    model = str((found.launch or {}).get("model") or "")
    address = http.reachable(found.address)
    url = "http://%s:%d" % ("[%s]" % address if ":" in address else address, found.port)
    values = {name: str(said[name]) for name in ("requests", "concurrency", "input", "output", "seed")}
    values.update(url=url, model=server.model)
    values["tokenizer"] = str(said.get("tokenizer") or (model if os.path.isdir(model) else server.model))
    return tool.Asked(spec, wanted.runs, int(said["requests"]), int(said["output"]), values)


def _around(found: Subject, spec: Mapping[str, Any]) -> Dict[str, str]:
    """Its environment, added to the login's: the server's programs, and no GPU of the server's."""
    theirs = environ_of(found.launcher.pid) or {}
    env = {name: theirs[name] for name in _INHERITED if name in theirs}
    env.update(spec["env"], CUDA_VISIBLE_DEVICES="", **key_for(found.headers, spec))
    return env


def key_for(headers: Mapping[str, str], spec: Mapping[str, Any]) -> Dict[str, str]:
    """The variable with the server's key, as a tool takes it; nothing of a server without one.

    Raises:
        AgentError: ``bad-request``: the tool takes it from no variable.
    """
    key = headers.get("Authorization", "").partition(" ")[2]
    if key and not spec["key_variable"]:
        what = (
            "%s takes a server's API key on its command line only, where everybody on the host could read it"
        )
        raise AgentError("bad-request", what % spec["argv"][0], next_step="--bench serve, or vllm-serve")
    return {spec["key_variable"]: key} if key else {}


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
