"""A clean kill: end what was decided, in order, and prove that it has let go."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterable, List, Sequence, Tuple

from ..context import AgentError, Context
from ..launches import state, units
from ..processes import cgroups, procs
from ..processes.procs import Process
from . import describe, orders, quarry, release, signals
from .orders import SHOWN, Order, Report
from .scope import Finding
from .signals import Ending

DEFAULT_GRACE_S = 15.0
_SHIM_S = 1.0


def carry_out(ctx: Context, order: Order) -> Report:
    """End and prove; call it inside a shield.

    Raises:
        AgentError: ``unkillable``, ``not-released``; both with the report.
    """
    first_step = len(ctx.steps)
    done = orders.report(order)  # while they can still be looked at
    if done["ended"]:
        ctx.emit("doomed", processes=done["ended"])  # shown before the first signal
    try:
        _prove(ctx, order, _end_all(ctx, order, done), done)
    finally:
        done["steps"] = ctx.steps[first_step:]
    return done


def _end_all(ctx: Context, order: Order, done: Report) -> quarry.Quarry:
    """End what was decided, and what is born of it meanwhile; returns all that was ended.

    Raises:
        AgentError: ``unkillable``.
    """
    view, doomed = order.sight.view, _doomed(order)
    prey = quarry.Quarry(
        view.snapshot,
        doomed,
        order.sight.own if order.agreed is None else (),
        lambda p: p.pid in view.agent or p.pid == 1 or view.protected.covers(p),
    )
    unkillable = _end(ctx, order, prey, doomed)
    keys = {process.key for process in doomed}
    born = [process for process in prey.known.values() if process.key not in keys]
    done["ended"] += [describe.process(Finding(p, "born while it was ended")) for p in born]
    done["released"]["processes"] = not unkillable
    if unkillable:
        done["unkillable"] = [describe.process(Finding(p, "lives on after SIGKILL")) for p in unkillable]
        raise _unkillable(done, unkillable)
    return prey


def _prove(ctx: Context, order: Order, prey: quarry.Quarry, done: Report) -> None:
    """Nothing holds on to what it had.

    Raises:
        AgentError: ``not-released``.
    """
    if order.agreed is None:
        _end_shims(ctx, order)
    ended = _ended(order, prey, _doomed(order))
    with ctx.step("release") as step:
        problem = _released(ctx, order, ended, done)
        step.detail = problem or "all is free"
    if problem:
        raise AgentError(
            "not-released",
            f"the old server is gone, but {problem}",
            next_step="look at the host: inv status, inv doctor",
            detail={"kill": done},
        )


def _doomed(order: Order) -> List[Process]:
    return [finding.process for finding in order.scope.ended if finding.process is not None]


def _end(ctx: Context, order: Order, prey: quarry.Quarry, doomed: Sequence[Process]) -> List[Process]:
    """The three stages; returns what cannot be killed."""
    ending = Ending(ctx.facts, prey, order.patience.unkillable_s)
    first, grace_s = _launchers(order, doomed)
    left: Sequence[Process] = doomed
    if _stop_units(ctx, order, first, grace_s):
        left = ending.left()
        first = [process for process in first if procs.alive(*process.key)]
    if first:
        with ctx.step("terminate") as step:
            apart = _apart(order, first, doomed)
            left = ending.politely(first, grace_s, apart)
            besides = f" and {len(apart)} that belong to none of them" if apart else ""
            step.detail = f"SIGTERM to {_pids(first)}{besides}, {len(left)} left"
    if left:
        with ctx.step("terminate the rest") as step:
            before = len(left)
            left = ending.firmly(left, min(signals.TERM_S, grace_s))
            step.detail = f"SIGTERM to {before}, {len(left)} left"
    if not doomed:
        return []
    with ctx.step("kill") as step:
        killed = len(left)
        left = ending.finally_()
        step.detail = f"SIGKILL to {killed}, {len(left)} left" if killed else "nothing left to kill"
    return list(left)


def _stop_units(ctx: Context, order: Order, first: Sequence[Process], grace_s: float) -> bool:
    """Stop the units that our own servers live in, so that systemd knows; whether there were any."""
    keys = {process.key for process in first}
    own = [one for key, one in orders.served(order).items() if key in keys]
    found = units.running(ctx, own)
    for slot, kept in found:
        with ctx.step(f"systemctl stop {units.name_of(slot)}") as step:
            step.detail = units.stop(ctx, slot, kept, grace_s)
    return bool(found)


def _launchers(order: Order, doomed: Sequence[Process]) -> Tuple[List[Process], float]:
    """Who gets SIGTERM alone and first, and how long they have."""
    keys = {process.key for process in doomed}
    own = orders.served(order)
    first: Dict[Tuple[int, int], Process] = {}
    graces: List[float] = []
    for process in doomed:
        if process.key in own:
            first[process.key] = process
            graces.append(_own_grace(order, own[process.key]) if order.grace_s is None else order.grace_s)
    for family in order.sight.view.families:
        launcher = family.launcher
        if launcher is not None and launcher.key in keys and not _below(order, launcher, first.values()):
            first[launcher.key] = launcher
            graces.append(_engine_grace(order, family.engine))
    return list(first.values()), max(graces, default=signals.TERM_S)


def _apart(order: Order, first: Sequence[Process], doomed: Sequence[Process]) -> List[Process]:
    """What none of these launchers will take along when it ends: it need not wait for them."""
    snapshot, keys = order.sight.view.snapshot, {process.key for process in first}
    taken = {p.key for one in first for p in (one, *snapshot.descendants(one.pid))}
    for family in order.sight.view.families:
        if family.launcher is not None and family.launcher.key in keys:
            taken |= {member.key for member in family.members}
    for key, one in orders.served(order).items():
        if key in keys:
            taken |= {member.key for member in state.members(snapshot, one)[0]}
    return [process for process in doomed if process.key not in taken]


def _below(order: Order, process: Process, others: Iterable[Process]) -> bool:
    above = {parent.key for parent in order.sight.view.snapshot.ancestors(process.pid)} | {process.key}
    return any(other.key in above for other in others)


def _own_grace(order: Order, launch: state.Launch) -> float:
    planned = (launch.get("kill") or {}).get("grace_s")
    return _engine_grace(order, str(launch["engine"])) if planned is None else float(planned)


def _engine_grace(order: Order, engine: str) -> float:
    known = order.sight.recogniser.engines.get(engine, {})
    return float(known.get("grace_s", DEFAULT_GRACE_S))


def _end_shims(ctx: Context, order: Order) -> None:
    """The supervisors end by themselves once nothing is left; they go last."""
    end = time.monotonic() + _SHIM_S
    while True:
        left = quarry.shims(procs.snapshot(ctx.facts), order.sight.own)
        if not left:
            break
        if time.monotonic() > end:
            for shim in left:
                signals.send(shim, signals.KILL)
        time.sleep(0.005)
    for launch in order.sight.own:
        proof = os.path.join(state.launch_dir(ctx.home, launch["slot"], launch["launch_id"]), "empty")
        if not os.path.exists(proof):
            state.write(proof, "")  # its shim was not there to see it; we were
        cgroups.remove(str(launch.get("cgroup") or ""))


def _ended(order: Order, prey: quarry.Quarry, doomed: Sequence[Process]) -> release.Ended:
    view, target = order.sight.view, order.target
    held = {index for finding in order.scope.ended for index in finding.gpus}
    claimed = target.gpus if target.gpus is not None and not target.own_only else frozenset()
    names = {family.engine for family in view.families if any(m.key in prey.known for m in family.members)}
    names |= {str(launch["engine"]) for launch in (*order.sight.own, *order.sight.dead)}
    engines = [
        order.sight.recogniser.engines[name] for name in names if name in order.sight.recogniser.engines
    ]
    lives = [release.life_of(doomed)] if doomed else []
    lives += [release.life_of([], float(launch["started_at"])) for launch in order.sight.own]
    lives += [(float(launch["started_at"]), float(launch["ended_at"])) for launch in order.sight.dead]
    return release.Ended(
        keys=frozenset(prey.known),
        lives=tuple(lives),
        gpus=tuple(sorted(held | claimed)),
        before=view.owners,
        addresses=target.addresses,
        port=0 if target.own_only else target.port,
        shm_prefixes=tuple(prefix for engine in engines for prefix in engine["shm_prefixes"]),
    )


def _released(ctx: Context, order: Order, ended: release.Ended, done: Report) -> str:
    """Fill in what was released; returns what was not, or empty."""
    released = done["released"]
    released["port"] = release.port_free(ended, order.patience.port_s)
    gpus = release.gpus_free(ctx, ended, order.patience.gpu_s) if order.scope.ended else []
    released["gpus"] = [{k: v for k, v in one.items() if k != "free"} for one in gpus]
    released["shm"] = release.sweep_shm(ctx, ended)
    held = [f"GPU {one['index']} still has {one['after_mib']} MiB in use" for one in gpus if not one["free"]]
    if not released["port"]:
        held.append(f"port {ended.port} is listened on again or still")
    return "; ".join(held)


def _unkillable(done: Report, left: Sequence[Process]) -> AgentError:
    return AgentError(
        "unkillable",
        f"{len(left)} processes live on after SIGKILL: {_pids(left)}",
        [describe.line(Finding(process, f"state {process.state}")) for process in left[:SHOWN]],
        next_step="nothing was launched on top; if they hang in the driver, the host needs a reboot",
        detail={"kill": done},
    )


def _pids(processes: Sequence[Process]) -> str:
    return ", ".join(str(process.pid) for process in processes[:SHOWN])
