"""The life of a server as operations: ``restart`` (and start), ``kill``, ``stop``."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any, ContextManager, Dict, FrozenSet, Iterator, List, Mapping, Optional, Tuple

from ..context import AgentError, Context
from ..gpus import gpu
from ..gpus.gpu import GpuState
from ..killing import claim, clean, describe, ending, look, orders, scope
from ..killing.claim import Claim
from ..killing.look import NO_GPUS
from ..killing.orders import Order
from ..killing.scope import Target
from ..launches import serving, state
from ..launches.locks import lock_set
from ..launches.state import Launch
from ..processes import descriptors, procs
from . import hooks, launch, preflight, prepare

# After its last process a server's GPU memory can be in use for this long without any holder.
SETTLE_S = 3.0


def restart(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``restart``: check, kill cleanly, launch; with ``replace`` false: ``start``.

    Args:
        params: ``plan``, ``engines``, ``force``, ``check`` (nothing is touched), ``replace``, ``owner``,
            ``locked`` (who asks has locked it), ``beside`` (whoever else is on the GPUs may stay there).

    Returns:
        ``{kill, launch, previous, preflight, seconds, steps, already_running}``; the last is true where
        ``start`` found the same profile running, and ``launch`` is that one. ``previous`` is
        ``{launch, script}`` of what served before in this slot; null where nothing did.

    Raises:
        AgentError: ``preflight``, ``blocked``, ``already-running``, ``lock-held``, ``hook``: the old server
            was not touched; ``unkillable``, ``not-released``; ``died``, ``io``: with ``previous`` in the
            detail where the old server is gone.
    """
    began = time.monotonic()
    plan, checking = params["plan"], bool(params.get("check"))
    starting = params.get("replace") is False
    driver = gpu.query(ctx.facts, ctx.login_env) if plan["gpus"] else NO_GPUS
    wanted = claim.of_plan(ctx, plan, driver, bool(params.get("force")))
    if params.get("beside"):
        wanted = replace(wanted, target=Target(own_only=True))
    with _locked(ctx, params, wanted, "restart"):
        running = _running(ctx, plan) if starting else None
        if running is not None:
            return {**_result(ctx, _already(running, plan), running, [], began), "already_running": True}
        order = _decide(ctx, params, wanted, driver)
        if starting:
            _refuse_to_replace(order)
        orders.refuse_blocked(order)
        with ctx.step("preflight") as step:
            checks = _preflight(ctx, plan, driver, order)
            step.detail = f"{len(checks)} checks"
        preflight.refuse(checks)
        if checking:
            told = {**orders.report(order), "hooks": hooks.planned(plan) if order.scope.ended else []}
            return _result(ctx, told, None, checks, began)
        previous = _previous(ctx, plan)
        killed, launched = _replace(ctx, params, wanted, order, previous)
        return {**_result(ctx, killed, launched, checks, began), "previous": previous}


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
        orders.refuse_blocked(order)
        if params.get("check"):
            told = [one for launched in orders.leaving(order) for one in hooks.planned(launched)]
            return {**orders.report(order), "hooks": told}
        return _end(ctx, params, wanted, order, "kill")


def stop(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``stop``: what this slot launched, gracefully, and nothing else.

    Args:
        params: ``slot``, ``engines``, ``check``, ``owner``, ``locked`` (who asks has locked it), ``hooks``
            (false: they were run).

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
    )
    with _locked(ctx, params, wanted, "stop"):
        order = _decide(ctx, params, wanted, driver)
        if params.get("check"):
            told = [one for launched in orders.leaving(order) for one in hooks.planned(launched)]
            return {**orders.report(order), "hooks": told}
        return _end(ctx, params, wanted, order, "stop")


def _locked(ctx: Context, params: Mapping[str, Any], wanted: Claim, what: str) -> ContextManager[None]:
    """All that is claimed, locked; nothing where only a check was asked for, or who asks has locked it."""
    if params.get("check") or params.get("locked"):
        return contextlib.nullcontext()
    owner = ending.owner(params, what)
    # A launch is not over until somebody has waited for it: nobody else begins one in between.
    locked: ContextManager[None] = lock_set(ctx).hold(
        wanted.locks, owner, keep=bool(params.get("keep_locks"))
    )
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
    return orders.only_agreed(order)


def _agreed(params: Mapping[str, Any]) -> Optional[FrozenSet[Tuple[int, int]]]:
    expected = params.get("expected")
    return None if expected is None else frozenset((int(pid), int(start)) for pid, start in expected)


