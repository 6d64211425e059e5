"""Who would bring a process back: a systemd unit, a container, a supervisor, a shell loop."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import AbstractSet, Optional, Sequence, Tuple

from . import cgroups
from .descriptors import read_file
from .families import is_orphan
from .procs import Process, Snapshot
from .recognise import invocation, is_never, is_shell

# What stops one program of a supervisor, and not the supervisor: it may keep the SSH server too. ``{pid}`` is
# the program's process, ``{cwd}`` the supervisor's folder, which is the service's.
_SUPERVISORS = {
    "supervisord": "supervisorctl stop NAME (supervisorctl status shows which one is process {pid})",
    "circusd": "circusctl stop NAME (circusctl stats shows which one is process {pid})",
    "monit": "monit stop NAME (monit status shows which one is process {pid})",
    "pm2": "pm2 stop NAME (pm2 list shows which one is process {pid})",
    "runsv": "sv down {cwd}",
    "s6-supervise": "s6-svc -d {cwd}",
    "supervise": "svc -d {cwd}",
    "forever": "kill {supervisor}",
    "honcho": "kill {supervisor}",
}
# Units in which what people start by hand ends up; none of them brings it back.
_HANDS = re.compile(
    r"(sshd?(@.*)?|user@\d+|cron|crond|atd|docker|containerd|slurmd|getty@.*|serial-getty@.*|init)\.service"
)
# A slot's own unit starts it at boot, and brings nothing back.
_OURS = re.compile(r"stoker-[A-Za-z0-9][A-Za-z0-9._-]*\.service")
_LOOPS = ("while", "until", "for", "select")
_CONTAINER = re.compile(r"(docker|libpod|crio|cri-containerd)[-/]([0-9a-f]{12,64})")
_SCRIPT_BYTES = 1 << 16


@dataclass(frozen=True)
class Keeper:
    """Who would start the process anew once it has ended.

    Args:
        kind: ``systemd``, ``container``, ``supervisor`` or ``loop``.
        name: The unit, the container, or the process with its pid.
        stop: The command that stops it.
    """

    kind: str
    name: str
    stop: str

    def __str__(self) -> str:
        return f"{self.name} would bring it back; stop that first: {self.stop}"


def find(snapshot: Snapshot, process: Process, mine: AbstractSet[int]) -> Optional[Keeper]:
    """Who would bring this process back; None where nobody is known.

    Args:
        mine: Pids of the agent and its ancestors: of what they keep, what we came in by is our own login.
    """
    return _container(process) or _unit(process) or _parent(snapshot, process, mine)


def _container(process: Process) -> Optional[Keeper]:
    there, here = _link(f"/proc/{process.pid}/ns/pid"), _link("/proc/self/ns/pid")
    # A sandbox has a pid namespace of its own too, but no restart policy brings it back.
    return container_of(_cgroup(process.pid)) if there and there != here else None


def container_of(cgroup: str) -> Optional[Keeper]:
    """The container that a path in the cgroup hierarchy names."""
    found = _CONTAINER.search(cgroup)
    if not found:
        return None
    tool = {"docker": "docker", "libpod": "podman"}.get(found.group(1), "crictl")
    name = found.group(2)[:12]
    return Keeper("container", f"container {name}", f"{tool} stop {name}")


def _unit(process: Process) -> Optional[Keeper]:
    path, ours = (cgroups.without_ours(_cgroup(pid)) for pid in (process.pid, os.getpid()))
    return None if path == ours else unit_of(path)


def unit_of(cgroup: str) -> Optional[Keeper]:
    """The systemd service that a path in the cgroup hierarchy names, unless people's shells live in it."""
    parts = reversed(cgroup.split("/"))
    unit = next((part for part in parts if part.endswith((".service", ".scope"))), "")
    if not unit.endswith(".service") or _HANDS.fullmatch(unit) or _OURS.fullmatch(unit):
        return None
    user = " --user" if "/user@" in cgroup else ""
    return Keeper("systemd", f"systemd unit {unit}", f"systemctl{user} stop {unit}")


