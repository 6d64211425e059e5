"""Bring a lab up and down, look at it, reboot a host of it."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import stoker
from stoker.errors import InputError, StokerError, nearest
from stoker.lab import host as machine
from stoker.lab import network, procfs
from stoker.lab.state import FIRST_HOST, Folders, LabHost, LabState, folders, load, login_name, save

_GUARDIAN = "stoker.lab.guardian"
_NEEDED = ("asyncssh", "setproctitle")
_START_S = 30.0
_END_S = 20.0


def up(root: Path, hosts: int = 1, *, gpus: int = 8, load_s: float = 2.0, plain: bool = False) -> LabState:
    """Bring a lab up; one that is up with as many hosts stays as it is.

    Args:
        root: The lab's folder (``.lab`` of a project); made when missing.
        hosts: How many hosts: node174, node175, …
        gpus: GPUs that each host pretends to have.
        load_s: Seconds that a stand-in engine takes to load, by default (``STANDIN_LOAD_S`` overrides it).
        plain: The one host pretends nothing: it is this machine with its own GPUs and engines, behind SSH.

    Returns:
        The lab, listening.

    Raises:
        InputError: Not Linux, a package is missing, a number is out of range, or it is up with other hosts.
        StokerError: It did not start; with the end of its log.
    """
    _check(hosts, gpus)
    if plain and hosts != 1:
        raise InputError("a plain lab has one host: it is this machine")
    places = folders(root)
    with _locked(places):
        now = _look(places)
        if now.running:
            return _as_asked(places, now, hosts, plain=plain)
        _sweep(places)
        planned = _plan(places, hosts)
        for host in planned.hosts:
            if plain:
                machine.make_plain(places, host.name)
            else:
                machine.make(places, host.name, gpus=gpus, load_s=load_s)
        save(places, planned)
        state = _start(places, planned)
        from stoker.lab import inventory  # with YAML, which the others do not need

        inventory.publish(places, state)
        return _look(places)


def _as_asked(places: Folders, now: LabState, hosts: int, *, plain: bool) -> LabState:
    """The lab that is up.

    Raises:
        InputError: It is up with other hosts than are asked for.
    """
    if machine.is_plain(places, now.hosts[0].name) != plain:
        what = "the lab is up with hosts of the other kind"
    elif len(now.hosts) != hosts:
        what = f"the lab is up with {len(now.hosts)} hosts, not {hosts}"
    else:
        return now
    raise InputError(what, where=str(places.root), next_step="Take it down first: inv lab.down")


def down(root: Path) -> int:
    """Take a lab down: nothing that it ever started is left running. Its files stay.

    Args:
        root: The lab's folder; nothing happens where there is no lab.

    Returns:
        How many processes were ended.

    Raises:
        StokerError: Something survived SIGKILL; it is named.
    """
    places = folders(root)
    if not places.root.is_dir():
        return 0
    with _locked(places):
        state = load(places)
        keepers = {state.guardian[0], state.server[0]}
        before = sum(process.pid not in keepers for process in _members(places))
        if procfs.alive(*state.guardian):
            os.kill(state.guardian[0], signal.SIGTERM)
            procfs.wait_gone(*state.guardian, within_s=_END_S)
        _sweep(places)
        save(places, replace(state, running=False, guardian=(0, 0), server=(0, 0), started_at=0.0))
        return before


def status(root: Path) -> LabState:
    """The lab as it is now.

    Args:
        root: The lab's folder; where there is none, a lab that is down and has no hosts.
    """
    return _look(folders(root))


def reboot(root: Path, host: str) -> LabHost:
    """Pretend that a host restarted: another boot id, its processes and connections gone.

    Args:
        root: The lab's folder.
        host: The host's name.

    Raises:
        InputError: The lab is down or has no such host.
        StokerError: A process of the host survived SIGKILL.
    """
    places = folders(root)
    with _locked(places):
        state = _look(places)
        if not state.running:
            raise InputError("the lab is down", where=str(places.root), next_step="Start it: inv lab.up")
        known = {each.name: each for each in state.hosts}
        if host not in known:
            raise InputError(f"no host {host!r} in the lab", next_step=nearest(host, known))
        if machine.is_plain(places, host):
            raise InputError(f"{host} is this machine itself: it cannot pretend to restart")
        machine.boot(places, host)
        os.kill(state.server[0], signal.SIGUSR1)  # it drops the host's connections
        _, left = procfs.end(lambda: _by_host(places, [host])[host], _END_S)
        _refuse_survivors(left)
        return replace(known[host], boot_id=machine.boot_id(places, host), processes=0)


def _check(hosts: int, gpus: int) -> None:
    if not sys.platform.startswith("linux"):
        raise InputError("the lab needs Linux: it keeps its processes as a child subreaper and reads /proc")
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"the lab needs {' and '.join(missing)}", next_step="Install it: pip install 'stoker[lab]'"
        )
    for name, value, most in (("hosts", hosts, 250), ("gpus", gpus, 16)):
        if not 1 <= value <= most:
            raise InputError(f"{name} must be from 1 to {most}, not {value}")


@contextlib.contextmanager
def _locked(places: Folders) -> Iterator[None]:
    """One command at a time on a lab."""
    places.root.mkdir(parents=True, exist_ok=True)
    with open(places.lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _look(places: Folders) -> LabState:
    state = load(places)
    is_up = procfs.alive(*state.guardian) and procfs.alive(*state.server)
    if not is_up:
        state = replace(state, guardian=(0, 0), server=(0, 0), started_at=0.0)
    running = _by_host(places, [host.name for host in state.hosts])
    hosts = tuple(
        replace(host, boot_id=machine.boot_id(places, host.name), processes=len(running[host.name]))
        for host in state.hosts
    )
    return replace(state, running=is_up, hosts=hosts)


def _members(places: Folders) -> list[procfs.Process]:
    return procfs.members({"": list(places.own)})[""]


def _by_host(places: Folders, names: Sequence[str]) -> dict[str, list[procfs.Process]]:
    return procfs.members({name: [places.home(name), places.machine(name)] for name in names})


def _plan(places: Folders, count: int) -> LabState:
    """The lab as it is going to be, on free addresses."""
    names = [f"node{FIRST_HOST + number}" for number in range(count)]
    return LabState(
        root=str(places.root),
        user=login_name(),
        hosts=network.choose(places, names, load(places).hosts),
        key_file=str(places.key),
        known_hosts=str(places.known_hosts),
        inventory=str(places.inventory),
        log=str(places.log),
    )


def _start(places: Folders, planned: LabState) -> LabState:
    """Start the guardian, detached, and wait until its server listens."""
    reading, writing = os.pipe()
    port = planned.hosts[0].port
    try:
        with open(places.log, "ab") as log:
            subprocess.run(  # it forks itself away at once
                [
                    sys.executable,
                    "-P",
                    "-m",
                    _GUARDIAN,
                    str(places.root),
                    str(port),
                    str(writing),
                ],
                cwd=places.root,
                env=_guardian_environment(places),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writing],
                start_new_session=True,
                check=False,
            )
        os.close(writing)
        guardian, server = _await_ready(places, reading)
    except BaseException:
        _sweep(places)
        raise
    finally:
        os.close(reading)
    state = replace(planned, running=True, guardian=guardian, server=server, started_at=time.time())
    save(places, state)
    return state


def _guardian_environment(places: Folders) -> dict[str, str]:
    source = str(Path(stoker.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH", ""))))
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return {**kept, "PYTHONPATH": path, "STOKER_LAB_STATE": str(places.state)}


def _await_ready(places: Folders, reading: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """pid and start of the guardian and of the server, once it listens."""
    answer = b""
    deadline = time.monotonic() + _START_S
    while not answer.endswith(b"\n"):
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(reading, 4096) if ready else b""
        if not part:
            break
        answer += part
    reply: dict[str, Any] = json.loads(answer) if answer.endswith(b"\n") else {}
    if "server" in reply:
        return _named(reply["guardian"]), _named(reply["server"])
    raise StokerError(
        f"the lab did not start: {reply.get('error', 'its server ended or said nothing')}",
        where=str(places.root),
        evidence=places.log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:],
        next_step=f"Read {places.log}",
    )


def _named(pid: int) -> tuple[int, int]:
    process = procfs.look(pid)
    return (pid, process.start) if process is not None else (0, 0)


def _sweep(places: Folders) -> None:
    """End what an earlier guardian left when it was killed itself."""
    _, left = procfs.end(lambda: _members(places), _END_S)
    _refuse_survivors(left)


def _refuse_survivors(left: list[procfs.Process]) -> None:
    if left:
        raise StokerError(
            "processes of the lab survive SIGKILL: " + ", ".join(str(process.pid) for process in left),
            next_step="Look at them with ps -o pid,stat,wchan:30,cmd -p PID",
        )
