"""What a profile wants done around its server: before it is ended, a drain, and once it is ready."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping

from .. import run
from ..asking import traffic
from ..asking.traffic import Traffic
from ..context import AgentError, Context
from ..processes import procs
from ..variables import redacted
from . import prepare, subject

# A balancer answers in seconds; whatever takes longer than this hangs.
HOOK_S = 300.0
_TICK_S = 0.25
_OUTPUT_CHARS = 4000
_SHOWN_LINES = 20
_NONE: Dict[str, Any] = {"before_stop": [], "after_ready": [], "drain_s": 0.0}

Ran = Dict[str, Any]


def of(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """The hooks of a plan, or of a launch as its record has them: ``{before_stop, after_ready, drain_s}``."""
    recorded = about.get("resolved")
    found = about.get("hooks") or (recorded.get("hooks") if isinstance(recorded, dict) else None)
    return {**_NONE, **found} if isinstance(found, dict) else _NONE


def planned(about: Mapping[str, Any]) -> List[Ran]:
    """What :func:`before_stop` would do, as it would tell it: ``rc`` and ``seconds`` are null."""
    hooks = of(about)
    found = [_noun("before_stop", line) for line in hooks["before_stop"]]
    return found + ([_noun("drain", f"at most {hooks['drain_s']:g} s")] if hooks["drain_s"] else [])


def before_stop(ctx: Context, about: Mapping[str, Any], asked: Mapping[str, Any]) -> List[Ran]:
    """Run the commands before a server is ended, then wait until it has nothing to do any more.

    Args:
        about: The plan or the launch whose hooks they are.
        asked: Names the server as ``subject.find`` takes it.

    Returns:
        ``{when, command, rc, seconds, output}`` each; the drain is the last, with ``rc`` null.

    Raises:
        AgentError: ``hook``: one failed, and nobody was signalled; ``cancelled``.
    """
    hooks = of(about)
    ran = _all(ctx, "before_stop", hooks["before_stop"], about, "nobody was signalled: the server runs on")
    if float(hooks["drain_s"]) > 0:
        began = time.monotonic()
        with ctx.step("drain") as step:
            step.detail = _drain(ctx, asked, float(hooks["drain_s"]))
        took = round(time.monotonic() - began, 3)
        ran.append({**_noun("drain", ""), "seconds": took, "output": step.detail})
    return ran


def after_ready(ctx: Context, plan: Mapping[str, Any]) -> List[Ran]:
    """Run the commands of a server that is ready; returns as :func:`before_stop`.

    Raises:
        AgentError: ``hook``: one failed; the server is left running; ``cancelled``.
    """
    return _all(ctx, "after_ready", of(plan)["after_ready"], plan, "the server is ready and was left running")


def _all(ctx: Context, when: str, commands: List[str], about: Mapping[str, Any], left: str) -> List[Ran]:
    ran: List[Ran] = []
    for line in commands:
        with ctx.step(f"hook {when}") as step:
            ran.append(_one(ctx, when, line, about))
            step.detail = _told(ran[-1])
            if ran[-1]["rc"] != 0:
                raise _failed(ran, left)
    return ran


def _one(ctx: Context, when: str, line: str, about: Mapping[str, Any]) -> Ran:
    secrets = dict(about.get("secrets") or {}).values()
    done = run.run(
        ctx,
        ["/bin/sh", "-c", line],
        env=_environment(ctx, about),
        cwd=prepare.folder_of(ctx),
        timeout_s=HOOK_S,
    )
    output = redacted(done["stdout"] + done["stderr"], secrets)[-_OUTPUT_CHARS:]
    rc = None if done["timed_out"] else done["rc"]
    return {**_noun(when, line), "rc": rc, "seconds": round(done["seconds"], 3), "output": output}


def _noun(when: str, command: str) -> Ran:
    return {"when": when, "command": command, "rc": None, "seconds": None, "output": ""}


def _told(ran: Ran) -> str:
    if ran["rc"] is None:
        return f"{ran['command'][:80]}: not done after {HOOK_S:g} s"
    return f"{ran['command'][:80]}: exit status {ran['rc']}"


def _failed(ran: List[Ran], left: str) -> AgentError:
    last = ran[-1]
    return AgentError(
        "hook",
        f"the {last['when']} hook failed ({_told(last)}); {left}",
        last["output"].splitlines()[-_SHOWN_LINES:],
        next_step="correct the profile's hooks; what earlier ones did stays done",
        detail={"hooks": ran},
    )


def _environment(ctx: Context, about: Mapping[str, Any]) -> Dict[str, str]:
    """The login's, and what names the server; none of its secrets."""
    names = {name: str(about.get(name) or "") for name in ("host", "profile", "slot", "bind", "port")}
    return {**ctx.login_env, **{f"STOKER_{name.upper()}": value for name, value in names.items()}}


def _drain(ctx: Context, asked: Mapping[str, Any], drain_s: float) -> str:
    """Wait until the engine itself counts no request, or the time is over; what came of it, in words."""
    end = time.monotonic() + drain_s
    try:
        server = subject.find(ctx, asked)
    except AgentError as error:
        if error.kind == "no-server":
            return "nothing serves, so nothing is to be drained"
        server, seen = None, Traffic(why=error.what)
    while True:
        if server is not None:
            seen = traffic.read(ctx, server.server)
            if not procs.alive(*server.launcher.key):
                return "the server has ended by itself"
        if not seen.why and seen.running is not None and not seen.busy:
            return "no request runs or waits"
        left = end - time.monotonic()
        if left <= 0:
            return f"{_load(seen)}: went on after {drain_s:g} s"
        ctx.cancelled.wait(min(_TICK_S, left))
        ctx.check_cancelled()


def _load(seen: Traffic) -> str:
    if seen.why or seen.running is None:
        return seen.why or "the engine does not tell how many requests run"
    return f"{seen.running:g} requests still run and {seen.waiting or 0:g} wait"
