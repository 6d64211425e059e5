"""The life of a server as operations: ``restart`` (and start), ``kill``, ``stop``."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import Any, ContextManager, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple

from . import claim, clean, describe, gpu, launch, look, preflight, procs, scope, state
from .claim import Claim
from .clean import Order
from .context import AgentError, Context
from .gpu import GpuState
from .look import NO_GPUS
from .scope import Target
from .state import Launch

# After its last process a server's GPU memory can be in use for this long without any holder.
SETTLE_S = 3.0


def restart(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``restart``: check, kill cleanly, launch; with ``replace`` false: ``start``.

    Args:
        params: ``plan``, ``engines``, ``force``, ``check`` (nothing is touched), ``replace``, ``owner``.

    Returns:
        ``{kill, launch, preflight, seconds, already_running}``; the last is true where ``start`` found the
        same profile running, and ``launch`` is that one.

    Raises:
        AgentError: ``preflight``, ``blocked``, ``already-running``, ``lock-held``: the old server was not
            touched; ``unkillable``, ``not-released``, ``died``, ``io``.
    """
    began = time.monotonic()
    plan, checking = params["plan"], bool(params.get("check"))
    starting = params.get("replace") is False
    driver = gpu.query(ctx.facts, ctx.login_env) if plan["gpus"] else NO_GPUS
    wanted = claim.of_plan(ctx, plan, driver, bool(params.get("force")))
    with _locked(ctx, params, wanted, "restart"):
        running = _running(ctx, plan["slot"]) if starting else None
        if running is not None:
            return {**_result(_already(running, plan), running, [], began), "already_running": True}
        order = _decide(ctx, params, wanted, driver)
        if starting:
            _refuse_to_replace(order)
        clean.refuse_blocked(order)
        with ctx.step("preflight") as step:
            checks = _preflight(ctx, plan, driver, order)
            step.detail = f"{len(checks)} checks"
        preflight.refuse(checks)
        if checking:
            return _result(clean.report(order), None, checks, began)
        killed, launched = _replace(ctx, plan, wanted, order)
        return _result(killed, launched, checks, began)


