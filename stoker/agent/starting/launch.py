"""Starting a server so that it outlives the connection: its files first, then the shim that runs it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .. import secretsfile
from ..context import AgentError, Context
from ..killing import signals
from ..launches import death, serving, state, units
from ..launches.logs import tail
from ..launches.state import MARKER, Launch
from ..launches.units import Started
from ..processes import cgroups, procs

GPUS = "STOKER_GPUS"
_MINIMAL = ("HOME", "USER", "LOGNAME", "SHELL", "PATH")
_NEXT = ".next"
_START_S = 20.0
# A command that cannot even be run has ended by then; whatever ends later is for ``wait`` to tell.
_EARLY_S = 0.06
_SHOWN_LINES = 20


@dataclass(frozen=True)
class Prepared:
    """A launch whose files are in place and whose server does not run yet.

    Args:
        slot_dir: Folder of the slot; its next script (and secrets) wait there under a temporary name.
        folder: Folder of the launch.
        record: The launch's record, still without processes.
        engine: ``Engine.to_wire()``: which lines of its log tell why it ended.
        env: The whole environment of the script.
        argv: The interpreter of the script and the script.
    """

    slot_dir: str
    folder: str
    record: Launch
    engine: Mapping[str, Any]
    env: Mapping[str, str]
    argv: Tuple[str, ...]


def environment(ctx: Context, plan: Mapping[str, Any], gpus: Sequence[Any]) -> Dict[str, str]:
    """What the launch script starts with: a fixed minimal set, what the plan inherits, and the host's own.

    Args:
        gpus: The GPUs resolved on this host.
    """
    login = ctx.login_env
    account = _account()
    env = {name: login.get(name) or account[name] for name in _MINIMAL}
    env.update({name: login[name] for name in plan["inherit"] if name in login})
    env.update(ctx.facts.process_env)
    if gpus:
        env[GPUS] = ",".join(gpu.uuid or str(gpu.index) for gpu in gpus)
    return env


def prepare(ctx: Context, plan: Mapping[str, Any], gpus: Sequence[Any]) -> Prepared:
    """Write everything a launch needs, before anything else is touched.

    Raises:
        AgentError: ``io``, naming the path.
    """
    now = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
    launch_id = f"{stamp}.{int(now * 1000) % 1000:03d}Z-{os.urandom(2).hex()}"  # sorts by time
    slot_dir = state.slot_dir(ctx.home, plan["slot"])
    folder = state.launch_dir(ctx.home, plan["slot"], launch_id)
    record = _record(ctx, plan, gpus, launch_id, folder)
    env = {**environment(ctx, plan, gpus), MARKER: record["marker"]}
    argv = (*interpreter(plan["script"]), os.path.join(slot_dir, "launch.sh"))
    prepared = Prepared(slot_dir, folder, record, plan["engine"], env, argv)
    try:
        _write_files(prepared, plan)
    except AgentError:  # a full disk, mostly: what half a launch takes of it is given back
        discard(prepared)
        raise
    return prepared


def _write_files(prepared: Prepared, plan: Mapping[str, Any]) -> None:
    slot_dir, folder = prepared.slot_dir, prepared.folder
    try:
        os.makedirs(folder, 0o700)
    except OSError as error:
        raise state.io_error(folder, error) from error
    for path in (os.path.join(folder, "launch.sh"), os.path.join(slot_dir, "launch.sh") + _NEXT):
        state.write(path, plan["script"], 0o700)
    state.write(os.path.join(folder, "shim.py"), _source_of_shim())
    if plan["secrets"]:
        # The launch keeps its own: what its log says of them is blotted out when the slot has others.
        for path in (
            os.path.join(slot_dir, secretsfile.NAME) + _NEXT,
            os.path.join(folder, secretsfile.NAME),
        ):
            state.write(path, secretsfile.text(plan["secrets"]))
    _write_record(folder, prepared.record)


def discard(prepared: Prepared) -> None:
    """Take back what ``prepare`` wrote: the launch will not be."""
    for name in ("launch.sh", secretsfile.NAME):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(prepared.slot_dir, name + _NEXT))
    shutil.rmtree(prepared.folder, ignore_errors=True)


def began(prepared: Prepared) -> bool:
    """Whether its server was started, whatever became of it."""
    return os.path.exists(os.path.join(prepared.folder, "launcher"))


def start(ctx: Context, prepared: Prepared) -> Launch:
    """Run the server under its shim.

    Returns:
        The record of the launch, as it is kept on the host.

    Raises:
        AgentError: ``died``: it has ended already; ``io``.
    """
    _into_place(prepared)
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
        _write_record(prepared.folder, launch)
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


def folder_of(ctx: Context) -> str:
    """Where a launch script begins: the login's home."""
    home = os.path.dirname(ctx.home)
    return home if os.path.isdir(home) else "/"


