"""The systemd unit that brings a slot's server back after a reboot; systemctl starts and stops it.

A persisted slot has a folder ``persist`` beside its launches: the plan, the login's environment, and the
agent itself, so that the unit needs no controller. What a controller starts there runs in the unit too: it
leaves the launch that it prepared in ``next.json``, and the unit's main process takes that.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .. import outside, run
from ..context import AgentError, Context
from ..processes import procs
from ..processes.procs import read_file
from . import state

INSIDE = "STOKER_UNIT"
FOLDER = "persist"
BOOT, NEXT, STARTED, STOPPING = "boot.json", "next.json", "started.json", "stopping"
_BOOTED = "/run/systemd/system"
_SYSTEM_UNITS = "/etc/systemd/system"
_CALL_S = 60.0
# A stop in the unit is a clean kill: its grace, and what follows that.
_AFTER_GRACE_S = 90.0
_NEVER_GROWS_TO = 1 << 20


class Manager(NamedTuple):
    """Who keeps services here.

    Args:
        kind: ``system``; ``user``: the account's own; empty: nobody.
        why: Why there is none.
        units: Folder of unit files.
    """

    kind: str
    why: str
    units: str


class Started(NamedTuple):
    """A server that the unit started: pid and start time of its shim and of itself, and its cgroup."""

    shim_pid: int
    shim_start: int
    pid: int
    start: int
    cgroup: str


def name_of(slot: str) -> str:
    """The unit of a slot."""
    return f"stoker-{slot}.service"


def folder_of(ctx: Context, slot: str) -> str:
    """Where what a unit needs lies."""
    return os.path.join(state.slot_dir(ctx.home, slot), FOLDER)


def manager(ctx: Context) -> Manager:
    """Who keeps services on this host for our account."""
    facts = ctx.facts
    booted = facts.systemd_dir or ("" if facts.simulated else _BOOTED)
    if not booted or not os.path.isdir(booted):
        return Manager("", "systemd is not the init of this host", "")
    if os.getuid() == 0:
        return Manager("system", "", facts.unit_dir or _SYSTEM_UNITS)
    done = _systemctl(ctx, "user", ["show-environment"])
    if done["rc"]:
        return Manager("", f"the account's systemd does not answer: {_said(done)}", "")
    config = ctx.login_env.get("XDG_CONFIG_HOME") or os.path.join(os.path.dirname(ctx.home), ".config")
    return Manager("user", "", facts.unit_dir or os.path.join(config, "systemd/user"))


def installed(ctx: Context, slot: str) -> Optional[Manager]:
    """The manager that has our unit of this slot (by its marker: this very folder); None where none has."""
    if not os.path.isdir(folder_of(ctx, slot)):
        return None
    found = manager(ctx)
    text = unit_text(found, slot) if found.kind else ""
    return found if f"\nFolder={folder_of(ctx, slot)}\n" in text else None


def unit_text(found: Manager, slot: str) -> str:
    """The unit file as it is; empty where there is none."""
    return read_file(os.path.join(found.units, name_of(slot)), _NEVER_GROWS_TO).decode("utf-8", "replace")


def is_inside(ctx: Context) -> bool:
    """Whether we are the unit's own process (or the entry point's): then nobody else is to be asked."""
    return INSIDE in ctx.login_env


def start(ctx: Context, slot: str, launch: Mapping[str, Any]) -> Started:
    """Let the unit start a prepared launch.

    Args:
        slot: A persisted one.
        launch: ``{folder, argv, env, cwd}``.

    Raises:
        AgentError: ``io``: the unit did not start it.
    """
    folder, found = folder_of(ctx, slot), installed(ctx, slot)
    if found is None:
        raise AgentError("io", f"{name_of(slot)} is not there any more")
    ours = {"pid": os.getpid(), "start": state_of_self()}
    for name in (STARTED, STOPPING):
        _forget(os.path.join(folder, name))
    state.write_json(os.path.join(folder, NEXT), {**launch, "agent": ours})
    try:
        _systemctl(ctx, found.kind, ["reset-failed", name_of(slot)])
        done = _systemctl(ctx, found.kind, ["start", name_of(slot)])
        told = _json(os.path.join(folder, STARTED))
        if done["rc"] or told.get("folder") != launch["folder"]:
            why = _said(done) or "its main process did not take the launch"
            raise AgentError("io", f"systemctl start {name_of(slot)}: {why}")
    finally:
        _forget(os.path.join(folder, NEXT))
    return Started(told["shim_pid"], told["shim_start"], told["pid"], told["start"], told["cgroup"])


def other_after_boot(ctx: Context, slot: str, profile_hash: str) -> str:
    """That a reboot brings another profile than this one, in words; empty where it brings this one."""
    plan = _json(os.path.join(folder_of(ctx, slot), BOOT)).get("plan") or {}
    if plan.get("profile_hash") == profile_hash:
        return ""
    return f"a reboot brings {plan.get('profile')} back as it was persisted: inv persist changes that"


def taken(folder: str) -> Optional[Dict[str, Any]]:
    """In the unit: the launch that a living agent left for us; None where none did. It is taken away."""
    path = os.path.join(folder, NEXT)
    left = _json(path)
    _forget(path)
    agent = left.get("agent") or {}
    lives = procs.alive(int(agent.get("pid") or 0), int(agent.get("start") or 0))
    return left if lives else None


def answer(folder: str, launch_folder: str, started: Started) -> None:
    """In the unit: say what became of the launch that was taken."""
    state.write_json(os.path.join(folder, STARTED), {"folder": launch_folder, **started._asdict()})


def running(ctx: Context, launches: Sequence[Mapping[str, Any]]) -> List[Tuple[str, Manager]]:
    """Slots of these launches whose server lives in its unit, with who keeps it."""
    if is_inside(ctx):
        return []
    found = []
    for slot in dict.fromkeys(str(one["slot"]) for one in launches if one.get("unit")):
        kept = installed(ctx, slot) or manager(ctx)
        if kept.kind and not _systemctl(ctx, kept.kind, ["is-active", "--quiet", name_of(slot)])["rc"]:
            found.append((slot, kept))
    return found


def stop(ctx: Context, slot: str, kept: Manager, grace_s: float) -> str:
    """Stop a slot's unit; its main process ends the server gracefully. What came of it, in words."""
    folder = folder_of(ctx, slot)
    with contextlib.suppress(AgentError):  # its folder may be gone; then the hooks run once more
        state.write(os.path.join(folder, STOPPING), f"{os.getpid()} {state_of_self()}")
    began = time.monotonic()
    try:
        done = _systemctl(ctx, kept.kind, ["stop", name_of(slot)], grace_s + _AFTER_GRACE_S)
    finally:
        _forget(os.path.join(folder, STOPPING))
    took = f"{time.monotonic() - began:.1f} s"
    return f"{_said(done)} after {took}" if done["rc"] or done["timed_out"] else f"done in {took}"