def _preflight(ctx: Context, plan: Mapping[str, Any], driver: GpuState, order: Order) -> List[Dict[str, Any]]:
    doomed = [finding.process for finding in order.scope.ended if finding.process is not None]
    return preflight.check(ctx, plan, driver, descriptors.addresses(plan["bind"]), doomed)


def _replace(
    ctx: Context, params: Mapping[str, Any], wanted: Claim, order: Order, previous: Optional[Dict[str, Any]]
) -> Tuple[Dict[str, Any], Launch]:
    """Kill and launch; once the first signal is sent, nothing ends this in between."""
    plan = params["plan"]
    with ctx.step("prepare") as step:
        prepared = prepare.prepare(ctx, plan, wanted.gpus)
        step.detail = prepared.record["launch_id"]
    with _discarding(prepared):
        asked = {"plan": plan, "engines": params.get("engines") or []}
        ran = hooks.before_stop(ctx, plan, asked) if order.scope.ended else []
        if ran:
            order = _look_again(ctx, params, wanted)
        going = orders.leaving(order)
        with ctx.shield(), ending.noted(ctx, going, params, "restart"):
            killed = {**clean.carry_out(ctx, order), "hooks": ran}
            return killed, _launch(ctx, prepared, killed, previous)


def _end(ctx: Context, params: Mapping[str, Any], wanted: Claim, order: Order, what: str) -> Dict[str, Any]:
    """Hooks and drain of our own servers that live, then the clean kill; ``what`` is what they are told."""
    ran: List[Dict[str, Any]] = []
    for one in orders.leaving(order) if params.get("hooks", True) else ():
        asked = {"slot": one["slot"], "engines": params.get("engines") or []}
        ran += hooks.before_stop(ctx, one, asked)
    if ran:
        order = _look_again(ctx, params, wanted)
    with ctx.shield(), ending.noted(ctx, orders.leaving(order), params, what):
        return {**clean.carry_out(ctx, order), "hooks": ran}


def _look_again(ctx: Context, params: Mapping[str, Any], wanted: Claim) -> Order:
    """The order anew: hooks and a drain take their time, and the host goes on meanwhile.

    Raises:
        AgentError: ``blocked``.
    """
    driver = gpu.query(ctx.facts, ctx.login_env) if wanted.wants_gpus else NO_GPUS
    order = _decide(ctx, params, wanted, driver)
    if not wanted.target.own_only:
        orders.refuse_blocked(order)
    return order


def _previous(ctx: Context, plan: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """What a restart can put back: what runs in the slot, else what was last ready there."""
    found = _running(ctx, plan) or state.last_ready(ctx.home, plan["slot"])
    if found is None:
        return None
    script = procs.read_file(str(found["script"])).decode("utf-8", "surrogateescape")
    return {"launch": found, "script": script}


@contextlib.contextmanager
def _discarding(prepared: prepare.Prepared) -> Iterator[None]:
    """Take back what was prepared, where the launch did not begin."""
    try:
        yield
    except BaseException:
        if not prepare.began(prepared):
            prepare.discard(prepared)
        raise


def _launch(
    ctx: Context, prepared: prepare.Prepared, killed: Dict[str, Any], previous: Optional[Dict[str, Any]]
) -> Launch:
    try:
        with ctx.step("launch") as step:
            launched = launch.start(ctx, prepared)
            step.detail = f"process {launched['pid']}"
    except AgentError as error:
        error.detail.setdefault("kill", killed)
        error.detail["previous"] = previous
        raise
    return state.amend(ctx.home, launched, {"steps": list(ctx.steps)})


def _running(ctx: Context, plan: Mapping[str, Any]) -> Optional[Launch]:
    """The launch of a plan's slot, where its server lives."""
    latest, engine = state.current(ctx.home, plan["slot"]), plan["engine"]
    return latest if latest and serving.alive(ctx.home, ctx.facts, latest, engine) else None


def _already(running: Launch, plan: Mapping[str, Any]) -> Dict[str, Any]:
    if running["profile_hash"] == plan["profile_hash"]:
        return orders.nothing()
    raise AgentError(
        "already-running",
        f"slot {plan['slot']} runs {running['profile'] or 'it is not known what'} "
        f"as process {running['pid']}, another profile",
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
            detail={"kill": orders.report(order)},
        )


def _result(
    ctx: Context,
    killed: Dict[str, Any],
    launched: Optional[Launch],
    checks: List[Dict[str, Any]],
    began: float,
) -> Dict[str, Any]:
    seconds = round(time.monotonic() - began, 4)
    return {
        "kill": killed,
        "launch": launched,
        "previous": None,
        "preflight": checks,
        "seconds": seconds,
        "steps": ctx.steps,
        "already_running": False,
    }
