"""Which processes belong together: an engine's launcher with all below it, or what a dead one left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from .procs import Process, Snapshot
from .recognise import Recogniser, is_helper

# Programs that take in the children of the dead, and start no server that they are the parent of: services of
# systemd are told by their unit, those of s6 and runit have a supervisor in between. (Anything may be PID 1
# in a container, also a living owner.)
_REAPERS = frozenset(("systemd", "init", "s6-svscan", "runsvdir", "runit", "pause", "conmon"))
# They start one program, and end when it does: the first of their children is their own.
_SMALL_INITS = frozenset(("tini", "tini-static", "dumb-init", "docker-init", "catatonit", "my_init"))


@dataclass(frozen=True)
class Family:
    """One server's processes, as they look from outside.

    Args:
        engine: Name of the engine.
        launcher: Its living launcher; None where only remains are left.
        members: All of them, parents before children.
    """

    engine: str
    launcher: Optional[Process]
    members: Tuple[Process, ...]


def find(snapshot: Snapshot, recogniser: Recogniser) -> List[Family]:
    """Every family of engine processes on the machine, whoever owns it."""
    groups: Dict[Tuple[str, int], Dict[int, Process]] = {}
    for process in snapshot.living():
        if recogniser.engine(process):
            root = _root(snapshot, recogniser, process)
            group = groups.setdefault(_key(snapshot, recogniser, root), {})
            for member in (root, *snapshot.descendants(root.pid)):
                group.setdefault(member.pid, member)
    for process in snapshot.living():
        if is_helper(process) and is_orphan(snapshot, process):
            group = groups.get(_key(snapshot, recogniser, process), {})
            if group and all(process.uid == member.uid for member in group.values()):
                group.setdefault(process.pid, process)
    return [_family(recogniser, list(group.values())) for group in groups.values()]


def is_orphan(snapshot: Snapshot, process: Process) -> bool:
    """Whether the process that started it is gone.

    A child shares its parent's session unless it leads its own, or its parent has left that session since. Of
    a leader, only a known reaper as its parent tells; in doubt somebody owns it.
    """
    if process.ppid == 0:
        return False  # started from outside of this container
    parent = snapshot.by_pid.get(process.ppid)
    if parent is None or parent.gone or not snapshot.is_ours(parent):
        return True
    if process.sid == parent.sid:
        return False
    if process.sid != process.pid:
        return not _was_in(snapshot, parent, process.sid)
    if parent.comm in _SMALL_INITS:
        return process is not min(snapshot.children(parent.pid), key=_by_age, default=process)
    return parent.comm in _REAPERS


def _was_in(snapshot: Snapshot, process: Process, sid: int) -> bool:
    """Whether a process may once have been in a session that it is not in now.

    It is born into a session, and leaves it only to lead one of its own: so it was in none that is younger
    than itself. The number of a session is its first leader's.
    """
    if process.sid != process.pid or process.comm in _REAPERS:
        return False
    leader = snapshot.by_pid.get(sid)
    return sid < process.pid if leader is None else _by_age(leader) < _by_age(process)


def _by_age(process: Process) -> Tuple[int, int]:
    return process.start, process.pid


def _root(snapshot: Snapshot, recogniser: Recogniser, process: Process) -> Process:
    """The topmost engine process above it."""
    for parent in snapshot.ancestors(process.pid):
        if parent.gone or parent.uid != process.uid:
            break
        if not recogniser.engine(parent) and not is_helper(parent):
            break
        process = parent
    return process


def _key(snapshot: Snapshot, recogniser: Recogniser, root: Process) -> Tuple[str, int]:
    """The same for roots that one launcher started.

    Two servers started from one shell share its session, never a process group that one of them leads: so the
    group of a dead leader tells, and the session only where its leader is a launcher.
    """
    if recogniser.launcher(root) or not is_orphan(snapshot, root):
        return "pid", root.pid
    for number in (root.pgid, root.sid):
        leader = snapshot.by_pid.get(number)
        if leader is not None and not leader.gone and recogniser.launcher(leader):
            return "pid", leader.pid
    group = snapshot.by_pid.get(root.pgid)
    leads_nobody = root.pgid > 0 and (group is None or group.gone)
    return ("pgid", root.pgid) if leads_nobody else ("pid", root.pid)


def _family(recogniser: Recogniser, members: List[Process]) -> Family:
    launcher = next((member for member in members if recogniser.launcher(member)), None)
    engine = next(filter(None, (recogniser.engine(member) for member in members)))
    return Family(engine, launcher, tuple(members))
