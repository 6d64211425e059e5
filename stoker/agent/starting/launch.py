"""Starting a server so that it outlives the connection: the shim runs what was prepared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import Any, List, Mapping, Tuple

from ..context import AgentError, Context
from ..killing import signals
from ..launches import death, serving, state, units
from ..launches.logs import tail
from ..launches.state import Launch
from ..launches.units import Started
from ..processes import cgroups, procs
from . import prepare

_START_S = 20.0
# A command that cannot even be run has ended by then; whatever ends later is for ``wait`` to tell.
_EARLY_S = 0.06
_SHOWN_LINES = 20


def start(ctx: Context, prepared: prepare.Prepared) -> Launch:
    """Run the server under its shim.

    Returns:
        The record of the launch, as it is kept on the host.

    Raises:
        AgentError: ``died``: it has ended already; ``io``.
    """
    prepare.into_place(prepared)
    started, unit = _run(ctx, prepared)
    launch = {
        **prepared.record,
        **started._asdict(),
        "started_at": time.time(),
        "cgroup": _joined(started.cgroup),
        "unit": unit,
    }
    try:
        # In this order: should we be ended in between, what the shim wrote completes the record.
        state.write(os.path.join(prepared.slot_dir, "current"), launch["launch_id"])
        prepare.write_record(prepared.folder, launch)
    except AgentError:
        _take_back(ctx, launch)
        raise
    rotate(ctx, launch["slot"])
    _check_alive(ctx, launch, prepared.engine)
    return launch


def rotate(ctx: Context, slot: str) -> None:
    """Keep the last launches only, and any that still has processes."""
    busy = {launch["launch_id"] for launch in state.leftovers(ctx.home, slot, ctx.facts)}
    for launch_id in state.history(ctx.home, slot)[: -state.KEPT_LAUNCHES]:
        if launch_id not in busy:
            shutil.rmtree(state.launch_dir(ctx.home, slot, launch_id), ignore_errors=True)


def _run(ctx: Context, prepared: prepare.Prepared) -> Tuple[Started, str]:
    """Run the shim: in the slot's unit where there is one, else as our child, from which it detaches.

    Returns:
        What was started, and the name of the unit; empty: none.
    """
    slot, folder = prepared.record["slot"], prepared.folder
    given = (folder, list(prepared.argv), dict(prepared.env), prepare.folder_of(ctx))
    if units.is_inside(ctx):
        unit = ctx.login_env[units.INSIDE]
        return run_shim(*given, _cgroup_of(prepared)), unit if unit.endswith(".service") else ""
    if units.installed(ctx, slot) is not None:
        with ctx.step(f"systemctl start {units.name_of(slot)}") as step:
            try:
                asked = dict(zip(("folder", "argv", "env", "cwd"), given), name=_cgroup_of(prepared))
                step.detail = units.other_after_boot(ctx, slot, prepared.record["profile_hash"])
                return units.start(ctx, slot, asked), units.name_of(slot)
            except AgentError as error:
                # The old server is gone: this one shall run, if not where it should.
                step.detail = f"{error.what}; started outside of it"
                if prepare.began(prepared):
                    raise
    return run_shim(*given, _cgroup_of(prepared)), ""


def _cgroup_of(prepared: prepare.Prepared) -> str:
    """What the cgroup of a launch is called."""
    return f"{prepared.record['slot']}-{prepared.record['marker'][:12]}"


def run_shim(folder: str, argv: List[str], env: Mapping[str, str], cwd: str, name: str) -> Started:
    """Start the shim; it detaches by itself.

    Args:
        folder: Of the launch.
        argv: The server's command.
        env: Its whole environment.
        cwd: Its working folder.
        name: Of the cgroup that is made for it, below our own.

    Raises:
        AgentError: ``died``: it did not start.
    """
    python = sys.executable or os.readlink("/proc/self/exe")
    cgroup = cgroups.make(name)
    shim = [os.path.join(folder, "shim.py"), folder, *([cgroup] if cgroup else [])]
    process = subprocess.Popen(
        [python, "-I", "-S", *shim, "--", *argv],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        close_fds=True,
    )
    try:
        out, err = process.communicate(timeout=_START_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    words = out.split()
    if len(words) != 4:
        cgroups.remove(cgroup)
        said = err.decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
        status = {"code": process.returncode} if process.returncode >= 0 else {"signal": -process.returncode}
        raise death.died("the supervisor of the server did not start", "", status, said)
    shim_pid, shim_start, pid, start_time = (int(word) for word in words)
    return Started(shim_pid, shim_start, pid, start_time, cgroup)


def _joined(cgroup: str) -> str:
    """The cgroup, if the server (or what it left) is in it."""
    if cgroups.members(cgroup):
        return cgroup
    cgroups.remove(cgroup)  # it has ended already, or the kernel would not have it there
    return ""


def _take_back(ctx: Context, launch: Launch) -> None:
    """End a server that nobody could find again: its record could not be written."""
    for process in state.members(procs.snapshot(ctx.facts), launch)[0]:
        signals.send(process, signals.KILL)


def _check_alive(ctx: Context, launch: Launch, engine: Mapping[str, Any]) -> None:
    end = time.monotonic() + _EARLY_S
    while procs.alive(launch["pid"], launch["start"]):
        if time.monotonic() > end:
            return
        time.sleep(0.005)
    status = death.exit_status(ctx, launch)
    if status == {"code": 0} and serving.alive(ctx.home, ctx.facts, launch, engine):
        return  # it has left a server behind, as daemons do: wait tells what comes of it
    said = tail(launch["log"], _SHOWN_LINES)
    what = f"the server {death.ending(status)} at once"
    raise death.died(what, launch["log"], status, said, death.cause_in(engine, said), launch=launch)
