"""Which process is the server of a launch, and who listens in its place."""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence

from . import procs, state
from .descriptors import addresses, overlap
from .procs import Listener, Process, Snapshot
from .state import Launch


def head(home: str, snapshot: Snapshot, launch: Launch, members: Sequence[Process]) -> Optional[Process]:
    """The process that is the server; None where it is down.

    Args:
        members: The processes of the launch.

    Returns:
        The launcher; where that has ended well and left a server behind, as daemons do, who listens on the
        launch's port. What a launcher leaves that was killed or failed is no server.
    """
    launcher = snapshot.by_pid.get(int(launch["pid"]))
    if launcher is not None and snapshot.alive(*launcher.key) and launcher.start == int(launch["start"]):
        return launcher
    if not members or state.exit_of(home, launch) != {"code": 0}:
        return None
    snapshot.presume(int(launch["port"]), members)
    rows = procs.listeners(int(launch["port"]), snapshot)
    listening = {row.pid for row in at(rows, launch["bind"], int(launch["port"]))}
    return next((member for member in members if member.pid in listening), None)


def at(rows: Iterable[Listener], bind: str, port: int) -> List[Listener]:
    """Who listens at a place: there itself, or where it would be met."""
    if not port:
        return []
    wanted = addresses(bind)
    return [row for row in rows if row.port == port and any(overlap(row.address, one) for one in wanted)]


def strangers(rows: Iterable[Listener], members: Iterable[Process], bind: str, port: int) -> List[Listener]:
    """Who else listens where a server should: an answer from there need not be the server's.

    A socket that a member holds too is the server's, whoever has inherited it.
    """
    here = at(rows, bind, port)
    ours = {member.pid for member in members}
    inodes = {row.inode for row in here if row.pid in ours}
    return [row for row in here if row.pid not in ours and row.inode not in inodes]
