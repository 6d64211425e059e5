"""What the host is, what serves on it, and what is left over: the operation ``status``."""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from . import describe, gpu, look, procs, recognise, state
from .context import AgentError, Context
from .families import Family, is_orphan
from .look import Sight
from .procs import Process
from .scope import Finding
from .state import Launch

HEALTH_S = 1.0
_MODELS_PATH = "/v1/models"

Server = Dict[str, Any]


def status(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``status``.

    Args:
        params: ``engines``; ``slots`` (null: all); ``plans``: slot to the plan that should run there, for the
            proof.

    Returns:
        ``{host, gpus, gpu_state, gpu_why, servers, strays}``; a server's ``health`` is the HTTP status, null
        where nothing answered.
    """
    driver = gpu.query(ctx.facts, ctx.login_env)
    sight = look.take(ctx, look.recogniser_of(params), state.slots(ctx.home), (), driver)
    wanted = params.get("slots")
    slots = [slot for slot in state.slots(ctx.home) if wanted is None or slot in wanted]
    launches = [(slot, state.current(ctx.home, slot)) for slot in slots]
    servers = [_ours(ctx, sight, launch, params) for _, launch in launches if launch is not None]
    if wanted is None:
        servers += [_by_hand(ctx, sight, family) for family in _foreign(sight) if family.launcher]
    return {
        "host": _host(ctx),
        "gpus": [one.to_wire() for one in driver.gpus],
        "gpu_state": driver.state,
        "gpu_why": driver.why,
        "servers": servers,
        "strays": [describe.process(finding) for finding in _strays(sight)],
    }


def _ours(ctx: Context, sight: Sight, launch: Launch, params: Mapping[str, Any]) -> Server:
    members, containment = state.members(sight.view.snapshot, launch)
    alive = sight.view.snapshot.alive(int(launch["pid"]), int(launch["start"])) and containment != "none"
    engine = sight.recogniser.engines.get(launch["engine"], {})
    launcher = sight.view.snapshot.by_pid.get(int(launch["pid"]))
    return {
        "launch": launch,
        "slot": launch["slot"],
        "engine": launch["engine"],
        "alive": alive,
        "pid": launch["pid"],
        "health": _health(ctx, launch["bind"], launch["port"], engine) if alive else None,
        "model": launch["model"],
        "uptime_s": round(launcher.age_s, 1) if alive and launcher else None,
        "containment": containment,
        "proof": _proof(ctx, launch, params) if alive else None,
        "processes": [_process(sight, member, "") for member in members],
        "bind": launch["bind"],
        "port": launch["port"],
        "exit": state.exit_of(ctx.home, launch),
    }


def _by_hand(ctx: Context, sight: Sight, family: Family) -> Server:
    head = family.launcher or family.members[0]
    engine = sight.recogniser.engines.get(family.engine, {})
    bind, port = _listens(sight, family, engine)
    return {
        "launch": None,
        "slot": None,
        "engine": family.engine,
        "alive": True,
        "pid": head.pid,
        "health": _health(ctx, bind, port, engine) if port else None,
        "model": recognise.flag_value(head.argv, str(engine.get("model_flag", ""))) or None,
        "uptime_s": round(head.age_s, 1),
        "containment": "family",
        "proof": None,
        "processes": [_process(sight, member, "") for member in family.members],
        "bind": bind or None,
        "port": port or None,
        "exit": None,
    }


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


def _health(ctx: Context, bind: str, port: int, engine: Mapping[str, Any]) -> Optional[int]:
    from . import http

    path = str(engine.get("health_path") or _MODELS_PATH)
    try:
        return http.get(bind, int(port), path, HEALTH_S, poll=ctx.check_cancelled).status
    except (OSError, http.HttpError):
        return None


def _proof(ctx: Context, launch: Launch, params: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """Whether it runs as the plan of its slot says; None where none was given, or it has just ended."""
    plan = (params.get("plans") or {}).get(launch["slot"])
    if not plan:
        return None
    from . import proof

    try:
        return proof.prove(ctx, {"plan": plan, "launch_id": launch["launch_id"]})
    except AgentError as error:
        if error.kind != "no-server":
            raise
        return None


def _foreign(sight: Sight) -> List[Family]:
    """Engine processes of this host that no slot launched."""
    ours = {process.pid for process in sight.view.own}
    found = (f for f in sight.view.families if not ours & {member.pid for member in f.members})
    return [family for family in found if sight.view.snapshot.is_ours(family.members[0])]


def _strays(sight: Sight) -> Iterable[Finding]:
    """What a dead server left, and ownerless Python processes on the GPUs."""
    view = sight.view
    for family in _foreign(sight):
        if family.launcher is None:
            for member in family.members:
                yield _finding(sight, member, f"{family.engine}, its launcher is gone")
    dead = [launch for launch in sight.own if not view.snapshot.alive(launch["pid"], launch["start"])]
    for launch in dead:
        for member in state.members(view.snapshot, launch)[0]:
            yield _finding(sight, member, f"left by slot {launch['slot']}, whose launcher is gone")
    known = {member.pid for family in view.families for member in family.members}
    known |= {process.pid for process in view.own} | set(view.agent)
    for pid in sorted({pid for users in view.owners.users.values() for pid in users} - known):
        process = view.snapshot.by_pid.get(pid)
        if process and recognise.is_python(process) and is_orphan(view.snapshot, process):
            yield _finding(sight, process, "a Python process whose parent is gone")


def _process(sight: Sight, process: Process, reason: str) -> Dict[str, Any]:
    return describe.process(_finding(sight, process, reason))


def _finding(sight: Sight, process: Process, reason: str) -> Finding:
    owners = sight.view.owners
    ports = tuple(sorted({row.port for row in sight.view.listeners if row.pid == process.pid}))
    return Finding(process, reason, owners.gpus_of(process.pid), ports, owners.mib_of(process.pid))


def _host(ctx: Context) -> Dict[str, Any]:
    facts = ctx.facts
    return {
        "hostname": socket.gethostname(),
        "user": describe.user(os.getuid()),
        "uid": os.getuid(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "boot_id": facts.boot_id,
        "init_start": facts.init_start,
        "simulated": facts.simulated,
        "uptime_s": round(time.clock_gettime(time.CLOCK_BOOTTIME), 1),
        "cpus": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "memory_mib": _memory("MemTotal"),
        "memory_free_mib": _memory("MemAvailable"),
        "disk_free_mib": _free(os.path.dirname(ctx.home)),
        "shm_free_mib": _free(facts.shm_dir),
    }


def _memory(name: str) -> Optional[int]:
    for line in procs.read_file("/proc/meminfo").decode("ascii", "replace").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) >> 10
    return None


def _free(folder: str) -> Optional[int]:
    try:
        space = os.statvfs(folder)
    except OSError:
        return None
    return int(space.f_bavail * space.f_frsize) >> 20
