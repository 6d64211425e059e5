"""What has to go in one clean kill, also what is born while it dies."""

from __future__ import annotations

import os
import time
from typing import Callable, Dict, FrozenSet, Iterable, List, Sequence, Tuple

from ..launches import state
from ..launches.state import Launch
from ..processes import cgroups
from ..processes.procs import Process, Snapshot
from ..processes.recognise import is_never


class Quarry:
    """Everything that has to go.

    Args:
        snapshot: Of the moment of the decision.
        doomed: What was decided to be ended.
        launches: Of ours, whose every process has to go.
        spare: Never to be signalled, whatever it descends from.

    Attributes:
        groups: Process groups that consist of nothing else; who is born into them has to go too.
        known: Every process that ever had to go, by (pid, start).
    """

    def __init__(
        self,
        snapshot: Snapshot,
        doomed: Sequence[Process],
        launches: Sequence[Launch],
        spare: Callable[[Process], bool],
    ) -> None:
        self.known: Dict[Tuple[int, int], Process] = {process.key: process for process in doomed}
        self._launches = launches
        self._spare = spare
        self._since = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1
        self.groups = self._only_of(snapshot, lambda process: process.pgid)
        self._sessions = self._only_of(snapshot, lambda process: process.sid)

    def walk(self, snapshot: Snapshot) -> List[Process]:
        """What of it lives now, parents before children."""
        found: Dict[int, Process] = {}
        for launch in self._launches:
            for process in state.members(snapshot, launch)[0]:
                if not self._spare(process):
                    found[process.pid] = process
        for process in self._relatives(snapshot):
            spared = self._spare(process) or (process.key not in self.known and is_never(process))
            if process.pid not in found and not spared:
                found[process.pid] = process
        for process in found.values():
            if process.key not in self.known:
                process.remember()
                self.known[process.key] = process
        return list(found.values())

    def cgroups(self, left: Sequence[Process]) -> List[str]:
        """The cgroups of which every member has to go: they can be ended at once."""
        doomed = {process.pid for process in left}
        paths = [str(launch.get("cgroup") or "") for launch in self._launches]
        inside = [(path, cgroups.members(path)) for path in paths]
        return [path for path, pids in inside if pids and pids <= doomed]

    def _relatives(self, snapshot: Snapshot) -> Iterable[Process]:
        for process in snapshot.living():
            if process.key in self.known:
                yield process
                yield from snapshot.descendants(process.pid)
            elif process.start >= self._since and (
                process.pgid in self.groups or process.sid in self._sessions
            ):
                yield process

    def _only_of(self, snapshot: Snapshot, number: Callable[[Process], int]) -> FrozenSet[int]:
        """Groups (or sessions) all of whose living members have to go."""
        doomed = {number(process) for process in snapshot.living() if process.key in self.known}
        others = {number(process) for process in snapshot.living() if process.key not in self.known}
        return frozenset(doomed - others - {0})  # 0 stands for every one outside of this container


def shims(snapshot: Snapshot, launches: Iterable[Launch]) -> List[Process]:
    """The living supervisors of these launches."""
    keys = {(int(one.get("shim_pid") or 0), int(one.get("shim_start") or 0)) for one in launches}
    return [process for process in snapshot.living() if process.key in keys]
