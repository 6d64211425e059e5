"""A reboot brings the server back: the operation ``persist`` installs a unit, or lays an entry point."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import resource
import shutil
import sys
import zipfile
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .. import outside, secretsfile
from ..context import AgentError, Context
from ..facts import VARIABLE
from ..killing import claim, describe
from ..launches import serving, state, units
from ..launches.locks import lock_set, slot_lock
from ..launches.units import BOOT, Manager
from ..processes import procs
from . import prepare

ARCHIVE, SCRIPT = "agent.zip", "start.sh"
_LIMITS = {
    "NOFILE": resource.RLIMIT_NOFILE,
    "MEMLOCK": resource.RLIMIT_MEMLOCK,
    "NPROC": resource.RLIMIT_NPROC,
    "STACK": resource.RLIMIT_STACK,
    "CORE": resource.RLIMIT_CORE,
}
_AGENT = __name__.rpartition(".starting.")[0]
_ALWAYS = (1980, 1, 1, 0, 0, 0)
# The imports take a second, and nothing is begun yet. PID 1 of a container hears only what it handles.
_MAIN = """import signal, sys
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: sys.exit(0))
from stoker.agent.starting import entry
sys.exit(entry.main(sys.argv[1]))
"""


def persist(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``persist``.

    Args:
        params: ``plan``; ``do``: ``look``, ``put`` or ``remove``; with ``put``: ``unit`` (text of the unit
            file; null where nobody keeps services), ``entry`` (the text of the entry point), ``engines``,
            ``modules`` (names of the agent's modules); ``owner``. With ``remove`` a ``slot`` is enough.

    Returns:
        Of ``look``: ``{manager, why, unit, path, folder, entry, python, home, user, limits, text, installed,
        enabled, linger, running}``: what the texts are made of, and what is there now (``installed`` is null
        or ``{profile, profile_hash}``). Of the others: ``{changed, manager, unit, path, folder, enabled,
        linger, running, written or removed: [path]}``.

    Raises:
        AgentError: ``lock-held``, ``io``: also what systemctl said; ``no-server``: there is no such slot.
    """
    plan = params.get("plan") or {}
    slot, engine = plan.get("slot") or params["slot"], plan.get("engine") or {}
    found = units.manager(ctx)
    if params["do"] == "look":
        return {**_told(ctx, found, slot, engine), **_asked(ctx, found, slot)}
    owner = {"user": describe.user(os.getuid()), "host": str(params.get("owner") or ""), "what": "persist"}
    if params["do"] == "remove":
        claim.known_slot(ctx, slot)
    lock = slot_lock(ctx.home, slot)
    with lock_set(ctx).hold([lock], owner):
        done = _remove(ctx, found, slot) if params["do"] == "remove" else _put(ctx, found, params)
    return {**_told(ctx, found, slot, engine), **done}


def _told(ctx: Context, found: Manager, slot: str, engine: Mapping[str, Any]) -> Dict[str, Any]:
    """What is there now."""
    is_there = bool(found.kind) and bool(units.unit_text(found, slot))
    running = state.current(ctx.home, slot)
    if running and not serving.alive(ctx.home, ctx.facts, running, engine):
        running = None
    return {
        "manager": found.kind,
        "why": found.why,
        "unit": units.name_of(slot) if found.kind else "",
        "path": os.path.join(found.units, units.name_of(slot)) if found.kind else "",
        "folder": units.folder_of(ctx, slot),
        "enabled": is_there and units.is_enabled(ctx, found, slot),
        "linger": found.kind != "user" or _lingers(),
        "running": running,
    }


def _asked(ctx: Context, found: Manager, slot: str) -> Dict[str, Any]:
    """What the controller makes the texts of, and what they replace."""
    folder = units.folder_of(ctx, slot)
    boot = _boot_of(folder)
    return {
        "python": sys.executable or os.readlink("/proc/self/exe"),
        "archive": os.path.join(folder, ARCHIVE),
        "home": os.path.dirname(ctx.home),
        "user": describe.user(os.getuid()),
        "limits": {name: list(map(_limit, resource.getrlimit(which))) for name, which in _LIMITS.items()},
        "text": units.unit_text(found, slot) if found.kind else "",
        "entry": procs.read_file(os.path.join(folder, SCRIPT)).decode("utf-8", "replace"),
        "installed": {n: boot["plan"][n] for n in ("profile", "profile_hash")} if boot else None,
    }


