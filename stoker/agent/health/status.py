"""What serves on the host, how it is, who uses the GPUs, and what is left over: the operation ``status``."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..asking import gate
from ..context import Context
from ..gpus import gpu
from ..killing import describe, ending, look, scope
from ..killing.look import Sight
from ..killing.scope import Finding
from ..launches import serving, state
from ..launches.state import Launch
from ..processes import recognise
from ..processes.families import Family
from ..processes.procs import Process
from ..starting import listening, proof
from ..starting.subject import UNKNOWN_ENGINE, key_of
from . import hostinfo, vitals
from .vitals import Asked, Checkup

Server = Dict[str, Any]
Plans = Mapping[str, Mapping[str, Any]]


class _Seen(NamedTuple):
    """A server before it is asked anything.

    Args:
        told: What /proc and the records say, as the contract's *server*.
        asked: How to ask it; None for one that is dead.
        plan: What its workers' environment is compared with; None: nothing.
        workers: Those that must carry the plan's variables.
    """

    told: Server
    asked: Optional[Asked] = None
    plan: Optional[Mapping[str, Any]] = None
    workers: Sequence[Process] = ()


def status(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``status``.

    Args:
        params: ``engines``; ``slots`` (null: all); ``plans``: slot to the plan that should run there. A
            server's live environment is compared with that plan, where it was launched by it or started by
            hand on its port; else with what its own launch was given.

    Returns:
        ``{host, gpus, gpu_state, gpu_why, gpu_unknown, servers, strays, holders}``: ``gpu_unknown`` is why
        nobody can tell who uses a GPU, by its index; ``holders`` are processes on the GPUs that belong to no
        server.
    """
    driver = gpu.query(ctx.facts, ctx.login_env)
    sight = look.take(ctx, look.recogniser_of(params), state.slots(ctx.home), (), driver)
    wanted = params.get("slots")
    plans: Plans = params.get("plans") or {}
    slots = [slot for slot in state.slots(ctx.home) if wanted is None or slot in wanted]
    launches = filter(None, (state.current(ctx.home, slot) for slot in slots))
    seen = [_ours(ctx, sight, launch, plans) for launch in launches]
    if wanted is None:
        seen += [_by_hand(sight, family, plans) for family in _foreign(sight) if family.launcher]
    strays = _strays(sight)
    return {
        "host": hostinfo.take(ctx),
        "gpus": [one.to_wire() for one in driver.gpus],
        "gpu_state": driver.state,
        "gpu_why": driver.why,
        "gpu_unknown": {str(index): why for index, why in sight.view.owners.unknown.items()},
        "servers": _asked(ctx, seen),
        "strays": [describe.process(finding) for finding in strays],
        "holders": [describe.process(one) for one in _holders(sight, strays)],
    }


def _asked(ctx: Context, seen: Sequence[_Seen]) -> List[Server]:
    """Each server with how it is: all are asked at once, and meanwhile their environments are read."""
    checkups = [Checkup(ctx, one.asked) if one.asked else None for one in seen]
    for one in seen:
        if one.plan is not None:
            one.told["proof"] = proof.of_plan(one.plan, list(one.workers), ctx.check_cancelled)
    for one, checkup in zip(seen, checkups):
        if checkup is not None and one.asked is not None:
            found = checkup.result()
            one.told["health"] = found.health
            one.told["load"] = vitals.load(found)
            one.told["state"], why = vitals.judge(found, one.asked)
            one.told["why"] = "; ".join(filter(None, (why, one.told["why"])))
    return [one.told for one in seen]


def _ours(ctx: Context, sight: Sight, launch: Launch, plans: Plans) -> _Seen:
    snapshot = sight.view.snapshot
    members, containment = state.members(snapshot, launch)
    head = sight.heads.get(launch["launch_id"]) if containment != "none" else None
    alive = head is not None
    engine = sight.recogniser.engines.get(launch["engine"], UNKNOWN_ENGINE)
    restarted = not state.is_this_boot(launch, ctx.facts) and bool(launch["boot_id"])
    told: Server = {
        "launch": launch,
        "slot": launch["slot"],
        "engine": launch["engine"],
        "alive": alive,
        "state": "down",
        "why": launch.get("damaged") or ("" if alive else _why_down(launch, restarted, len(members))),
        "pid": head.pid if head else launch["pid"],
        "health": None,
        "load": None,
        "model": launch["model"],
        "uptime_s": round(head.age_s, 1) if head else None,
        "host_restarted": restarted,
        "containment": containment,
        "proof": None,
        "processes": [_process(sight, member) for member in members],
        "bind": launch["bind"],
        "port": launch["port"],
        "exit": None if alive else state.exit_of(ctx.home, launch),
        "starts": state.starts(ctx.home, launch["slot"], ctx.facts),
    }
    if head is None:
        return _Seen(told)
    where = gate.Server(launch["bind"], int(launch["port"]), engine, key_of(engine, head))
    asked = _who_answers(sight, told, Asked(where, tuple(members), launch["log"]))
    if "damaged" in launch:
        return _Seen(told, asked)
    plan = _plan_of(launch, engine, plans)
    return _Seen(told, asked, plan, proof.workers(snapshot, members, launch, plan["engine"]))


