"""The operation ``bench``: measure the server that runs, and say what was in force and what disturbed it."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, ContextManager, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..asking import traffic
from ..asking.traffic import Traffic
from ..context import AgentError, Context
from ..evidence import fingerprint, gpuuse, serverinfo
from ..evidence.serverinfo import Server
from ..generators.load import Measured
from ..gpus.gpu import GpuState
from ..killing import describe
from ..launches import death, locks
from ..logfiles.logtail import last_lines
from ..processes import descriptors
from ..processes.procs import alive
from ..starting import subject
from ..starting.subject import Subject
from . import drafts, measuring, prefixcache, runfolder
from .measuring import Wanted
from .sampler import Sampler

# Beyond this share of a run, the generator may have been what is slow.
_CLIENT_SHARE = 0.8
_MOST_REQUESTS = 20000
_SIGNS_OF_DEATH = ("refused", "reset", "cut")
_DEATH_S = 2.0
_LOG_LINES = 20


class _Observed(NamedTuple):
    """What was seen around the measurement."""

    before: Traffic
    after: Traffic
    strangers: List[Dict[str, Any]]
    sampler: Sampler


def bench(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``bench``.

    Args:
        params: ``plan``, ``slot`` or ``port`` (none: the only server), ``engines``, ``bench``, ``run_id``,
            ``force``, and ``salt``, ``salt_id``, ``prefixes`` for the fingerprint.

    Returns:
        The bench result of the contract. A run that is no measurement is in it, with why.

    Raises:
        AgentError: ``bad-request``, ``no-server``, ``wrong-listener``, ``unauthorised``, ``busy``, ``died``,
            ``io``, ``cancelled``.
    """
    wanted = measuring.wanted(params.get("bench") or {}, params.get("tool"))
    folder = runfolder.reserve(ctx.home, params.get("run_id"))
    with ctx.step("find the server"):
        found = subject.find(ctx, params)
        ctx.hide(runfolder.secrets_of(found))
        server = serverinfo.ask(ctx, found)
        _check_answer(found, server)
    with ctx.step("see that it is idle"):
        before = _idle(ctx, found, bool(params.get("force")))
    started_at = time.time()
    with _locked(ctx, params, found):
        flushed = _flush(ctx, found, wanted)
        result, measured = _observe(ctx, params, found, server, wanted, before)
    if flushed is not None:
        result["machine"]["prefix_cache_flushed"] = flushed
    result["started_at"] = started_at
    result["path"], result["unkept"] = folder, ""
    try:
        with ctx.step("write it down"):
            runfolder.write(ctx, folder, result, measured.requests, found, measured.raw)
    except AgentError as error:
        if error.kind != "io":
            raise
        # What was measured travels all the same: a full disk costs the raw files, not the measurement.
        result["path"], result["unkept"] = "", error.what
    return result


def _locked(ctx: Context, params: Mapping[str, Any], found: Subject) -> ContextManager[None]:
    """Nobody restarts the server while it is measured, and nobody measures it at the same time."""
    names = [locks.port_lock(address, found.port) for address in descriptors.addresses(found.address)]
    if found.launch:
        names.append(locks.slot_lock(ctx.home, found.launch["slot"]))
    owner = {"user": describe.user(os.getuid()), "host": str(params.get("owner") or ""), "what": "bench"}
    held: ContextManager[None] = locks.lock_set(ctx).hold(names, owner)
    return held


def _observe(
    ctx: Context,
    params: Mapping[str, Any],
    found: Subject,
    server: Server,
    wanted: Wanted,
    before: Traffic,
) -> Tuple[Dict[str, Any], Measured]:
    """Measure, and watch the machine meanwhile."""
    sampler = Sampler(ctx.facts, ctx.login_env)
    sampler.start()
    try:
        with ctx.step("measure"):
            measured = measuring.measure(ctx, found, server, wanted, str(params["run_id"]))
            _check_alive(ctx, found, measured)
        with ctx.step("take the fingerprint"):
            state = sampler.state or GpuState("unknown", "the driver has not answered yet", [], [])
            strangers = gpuuse.strangers(ctx, found, state)
            after = _after(ctx, found, before, measured)
            # The GPUs are still warm: the fingerprint's own question comes within a moment of the last run.
            taken = fingerprint.of(ctx, params, found, server, state, sampler.gpus())
    finally:
        sampler.stop()
    observed = _Observed(before, after, strangers, sampler)
    return _result(ctx, params, found, server, wanted, measured, observed, taken), measured


def _check_answer(found: Subject, server: Server) -> None:
    if server.model:
        return
    if server.status in (401, 403):
        named = "refuses the API key" if found.headers else "wants an API key, and none is known"
        hint = "give it in the profile: api_key: !secret NAME"
        raise AgentError("unauthorised", "the server %s (status %d)" % (named, server.status), next_step=hint)
    what = "the server on port %d does not list its model" % found.port
    raise AgentError("no-server", what, server.unread, "wait until it is ready: inv wait")


def _idle(ctx: Context, found: Subject, force: bool) -> Traffic:
    """The server's load before the first request.

    Raises:
        AgentError: ``busy``, without force.
    """
    now = traffic.settled(ctx, found.server, patience_s=traffic.SETTLE_S if force else traffic.STALE_S)
    if now.busy and not force:
        what = "%d requests run and %d wait on this server" % (now.running or 0, now.waiting or 0)
        hint = "take it out of the balancer, or measure all the same: --force"
        raise AgentError(
            "busy", what, next_step=hint, detail={"running": now.running, "waiting": now.waiting}
        )
    return now