def is_asked_by_agent(folder: str) -> bool:
    """In the unit: whether a living agent stops us, which has run the hooks itself."""
    words = read_file(os.path.join(folder, STOPPING)).split()
    return len(words) == 2 and procs.alive(int(words[0]), int(words[1]))


def systemctl(ctx: Context, found: Manager, *words: str) -> None:
    """Call systemctl.

    Raises:
        AgentError: ``io``, with what it said.
    """
    done = _systemctl(ctx, found.kind, list(words))
    if done["rc"]:
        raise AgentError(
            "io", f"systemctl {' '.join(words)}: {_said(done)}", done["stderr"].splitlines()[-8:]
        )


def is_enabled(ctx: Context, found: Manager, slot: str) -> bool:
    """Whether the unit starts at boot."""
    return not _systemctl(ctx, found.kind, ["is-enabled", "--quiet", name_of(slot)])["rc"]


def linger(ctx: Context) -> None:
    """Let the account's manager start at boot; where that is refused, who asked is told by ``linger``."""
    with contextlib.suppress(AgentError):
        run.run(ctx, ["loginctl", "enable-linger"], env=ctx.login_env, cwd="/", timeout_s=_CALL_S)


def state_of_self() -> int:
    """Our own start time."""
    found = procs.look(os.getpid())
    return found.start if found else 0


def _systemctl(ctx: Context, kind: str, words: List[str], timeout_s: float = _CALL_S) -> Dict[str, Any]:
    env = dict(ctx.login_env)
    # A login without pam_systemd has no address of its own manager.
    env.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    argv = ["systemctl", *(["--user"] if kind == "user" else []), *words]
    try:
        return run.run(ctx, argv, env=env, cwd="/", timeout_s=timeout_s)
    except AgentError as error:
        if error.kind != "io":
            raise
        return {"rc": 127, "stdout": "", "stderr": error.what, "timed_out": False}


def _said(done: Mapping[str, Any]) -> str:
    if done["timed_out"]:
        return "systemctl did not end in time"
    lines = [line for line in (done["stderr"] + done["stdout"]).splitlines() if line.strip()]
    return (
        re.sub(r"\s+", " ", lines[0])[:300] if lines else (f"exit status {done['rc']}" if done["rc"] else "")
    )


def _json(path: str) -> Dict[str, Any]:
    try:
        return outside.mapping(outside.parse(read_file(path)))
    except outside.OutsideError:
        return {}


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