def interpreter(script: str) -> List[str]:
    """What runs the script, by its first line: its folder may forbid to execute files."""
    first = script.split("\n", 1)[0]
    words = first[2:].strip().split(None, 1) if first.startswith("#!") else []
    return words or ["/bin/sh"]


def _record(
    ctx: Context, plan: Mapping[str, Any], gpus: Sequence[Any], launch_id: str, folder: str
) -> Launch:
    facts = ctx.facts
    marker = os.urandom(16).hex()
    return {
        "launch_id": launch_id,
        "slot": plan["slot"],
        "profile": plan["profile"],
        "profile_hash": plan["profile_hash"],
        "host": plan["host"],
        "engine": plan["engine"]["name"],
        "pid": 0,
        "start": 0,
        "shim_pid": 0,
        "shim_start": 0,
        "bind": plan["bind"],
        "port": plan["port"],
        "gpus": [gpu.index for gpu in gpus],
        "gpu_uuids": [gpu.uuid or gpu.index for gpu in gpus],
        "model": plan["model"],
        "kill": plan["kill"],  # for whoever ends it without its profile
        "resolved": plan["resolved"],  # a launch is also a profile: what runs can be planned again
        "script": os.path.join(folder, "launch.sh"),
        "log": os.path.join(folder, "server.log"),
        "marker": marker,
        "cgroup": "",
        "unit": "",
        "boot_id": facts.boot_id,
        "init_start": facts.init_start,
        "simulated": facts.simulated,
        "started_at": time.time(),
    }


def _write_record(folder: str, record: Launch) -> None:
    state.write_json(os.path.join(folder, "launch.json"), record)


def _into_place(prepared: Prepared) -> None:
    secrets = os.path.join(prepared.slot_dir, secretsfile.NAME)
    script = os.path.join(prepared.slot_dir, "launch.sh")
    try:
        if os.path.exists(secrets + _NEXT):
            os.rename(secrets + _NEXT, secrets)
        elif os.path.exists(secrets):
            os.unlink(secrets)
        os.rename(script + _NEXT, script)
    except OSError as error:
        raise state.io_error(script, error) from error


def _run(ctx: Context, prepared: Prepared) -> Tuple[Started, str]:
    """Run the shim: in the slot's unit where there is one, else as our child, from which it detaches.

    Returns:
        What was started, and the name of the unit; empty: none.
    """
    slot, folder = prepared.record["slot"], prepared.folder
    given = (folder, list(prepared.argv), dict(prepared.env), folder_of(ctx))
    if units.is_inside(ctx):
        unit = ctx.login_env[units.INSIDE]
        return run_shim(*given, _cgroup_of(prepared)), unit if unit.endswith(".service") else ""
    if units.installed(ctx, slot) is not None:
        with ctx.step(f"systemctl start {units.name_of(slot)}") as step:
            try:
                asked = dict(zip(("folder", "argv", "env", "cwd"), given), name=_cgroup_of(prepared))  # noqa: B905
                step.detail = units.other_after_boot(ctx, slot, prepared.record["profile_hash"])
                return units.start(ctx, slot, asked), units.name_of(slot)
            except AgentError as error:
                # The old server is gone: this one shall run, if not where it should.
                step.detail = f"{error.what}; started outside of it"
                if began(prepared):
                    raise
    return run_shim(*given, _cgroup_of(prepared)), ""


def _cgroup_of(prepared: Prepared) -> str:
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


def _source_of_shim() -> str:
    """The text of the shim, wherever our modules came from; it is never imported here."""
    spec = importlib.util.find_spec(f"{__package__}.shim")
    loader: Any = spec.loader if spec else None
    source = loader.get_source(spec.name) if loader and spec else None
    if not source:
        raise AgentError("fault", "the source of the shim is not at hand")
    return str(source)


def _account() -> Dict[str, str]:
    """The minimal variables where the login does not hold them."""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return {"HOME": "/", "USER": str(os.getuid()), "LOGNAME": str(os.getuid()), **_SYSTEM}
    return {**_SYSTEM, "HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}


_SYSTEM = {"SHELL": "/bin/sh", "PATH": "/usr/local/bin:/usr/bin:/bin"}