def _parent(snapshot: Snapshot, process: Process, mine: AbstractSet[int]) -> Optional[Keeper]:
    """A supervisor or a loop above it; the first that we have in common is the last that can be one."""
    child = process
    for parent in snapshot.ancestors(process.pid):
        if is_orphan(snapshot, child):
            return None  # who has taken it in did not start it
        stop = next((_SUPERVISORS[n] for n in _called(parent) if n in _SUPERVISORS), "")
        if stop and _started(parent, child):
            how = stop.format(pid=child.pid, supervisor=parent.pid, cwd=_link(f"/proc/{parent.pid}/cwd"))
            return Keeper("supervisor", f"{parent.comm} (process {parent.pid})", how)
        if is_shell(parent) and _loops_over(_script(parent), child):
            return Keeper("loop", f"the shell loop of process {parent.pid}", f"kill {parent.pid}")
        if parent.pid in mine or (is_never(parent) and not is_shell(parent)):
            return None
        child = parent
    return None


def _called(process: Process) -> Tuple[str, str, str]:
    # (pm2 calls itself ``PM2 v5.3.0: God Daemon``.)
    return process.comm, invocation(process.argv).program, process.comm.split(" ")[0].lower()


def _started(supervisor: Process, child: Process) -> bool:
    """Whether a supervisor started its child, or has only taken it in, as PID 1 does.

    It gives each of its programs a group of its own, to be able to signal it.
    """
    return supervisor.pid != 1 or child.pgid == child.pid


def _loops_over(script: str, child: Process) -> bool:
    """Whether a loop of the script starts this child: by its name, or by a variable that hides it.

    A script that starts a server may well loop over something else first.
    """
    called = invocation(child.argv)
    names = {called.program, called.module, child.comm} - {""}
    text = re.sub(r"(^|\s)#[^\n]*", "\n", script)
    depth = 0
    for command in re.split(r"[;&|\n()]+|\b(?:do|then|else)\b", text):
        words = command.replace('"', "").replace("'", "").split()
        if words and words[0] in _LOOPS:
            depth += 1
        elif words and words[0] == "done":
            depth -= 1
        if depth > 0 and _starts(words, names):
            return True
    return False


def _starts(words: Sequence[str], names: AbstractSet[str]) -> bool:
    hidden = bool(words) and (words[0].startswith("$") or words[0] == "eval")
    return hidden or any(os.path.basename(word) in names for word in words)


def _script(shell: Process) -> str:
    """What a shell runs: the text after ``-c``, or its script; empty for an interactive one."""
    words = shell.argv[1:]
    while words and words[0].startswith(("-", "+")):
        option = words.pop(0)
        if not option.startswith("--") and "c" in option[1:]:
            return words[0] if words else ""
        if option.lstrip("-+") in ("o", "O", "rcfile", "init-file") and words:
            words.pop(0)
    if not words:
        return ""
    # By its own root and working folder: it may be in a chroot, and we are elsewhere.
    path = os.path.join(_link(f"/proc/{shell.pid}/cwd"), words[0])
    text = read_file(f"/proc/{shell.pid}/root{path}", _SCRIPT_BYTES) or read_file(path, _SCRIPT_BYTES)
    return text.decode("utf-8", "replace")


def _cgroup(pid: int) -> str:
    """The path in the unified hierarchy, or in systemd's own of version 1."""
    lines = read_file(f"/proc/{pid}/cgroup").decode("utf-8", "replace").splitlines()
    by_controller = {line.split(":", 2)[1]: line.split(":", 2)[2] for line in lines if line.count(":") >= 2}
    paths: Tuple[str, ...] = (by_controller.get("name=systemd", ""), by_controller.get("", ""))
    return max(paths, key=len)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
