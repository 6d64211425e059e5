"""Is this host fit to serve: the operations ``doctor`` and ``clock``."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

from ..context import Context
from ..diagnosis import FAIL, OK, UNKNOWN, Check, check
from ..gpus import gpu, owners
from ..gpus.gpu import GpuState
from ..killing import describe, look
from ..killing.look import Sight
from ..launches import state
from ..processes import descriptors
from ..starting import preflight
from . import doctorgpus, doctorhost, doctorload, doctorsystem
from . import status as statuses
from .doctorload import Loaded

# These look at the whole host here, and in more detail.
_NOT_OF_A_PROFILE = frozenset(("disk", "shared memory", "supervisor"))
_NOT_LOADED = Loaded([], [], [])


class _Patient(NamedTuple):
    """The host as it was found."""

    ctx: Context
    plans: Sequence[Mapping[str, Any]]
    driver: GpuState
    sight: Sight
    servers: Sequence[Mapping[str, Any]]
    strays: Sequence[Mapping[str, Any]]
    loaded: Loaded


def doctor(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``doctor``; nothing is changed.

    Args:
        params: ``engines``; ``plans``: what should run here (without secrets); ``load``: let the servers that
            run decode some tokens, and look at the GPUs meanwhile.

    Returns:
        ``{checks: [{name, state, evidence, remedy}], loaded: [text], seconds}``; ``state`` is ``ok``,
        ``warn``, ``fail`` or ``unknown``.

    Raises:
        AgentError: ``cancelled``, ``bad-request``.
    """
    began = time.monotonic()
    with ctx.step("look at the host"):
        patient = _look(ctx, params)
    if params.get("load"):
        with ctx.step("load the servers") as step:
            loaded = doctorload.drive(ctx, params["engines"], patient.servers)
            step.detail = ", ".join(loaded.driven + loaded.failed) or "nothing runs"
            patient = patient._replace(loaded=loaded)
    checks = [*_gpus(patient), *_host(patient)]
    for plan in patient.plans:
        with ctx.step(f"check {plan['profile']}"):
            checks += _profile(patient, plan)
    return {"checks": checks, "loaded": patient.loaded.driven, "seconds": round(time.monotonic() - began, 3)}


def clock(_ctx: Context, _params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``clock``: this host's time, as Unix time."""
    return {"time": time.time()}


def _look(ctx: Context, params: Mapping[str, Any]) -> _Patient:
    plans = params.get("plans") or []
    found = statuses.status(ctx, {"engines": params["engines"], "slots": None, "plans": {}})
    driver = gpu.query(ctx.facts, ctx.login_env)
    sight = look.take(ctx, look.recogniser_of(params), state.slots(ctx.home), (), driver)
    return _Patient(ctx, plans, driver, sight, found["servers"], found["strays"], _NOT_LOADED)


def _gpus(patient: _Patient) -> List[Check]:
    ctx, driver = patient.ctx, patient.driver
    more = gpu.details(ctx.facts, ctx.login_env, doctorgpus.FIELDS) if driver.gpus else {}
    found = doctorgpus.looks(driver, more, patient.loaded.gpus)
    checks = [doctorgpus.driver(driver, any(plan["gpus"] for plan in patient.plans))]
    checks += doctorgpus.each(found)
    checks += doctorgpus.memory(driver, patient.sight.view.owners)
    if driver.state == "none":
        return checks
    if ctx.facts.simulated:
        checks.append(check("Xid errors", UNKNOWN, "a simulated host has no kernel's log of its own"))
    else:
        checks.append(doctorsystem.xids(doctorsystem.kernel_log(), doctorsystem.uptime_s()))
    return [*checks, doctorsystem.mps(patient.sight.view.snapshot)]


def _host(patient: _Patient) -> List[Check]:
    """What concerns the whole host; what cannot be read is unknown, and hides nothing else."""
    ctx, plans = patient.ctx, patient.plans
    home = os.path.dirname(ctx.home)
    running = doctorhost.servers_of(patient.servers)
    pids = [int(process["pid"]) for server in patient.servers for process in server["processes"]]
    folders = {"home": home}
    folders.update(
        (f"model of {p['profile']}", os.path.dirname(p["model_path"])) for p in plans if p["model_path"]
    )
    named = [plan["env"]["NCCL_CONF_FILE"] for plan in plans if "NCCL_CONF_FILE" in plan["env"]]
    level = next((p["env"]["NCCL_P2P_LEVEL"] for p in plans if "NCCL_P2P_LEVEL" in p["env"]), "")
    gpus = max([len(owners.resolve(plan["gpus"], patient.driver)[0]) for plan in plans], default=0)
    checks: Dict[str, Callable[[], Check]] = {
        "Python": doctorhost.python,
        "memory": doctorhost.memory,
        "memory limit": lambda: doctorhost.cgroup_memory(list(running.values())),
        "swap": lambda: doctorhost.swap(pids),
        "disk": lambda: doctorhost.disk(folders),
        "shared memory": lambda: doctorhost.shm(ctx.facts.shm_dir, gpus),
        "limits": lambda: doctorsystem.limits(running),
        "logins": lambda: doctorsystem.logins(describe.user(os.getuid()), os.getuid()),
        "proof": doctorsystem.ptrace,
        "IOMMU and ACS": lambda: doctorsystem.iommu(level),
        "NCCL files": lambda: doctorhost.nccl_files(home, named),
        "leftovers": lambda: doctorhost.leftovers(patient.servers, patient.strays),
    }
    return [_safely(name, body) for name, body in checks.items()]


def _safely(name: str, body: Callable[[], Check]) -> Check:
    try:
        return body()
    except OSError as error:
        return check(name, UNKNOWN, f"{error.filename or 'the system'}: {error.strerror or error}")


def _profile(patient: _Patient, plan: Mapping[str, Any]) -> List[Check]:
    """What would keep a profile from starting here, as a launch itself checks it."""
    launch = state.current(patient.ctx.home, plan["slot"])
    own, _ = state.members(patient.sight.view.snapshot, launch) if launch else ([], "")
    found = preflight.check(patient.ctx, plan, patient.driver, descriptors.addresses(plan["bind"]), own)
    checks = []
    for one in found:
        if one["name"] not in _NOT_OF_A_PROFILE:
            detail = one["detail"].replace(
                "held by what is going to be ended", "held by this profile's server"
            )
            remedy = f"correct it, or the profile {plan['profile']}"
            checks.append(
                check(f"{plan['profile']}: {one['name']}", OK if one["ok"] else FAIL, detail, remedy)
            )
    return checks
