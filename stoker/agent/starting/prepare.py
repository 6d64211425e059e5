"""What is laid on the host before a server is started: its launch's folder, script, secrets, record, shim."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .. import secretsfile
from ..context import AgentError, Context
from ..launches import state
from ..launches.state import MARKER, Launch

GPUS = "STOKER_GPUS"
_MINIMAL = ("HOME", "USER", "LOGNAME", "SHELL", "PATH")
_NEXT = ".next"
_SYSTEM = {"SHELL": "/bin/sh", "PATH": "/usr/local/bin:/usr/bin:/bin"}


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
    write_record(folder, prepared.record)


def discard(prepared: Prepared) -> None:
    """Take back what ``prepare`` wrote: the launch will not be."""
    for name in ("launch.sh", secretsfile.NAME):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(prepared.slot_dir, name + _NEXT))
    shutil.rmtree(prepared.folder, ignore_errors=True)


def began(prepared: Prepared) -> bool:
    """Whether its server was started, whatever became of it."""
    return os.path.exists(os.path.join(prepared.folder, "launcher"))


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


def write_record(folder: str, record: Launch) -> None:
    """Keep the record in the launch's folder.

    Raises:
        AgentError: ``io``.
    """
    state.write_json(os.path.join(folder, "launch.json"), record)


def into_place(prepared: Prepared) -> None:
    """Make its script and secrets the slot's.

    Raises:
        AgentError: ``io``.
    """
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
