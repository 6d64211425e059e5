"""Who listens where a server should: readiness counts only from our own listener."""

from __future__ import annotations

import time
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Tuple

from ..asking.gate import NotYetError
from ..context import AgentError
from ..killing import describe
from ..killing.scope import Finding
from ..processes import procs
from ..processes.descriptors import addresses, listening, overlap
from ..processes.procs import Listener, Process, Snapshot

_STRANGER_S = 0.3  # a worker that was forked after the snapshot looks like a stranger
_ELSEWHERE_S = 2.0


class Place:
    """The address and port of one launch.

    Args:
        plan: ``LaunchPlan.to_wire()``.
    """

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._bind = plan["bind"]
        self._port = int(plan["port"])
        self._addresses = addresses(self._bind)
        self._known: FrozenSet[Tuple[str, int]] = frozenset()
        self._stranger_since: Optional[float] = None
        self._elsewhere_since: Optional[float] = None

    @property
    def name(self) -> str:
        """As people write it."""
        return f"[{self._bind}]:{self._port}" if ":" in self._bind else f"{self._bind}:{self._port}"

    def sockets(self) -> FrozenSet[Tuple[str, int]]:
        """Address and inode of the sockets that listen there now; cheap."""
        rows = [row for table in ("tcp", "tcp6") for row in listening(table)]
        return frozenset((a, inode) for a, port, inode, _ in rows if self._is_here(a, port))

    def must_be_taken(self) -> None:
        """Somebody listens there, whoever it is; cheap, as long as nobody does.

        Raises:
            NotYetError: Nobody.
        """
        if not self.sockets():
            self._known = frozenset()
            raise NotYetError(f"nobody listens on {self.name}")

    def unchanged(self) -> bool:
        """Whether the sockets are those that ``check`` approved of."""
        return bool(self._known) and self.sockets() == self._known

    def check(self, seen: Snapshot, members: Iterable[Process]) -> List[Process]:
        """Every listener must be ours.

        Args:
            seen: A fresh snapshot.
            members: The processes of the launch in it.

        Returns:
            The processes that listen, each once.

        Raises:
            NotYetError: Nobody listens, or somebody who may turn out to be ours.
            AgentError: ``wrong-listener``: a stranger listens.
        """
        self._known = frozenset()
        sockets = self.sockets()
        ours = {process.pid: process for process in members}
        seen.presume(self._port, ours.values())
        rows = self.holders(seen)
        if not rows:
            raise NotYetError(f"nobody listens on {self.name}")
        strangers = [row for row in rows if row.pid not in ours]
        if strangers:
            self._tell_stranger(seen, strangers)
        self._stranger_since = None
        self._known = sockets
        return [ours[pid] for pid in sorted({row.pid for row in rows if row.pid is not None})]

    def holders(self, seen: Snapshot) -> List[Listener]:
        """Everybody who listens there."""
        return [row for row in procs.listeners(self._port, seen) if self._is_here(row.address, row.port)]

    def elsewhere(self, seen: Snapshot, members: Iterable[Process], urls: Iterable[int]) -> List[str]:
        """Where else our processes listen.

        Args:
            urls: Ports that the server's log names: they come first.
        """
        ours = {process.pid for process in members}
        rows = [row for row in procs.listeners(None, seen) if row.pid in ours]
        named = set(urls)
        rows.sort(key=lambda row: (row.port not in named, row.port))
        return list(dict.fromkeys(f"{row.address}:{row.port}" for row in rows))

    def check_elsewhere(
        self, seen: Snapshot, members: List[Process], urls: Iterable[int]
    ) -> Optional[AgentError]:
        """The server says that it serves, and nobody listens here.

        Returns:
            An error once that has lasted, and the server listens somewhere else; None before.
        """
        now = time.monotonic()
        self._elsewhere_since = self._elsewhere_since or now
        places = self.elsewhere(seen, members, urls) if now - self._elsewhere_since > _ELSEWHERE_S else []
        if not places:
            return None
        return AgentError(
            "wrong-listener",
            f"the server says that it is ready, but listens on {', '.join(places[:5])}, not on {self.name}",
            next_step="correct the profile's port and bind, or the arguments that override them",
            detail={"listens": places, "wanted": self.name},
        )

    def _tell_stranger(self, seen: Snapshot, rows: List[Listener]) -> None:
        now = time.monotonic()
        self._stranger_since = self._stranger_since or now
        if now - self._stranger_since < _STRANGER_S:
            raise NotYetError(f"another process listens on {self.name}")
        raise AgentError(
            "wrong-listener",
            f"another process listens on {self.name}",
            evidence=[told(seen, row) for row in rows],
            next_step="end it, or choose another port in the profile",
            detail={"listeners": [noun(seen, row) for row in rows]},
        )

    def _is_here(self, address: str, port: int) -> bool:
        return port == self._port and any(overlap(address, own) for own in self._addresses)


def noun(seen: Snapshot, row: Listener) -> Dict[str, Any]:
    """A listener as the contract's *process*."""
    process = seen.by_pid.get(row.pid) if row.pid is not None else None
    reason = f"listens on {row.address}:{row.port}" + ("" if process else f", owned by user {row.uid}")
    return describe.process(Finding(process, reason, ports=(row.port,)))


def told(seen: Snapshot, row: Listener) -> str:
    """A listener as one line for people."""
    one = noun(seen, row)
    if not one["pid"]:
        return f"{row.address}:{row.port} is held by a process of user {row.uid} that we cannot see"
    return f"{row.address}:{row.port} is held by process {one['pid']} of {one['user']}: {one['title']}"