def _why_down(launch: Launch, restarted: bool, left: int) -> str:
    stopped = ending.told(launch)
    if restarted and not stopped:
        return "the host was restarted since the launch"
    return "; ".join(filter(None, (stopped, "%d of its processes are left" % left if left else "")))


def _plan_of(launch: Launch, engine: Mapping[str, Any], plans: Plans) -> Mapping[str, Any]:
    """What a launch should run with: the plan it was made of, else what its own record says it was given."""
    plan = plans.get(launch["slot"])
    if plan is not None and plan["profile_hash"] == launch["profile_hash"]:
        return plan
    resolved = launch.get("resolved") or {}
    env: Mapping[str, Any] = resolved.get("env") or {}
    return {
        "engine": engine,
        "env": {name: value for name, value in env.items() if isinstance(value, str)},
        "secrets": {name: "" for name, value in env.items() if not isinstance(value, str)},
        "expect": resolved.get("expect") or {},
        "inherit": (resolved.get("server") or {}).get("inherit") or (),
        "gpus": launch["gpus"],
    }


def _by_hand(sight: Sight, family: Family, plans: Plans) -> _Seen:
    head = family.launcher or family.members[0]
    engine = sight.recogniser.engines.get(family.engine, UNKNOWN_ENGINE)
    bind, port = _listens(sight, family, engine)
    told: Server = {
        "launch": None,
        "slot": None,
        "engine": family.engine,
        "alive": True,
        "state": "up",
        "why": "",
        "pid": head.pid,
        "health": None,
        "load": None,
        "model": recognise.model_of(head.argv, engine) or None,
        "uptime_s": round(head.age_s, 1),
        "host_restarted": False,
        "containment": "family",
        "proof": None,
        "processes": [_process(sight, member) for member in family.members],
        "bind": bind or None,
        "port": port or None,
        "exit": None,
        "starts": None,
    }
    plan = next((plan for plan in plans.values() if plan["port"] == port), None)
    root = {"pid": head.pid, "start": head.start}
    members = list(family.members)
    workers = proof.workers(sight.view.snapshot, members, root, plan["engine"]) if plan else ()
    where = gate.Server(bind, port, engine, key_of(engine, head))
    return _Seen(told, _who_answers(sight, told, Asked(where, family.members)), plan, workers)


def _who_answers(sight: Sight, told: Server, asked: Asked) -> Optional[Asked]:
    """Nobody to ask where somebody else's answer would be taken for the server's: then that is its state."""
    place = asked.server.address, asked.server.port
    others = serving.strangers(sight.view.listeners, asked.members, *place)
    if not others:
        return asked
    who = listening.told(sight.view.snapshot, others[0])
    told["state"] = "stuck"
    told["why"] = "; ".join(filter(None, ("not its own listener: " + who, told["why"])))
    return None


def _listens(sight: Sight, family: Family, engine: Mapping[str, Any]) -> Tuple[str, int]:
    """Where a server listens that we did not launch: the port it was told, else what its launcher holds."""
    pids = {member.pid for member in family.members}
    rows = [row for row in sight.view.listeners if row.pid in pids]
    head = family.launcher or family.members[0]
    told = recognise.flag_value(head.argv, str(engine.get("port_flag", "")))
    by_flag = [row for row in rows if str(row.port) == told]
    by_launcher = [row for row in rows if row.pid == head.pid]
    found = (by_flag or by_launcher or rows)[:1]
    return (found[0].address, found[0].port) if found else ("", 0)


def _foreign(sight: Sight) -> List[Family]:
    """Engine processes of this host that no slot launched."""
    ours = {process.pid for process in sight.view.own}
    found = (f for f in sight.view.families if not ours & {member.pid for member in f.members})
    return [family for family in found if sight.view.snapshot.is_ours(family.members[0])]


def _strays(sight: Sight) -> Sequence[Finding]:
    """What dead servers left, by the rules of a kill."""
    snapshot = sight.view.snapshot
    dead = [launch for launch in sight.own if launch["launch_id"] not in sight.heads]
    left = {member.pid: launch["slot"] for launch in dead for member in state.members(snapshot, launch)[0]}
    return scope.strays(sight.view, left)


def _holders(sight: Sight, strays: Iterable[Finding]) -> Iterable[Finding]:
    """Processes on the GPUs that belong to no server: other users', notebooks, whatever it is."""
    view = sight.view
    known = {member.pid for family in _foreign(sight) for member in family.members}
    known |= {process.pid for process in view.own} | set(view.agent)
    known |= {finding.process.pid for finding in strays if finding.process}
    for pid in sorted({pid for users in view.owners.users.values() for pid in users} - known):
        process = view.snapshot.by_pid.get(pid)
        if process is not None:
            yield _finding(sight, process, "belongs to no server that is known here")


def _process(sight: Sight, process: Process) -> Dict[str, Any]:
    return describe.process(_finding(sight, process, ""))


def _finding(sight: Sight, process: Process, reason: str) -> Finding:
    owners = sight.view.owners
    ports = tuple(sorted({row.port for row in sight.view.listeners if row.pid == process.pid}))
    return Finding(process, reason, owners.gpus_of(process.pid), ports, owners.mib_of(process.pid))
