"""Which process is the server of a launch, and who listens in its place."""

from __future__ import annotations

import re
import time
from typing import Any, Iterable, List, Mapping, Optional, Sequence

from ..facts import Facts
from ..processes import procs
from ..processes.descriptors import addresses, overlap
from ..processes.procs import Listener, Process, Snapshot
from ..processes.recognise import is_helper
from . import state
from .state import Launch

# How long a daemon may take until it listens, where the launch's profile does not say.
_COMING_S = 3600.0
_BETWEEN_S = 1.0


def alive(home: str, facts: Facts, launch: Launch, engine: Mapping[str, Any]) -> Optional[Process]:
    """The process that is the server of a launch now, as ``head`` says; at most one look at all processes.

    Args:
        engine: ``Engine.to_wire()``; empty where nobody knows it.
    """
    if not state.is_this_boot(launch, facts):
        return None
    launcher = procs.look(int(launch["pid"])) if int(launch["pid"]) > 0 else None
    if launcher is not None and launcher.start == int(launch["start"]) and not launcher.gone:
        return launcher
    if state.exit_of(home, launch) != {"code": 0}:
        return None
    end = time.monotonic() + _BETWEEN_S
    while True:
        seen = procs.snapshot(facts)
        members, _ = state.members(seen, launch)
        has_supervisor = procs.alive(int(launch.get("shim_pid") or 0), int(launch.get("shim_start") or 0))
        # A look takes a moment, in which one process can have gone and its child not yet been there.
        if members or not has_supervisor or time.monotonic() > end:
            return head(home, seen, launch, members, engine)
        time.sleep(0.005)


def head(
    home: str, snapshot: Snapshot, launch: Launch, members: Sequence[Process], engine: Mapping[str, Any]
) -> Optional[Process]:
    """The process that is the server; None where it is down.

    Args:
        members: The processes of the launch.
        engine: ``Engine.to_wire()``; empty where nobody knows it.

    Returns:
        The launcher; where that has ended well and left a server behind, as daemons do, who listens on the
        launch's port, or may still be on its way there. What a launcher leaves that was killed or failed is
        no server.
    """
    launcher = snapshot.by_pid.get(int(launch["pid"]))
    if launcher is not None and snapshot.alive(*launcher.key) and launcher.start == int(launch["start"]):
        return launcher
    if not members or state.exit_of(home, launch) != {"code": 0}:
        return None
    snapshot.presume(int(launch["port"]), members)
    rows = procs.listeners(int(launch["port"]), snapshot)
    listening = {row.pid for row in at(rows, launch["bind"], int(launch["port"]))}
    served = next((member for member in members if member.pid in listening), None)
    return served or _coming(launch, members, engine)


def _coming(launch: Launch, members: Sequence[Process], engine: Mapping[str, Any]) -> Optional[Process]:
    """A daemon that does not listen yet: what is left of a start that is not over, but no engine's worker.

    (A server that was ready once and listens no more has ended, and what it left are its remains.)
    """
    ready = (launch.get("resolved") or {}).get("ready") or {}
    patience_s = float(ready.get("timeout_s") or _COMING_S)
    titles = [re.compile(title) for title in engine.get("titles") or ()]
    left = [
        member
        for member in members
        if not is_helper(member) and not any(title.fullmatch(member.title) for title in titles)
    ]
    is_starting = launch.get("ready_s") is None and bool(left) and max(m.age_s for m in left) < patience_s
    return left[0] if is_starting else None


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