def _put(ctx: Context, found: Manager, params: Mapping[str, Any]) -> Dict[str, Any]:
    plan, slot = params["plan"], params["plan"]["slot"]
    folder = units.folder_of(ctx, slot)
    texts = {
        BOOT: _boot(ctx, found, params),
        SCRIPT: params["entry"],
        secretsfile.NAME: secretsfile.text(plan["secrets"]),
    }
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        written = _write_archive(os.path.join(folder, ARCHIVE), params["modules"])
    except OSError as error:
        raise state.io_error(folder, error) from error
    for name, text in texts.items():
        if text or os.path.exists(os.path.join(folder, name)):
            written += _write(os.path.join(folder, name), text, 0o700 if name == SCRIPT else 0o600)
    enabled = False
    if found.kind:
        written += _install(ctx, found, slot, params["unit"])
        enabled = not units.is_enabled(ctx, found, slot)
        if enabled:
            units.systemctl(ctx, found, "enable", units.name_of(slot))
        if found.kind == "user" and not _lingers():
            units.linger(ctx)
    return {"changed": bool(written) or enabled, "written": written}


def _install(ctx: Context, found: Manager, slot: str, text: str) -> List[str]:
    path = os.path.join(found.units, units.name_of(slot))
    there = units.unit_text(found, slot)
    if there and f"\nFolder={units.folder_of(ctx, slot)}\n" not in there:
        raise AgentError("io", f"{path} is somebody else's unit", next_step="look at it, and move it away")
    try:
        os.makedirs(found.units, exist_ok=True)
    except OSError as error:
        raise state.io_error(found.units, error) from error
    written = _write(path, text, 0o644)
    if written:
        units.systemctl(ctx, found, "daemon-reload")
    return written


def _remove(ctx: Context, found: Manager, slot: str) -> Dict[str, Any]:
    """Take unit and folder away; a server that runs there is left running."""
    folder = units.folder_of(ctx, slot)
    removed = []
    if units.installed(ctx, slot):
        path = os.path.join(found.units, units.name_of(slot))
        units.systemctl(ctx, found, "disable", units.name_of(slot))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        units.systemctl(ctx, found, "daemon-reload")
        removed.append(path)
    if os.path.isdir(folder):
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder)
    return {"changed": bool(removed), "removed": removed}


def _boot(ctx: Context, found: Manager, params: Mapping[str, Any]) -> str:
    """What a start without a login and without a controller needs. Secrets lie in a file of their own."""
    plan = dict(params["plan"], secrets={})
    env = prepare.environment(ctx, plan, ())
    if VARIABLE in ctx.login_env:
        env[VARIABLE] = ctx.login_env[VARIABLE]
    unit = units.name_of(plan["slot"]) if found.kind else ""
    whole = {"plan": plan, "engines": params["engines"], "login_env": env, "unit": unit}
    return json.dumps(whole, indent=1, sort_keys=True) + "\n"


def _boot_of(folder: str) -> Optional[Dict[str, Any]]:
    try:
        found = outside.mapping(outside.parse(procs.read_file(os.path.join(folder, BOOT))))
    except outside.OutsideError:
        return None
    return found if {"profile", "profile_hash"} <= set(outside.mapping(found.get("plan"))) else None


def _write(path: str, text: str, mode: int) -> List[str]:
    """The path, where it had to be written."""
    if os.path.exists(path) and procs.read_file(path) == text.encode("utf-8"):
        return []
    state.write(path, text, mode)
    return [path]


def _write_archive(path: str, modules: Sequence[str]) -> List[str]:
    """The agent's modules as they run here, as one archive that a Python runs."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _ALWAYS), _MAIN)
        for package in ("stoker", _AGENT, *sorted({_AGENT + _room(name) for name in modules} - {_AGENT})):
            archive.writestr(zipfile.ZipInfo(f"{package.replace('.', '/')}/__init__.py", _ALWAYS), "")
        for name in sorted(modules):
            entry = zipfile.ZipInfo(f"{_AGENT}.{name}".replace(".", "/") + ".py", _ALWAYS)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, _source(name))
    data = content.getvalue()
    if procs.read_file(path) == data:
        return []
    draft = f"{path}.{os.getpid()}.new"
    with open(draft, "wb") as file:
        file.write(data)
    os.rename(draft, path)
    return [path]


def _room(module: str) -> str:
    """``.starting`` of ``starting.life``; nothing of a module outside of the rooms."""
    room = module.rpartition(".")[0]
    return f".{room}" if room else ""


def _source(name: str) -> str:
    spec = importlib.util.find_spec(f"{_AGENT}.{name}")
    loader: Any = spec.loader if spec else None
    text = loader.get_source(spec.name) if loader and spec else None
    if text is None:
        raise AgentError("bad-request", f"the agent has no module {name!r}")
    return str(text)


def _lingers() -> bool:
    return os.path.exists(os.path.join("/var/lib/systemd/linger", describe.user(os.getuid())))


def _limit(value: int) -> str:
    return "infinity" if value == resource.RLIM_INFINITY else str(value)