def _check_alive(ctx: Context, found: Subject, measured: Measured) -> None:
    """Raise where the server has died of it.

    Raises:
        AgentError: ``died``, with the end of its log.
    """
    lost = any(request["error"] in _SIGNS_OF_DEATH for request in measured.requests)
    # A process that ends closes its sockets some time before it is gone.
    deadline = time.monotonic() + (_DEATH_S if lost else 0.0)
    while alive(found.launcher.pid, found.launcher.start):
        if time.monotonic() >= deadline:
            return
        ctx.check_cancelled()
        time.sleep(0.02)
    lines: List[str] = []
    if found.launch:
        with contextlib.suppress(OSError):  # a log that is gone is no reason to hide what happened
            lines = last_lines(str(found.launch["log"]), _LOG_LINES)
    status = death.exit_status(ctx, found.launch) if found.launch else None
    raise death.died(
        f"the server {death.ending(status)} while it was measured",
        str(found.launch["log"]) if found.launch else "",
        status,
        lines,
        death.cause_in(found.engine, lines),
    )


def _after(ctx: Context, found: Subject, before: Traffic, measured: Measured) -> Traffic:
    if before.why:
        return before
    sent = len(measured.requests)
    return traffic.settled(ctx, found.server, None if before.finished is None else before.finished + sent)


def _flush(ctx: Context, found: Subject, wanted: Wanted) -> Optional[bool]:
    """Empty the prefix cache before a level of ``serve``; None where the engine has no way."""
    if wanted.serve is None or not found.engine.get("flush_path"):
        return None
    with ctx.step("flush the prefix cache"):
        return prefixcache.flush(ctx, found.server)


def _cache(found: Subject, observed: _Observed) -> Dict[str, Any]:
    share = prefixcache.hit_share(found.engine["metrics"], observed.before, observed.after)
    return {} if share is None else {"prefix_hit_share": share}


def _result(
    ctx: Context,
    params: Mapping[str, Any],
    found: Subject,
    server: Server,
    wanted: Wanted,
    measured: Measured,
    observed: _Observed,
    taken: Dict[str, Any],
) -> Dict[str, Any]:
    told = drafts.seen(found.engine["metrics"], observed.before, observed.after, measured.requests)
    client = {"cpu_s": measured.client_cpu_s, "share": measured.client_share, **measured.connections}
    pretended = ctx.facts.simulated and bool(taken["gpus"] or (found.launch or {}).get("gpus"))
    if observed.before.why:
        taken["unread"].append("load of the server: %s" % observed.before.why)
    return {
        "run_id": params["run_id"],
        "bench": dict(wanted.said),
        "launch": found.launch,
        "engine": found.engine["name"],
        "model": server.model,
        "engine_version": taken["versions"].get("engine", ""),
        "simulated": bool(server.simulated or pretended),
        "warmup": measured.warmup,
        "runs": measured.runs,
        "requests": measured.requests[:_MOST_REQUESTS],
        "contaminated": contaminations(measured, observed.before, observed.after)
        + neighbours(observed.strangers, observed.sampler.passers_by(taken["gpus"])),
        "machine": {**observed.sampler.machine(), "client": client, **_cache(found, observed), **told},
        "fingerprint": taken,
    }


def contaminations(measured: Measured, before: Traffic, after: Traffic) -> List[str]:
    """What else the server had to do meanwhile, as its metrics tell."""
    told = []
    if before.busy:
        told.append(
            "%d requests ran or waited when it began" % ((before.running or 0) + (before.waiting or 0))
        )
    # How many requests somebody else's load generator sent is not known, so none is a stranger's.
    if not (before.why or after.why or measured.raw):
        told += _strangers_requests(measured, before, after)
    if measured.client_share > _CLIENT_SHARE:
        share = 100 * measured.client_share
        told.append("the load generator itself was busy for %.0f %% of a run" % share)
    return told


def _strangers_requests(measured: Measured, before: Traffic, after: Traffic) -> List[str]:
    told = []
    if before.finished is not None and after.finished is not None:
        strange = after.finished - before.finished - len(measured.requests)
        if after.finished < before.finished:
            told.append("the server's counters went back: it was restarted meanwhile")
        elif strange > 0:
            told.append("%d requests of others ended while it was measured" % strange)
    elif before.tokens is not None and after.tokens is not None:
        ours = sum(request["tokens"] for request in measured.requests)
        strange = after.tokens - before.tokens - ours
        # A failed request's tokens are unknown; an engine may count a token more or less a request.
        sure = not any(request["error"] for request in measured.requests)
        if sure and strange > 2 * len(measured.requests) + 0.02 * ours:
            told.append("%d tokens were generated for others while it was measured" % strange)
    # A gauge that stands still may be a stale one of our own requests.
    if after.busy and (after.moving or after.waiting) and not told and not before.busy:
        told.append("%d requests of others ran when it ended" % ((after.running or 0) + (after.waiting or 0)))
    return told


def neighbours(
    strangers: Sequence[Mapping[str, Any]], passers: Sequence[Tuple[str, Optional[int], int]]
) -> List[str]:
    """Others on the server's GPUs, at the end or at any time in between."""
    told = [
        "another process is on GPU %s: %s" % (_listed(one["gpus"]), one["title"] or one["reason"])
        for one in strangers
    ]
    seen = {one["pid"] for one in strangers}
    passed = [(name, index) for name, pid, index in passers if pid not in seen]
    return told + ["another process came to GPU %d meanwhile: %s" % (index, name) for name, index in passed]


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(str(number) for number in numbers)