def kill(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``kill``.

    Args:
        params: ``engines``; one of ``plan``, ``slot``, ``match``, or none of them: the whole host; ``force``,
            ``check`` (nothing is touched), ``protect``, ``expected`` (``[[pid, start]]``), ``owner``.

    Returns:
        The kill report.

    Raises:
        AgentError: ``blocked``, ``lock-held``, ``no-server``: nobody was signalled; ``unkillable``,
            ``not-released``.
    """
    driver = gpu.query(ctx.facts, ctx.login_env)
    wanted = claim.of(ctx, params, driver)
    wanted = replace(wanted, protect=(*wanted.protect, *(params.get("protect") or ())))
    with _locked(ctx, params, wanted, "kill"):
        order = _decide(ctx, params, wanted, driver)
        if wanted.wants_gpus and driver.state in ("unhealthy", "unknown"):
            raise AgentError(
                "blocked",
                f"the state of the GPUs is {driver.state}: {driver.why}",
                next_step="look at nvidia-smi on the host; nobody was signalled",
            )
        clean.refuse_blocked(order)
        if params.get("check"):
            return clean.report(order)
        with ctx.shield():
            return clean.carry_out(ctx, order)


def stop(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``stop``: what this slot launched, gracefully, and nothing else.

    Args:
        params: ``slot``, ``engines``, ``check``, ``grace_s`` (null: the engine's), ``owner``.

    Returns:
        The kill report; an empty one where nothing runs.

    Raises:
        AgentError: ``no-server``: there is no such slot; ``lock-held``, ``unkillable``, ``not-released``.
    """
    latest = claim.known_slot(ctx, params["slot"])
    driver = gpu.query(ctx.facts, ctx.login_env) if latest and latest["gpus"] else NO_GPUS
    wanted = replace(
        claim.of_slot(ctx, params["slot"], driver, False),
        target=Target(own_only=True),
        grace_s=params.get("grace_s"),
    )
    with _locked(ctx, params, wanted, "stop"):
        order = _decide(ctx, params, wanted, driver)
        if params.get("check"):
            return clean.report(order)
        with ctx.shield():
            return clean.carry_out(ctx, order)


def _locked(ctx: Context, params: Mapping[str, Any], wanted: Claim, what: str) -> ContextManager[None]:
    """All that is claimed, locked; nothing where only a check was asked for."""
    if params.get("check"):
        return contextlib.nullcontext()
    owner = {"user": describe.user(os.getuid()), "host": str(params.get("owner") or ""), "what": what}
    # A launch is not over until somebody has waited for it: nobody else begins one in between.
    locked: ContextManager[None] = ctx.locks.hold(wanted.locks, owner, keep=bool(params.get("keep_locks")))
    return locked


def _decide(ctx: Context, params: Mapping[str, Any], wanted: Claim, driver: GpuState) -> Order:
    """Look and decide; where nobody holds memory that is in use, look again: it may be on its way back."""
    end = time.monotonic() + SETTLE_S
    with ctx.step("look") as step:
        while True:
            sight = look.take(ctx, look.recogniser_of(params), wanted.slots, wanted.protect, driver)
            decided = scope.decide(sight.view, wanted.target)
            if not decided.unknown or time.monotonic() > end:
                break
            ctx.cancelled.wait(SETTLE_S / 10)
            ctx.check_cancelled()
            driver = gpu.query(ctx.facts, ctx.login_env)
        order = Order(sight, decided, wanted.target, wanted.grace_s, _agreed(params))
        step.detail = f"{len(decided.ended)} to end, {len(decided.blockers)} in the way"
    return clean.only_agreed(order)


def _agreed(params: Mapping[str, Any]) -> Optional[FrozenSet[Tuple[int, int]]]:
    expected = params.get("expected")
    return None if expected is None else frozenset((int(pid), int(start)) for pid, start in expected)


def _preflight(ctx: Context, plan: Mapping[str, Any], driver: GpuState, order: Order) -> List[Dict[str, Any]]:
    doomed = [finding.process for finding in order.scope.ended if finding.process is not None]
    return preflight.check(ctx, plan, driver, look.addresses(plan["bind"]), doomed)


def _replace(
    ctx: Context, plan: Mapping[str, Any], wanted: Claim, order: Order
) -> Tuple[Dict[str, Any], Launch]:
    """Kill and launch; once the first signal is sent, nothing ends this in between."""
    with ctx.step("prepare") as step:
        prepared = launch.prepare(ctx, plan, wanted.gpus)
        step.detail = prepared.record["launch_id"]
    with _discarding(prepared), ctx.shield():
        killed = clean.carry_out(ctx, order)
        return killed, _launch(ctx, prepared, killed)


@contextlib.contextmanager
def _discarding(prepared: launch.Prepared) -> Iterator[None]:
    """Take back what was prepared, where the launch did not begin."""
    try:
        yield
    except BaseException:
        if not launch.began(prepared):
            launch.discard(prepared)
        raise


def _launch(ctx: Context, prepared: launch.Prepared, killed: Dict[str, Any]) -> Launch:
    try:
        with ctx.step("launch") as step:
            launched = launch.start(ctx, prepared)
            step.detail = f"process {launched['pid']}"
            return launched
    except AgentError as error:
        error.detail.setdefault("kill", killed)
        raise


def _running(ctx: Context, slot: str) -> Optional[Launch]:
    """The slot's launch, where its launcher lives."""
    latest = state.current(ctx.home, slot)
    if latest is None or not state.is_this_boot(latest, ctx.facts):
        return None
    return latest if procs.alive(int(latest["pid"]), int(latest["start"])) else None


def _already(running: Launch, plan: Mapping[str, Any]) -> Dict[str, Any]:
    if running["profile_hash"] == plan["profile_hash"]:
        return clean.nothing()
    raise AgentError(
        "already-running",
        f"slot {plan['slot']} runs {running['profile']} as process {running['pid']}, another profile",
        next_step="inv restart replaces it, inv stop ends it",
        detail={"launch": running},
    )


def _refuse_to_replace(order: Order) -> None:
    """A start ends only what a dead server of its own slot left behind.

    Raises:
        AgentError: ``blocked``: what a restart would end is in the way.
    """
    own = {process.key for process in order.sight.view.own}
    others = [f for f in order.scope.ended if f.process is None or f.process.key not in own]
    if others:
        raise AgentError(
            "blocked",
            f"a start ends nothing, and something is in the way: {describe.line(others[0])}",
            [describe.line(finding) for finding in others],
            next_step="inv restart ends it and starts, inv kill only ends it",
            detail={"kill": clean.report(order)},
        )


def _result(
    killed: Dict[str, Any], launched: Optional[Launch], checks: List[Dict[str, Any]], began: float
) -> Dict[str, Any]:
    seconds = round(time.monotonic() - began, 4)
    return {
        "kill": killed,
        "launch": launched,
        "preflight": checks,
        "seconds": seconds,
        "already_running": False,
    }
