"""Whose command this is: the agent, all above it, and who asked, where that is a process of this host too."""

from __future__ import annotations

import os
from typing import FrozenSet, Iterable, List, Mapping, NamedTuple, Set, Tuple

from .descriptors import Connection, connections, listening
from .procs import Process, Snapshot
from .recognise import is_login

_TABLES = ("tcp", "tcp6")
_CONNECTION = "SSH_CONNECTION"


class _Ends(NamedTuple):
    """One TCP connection, by its two addresses and ports: the other side's first."""

    far: Tuple[str, int]
    near: Tuple[str, int]


def pids(snapshot: Snapshot, login_env: Mapping[str, str]) -> FrozenSet[int]:
    """What no operation ends: its own end would be ours, or that of the command that asked for it.

    A login over SSH to one's own machine has the controller at its other end, maybe through several logins.

    Args:
        login_env: Environment of the login, where ``SSH_CONNECTION`` may be.
    """
    found: Set[int] = set()
    _add(snapshot, os.getpid(), found)
    rows = [row for table in _TABLES for row in connections(table)]
    served = {port for table in _TABLES for _, port, _, _ in listening(table)}
    todo = _told(login_env) + _accepted(snapshot, found, rows, served)
    followed: Set[_Ends] = set()
    while todo:
        ends = todo.pop()
        if ends in followed:
            continue
        followed.add(ends)
        holders: Set[int] = set()
        for row in rows:
            if (row.local, row.remote) == (ends.far, ends.near):
                for pid in snapshot.held().sockets.get(row.inode, ()):
                    _add(snapshot, pid, holders)
        todo += _accepted(snapshot, holders - found, rows, served)
        found |= holders
    return frozenset(found)


def _add(snapshot: Snapshot, pid: int, found: Set[int]) -> None:
    found.update((pid, *(parent.pid for parent in snapshot.ancestors(pid))))


def _told(login_env: Mapping[str, str]) -> List[_Ends]:
    """The login's own connection, as its SSH server says."""
    words = login_env.get(_CONNECTION, "").split()
    if len(words) != 4 or not (words[1].isdigit() and words[3].isdigit()):
        return []
    far, near = (address.partition("%")[0] for address in (words[0], words[2]))
    return [_Ends((far, int(words[1])), (near, int(words[3])))]


def _accepted(
    snapshot: Snapshot, above: Iterable[int], rows: Iterable[Connection], served: Set[int]
) -> List[_Ends]:
    """The connections that the logins among these processes were made by; what they forward is no such."""
    logins: List[Process] = [snapshot.by_pid[pid] for pid in above if pid in snapshot.by_pid]
    inside = {process.pid for process in logins if is_login(process)}
    if not inside:
        return []
    held = snapshot.held().sockets
    return [
        _Ends(row.remote, row.local)
        for row in rows
        if row.local[1] in served and inside & held.get(row.inode, set())
    ]
