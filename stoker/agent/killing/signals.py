"""Ending processes: the launcher alone first, then what is left; always by pid *and* start time."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import AbstractSet, Dict, Iterable, List, Optional, Sequence, Tuple

from ..facts import Facts
from ..processes import cgroups, procs
from ..processes.procs import Process
from .quarry import Quarry

KILL = signal.SIGKILL
# Once the launchers have ended, what they left behind gets this long to follow.
FOLLOW_S = 2.0
# From SIGTERM to those until SIGKILL.
TERM_S = 5.0
# As a rule; what lives this long after SIGKILL cannot be killed.
UNKILLABLE_S = 5.0
_TICK_S = 0.005
_WALK_S = 0.1


def send(process: Process, number: int) -> bool:
    """Signal exactly this process, never another one that has its pid by now.

    Returns:
        False where it is gone, or may not be signalled.
    """
    fd = _pidfd(process.pid)
    try:
        if not procs.alive(*process.key):
            return False
        if fd is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(fd, number)
        return True
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if fd is not None:
            os.close(fd)


def _pidfd(pid: int) -> Optional[int]:
    """A descriptor that means this process for good; None where kernel or Python have none, or it is gone."""
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        return None
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None


def terminate(processes: Iterable[Process]) -> None:
    """SIGTERM, and SIGCONT to those that are stopped: the signal waits until they run."""
    for process in processes:
        now = procs.look(process.pid)
        stopped = now is not None and now.state in "Tt"
        if send(process, signal.SIGTERM) and stopped:
            send(process, signal.SIGCONT)


class Ending:
    """One clean kill.

    Args:
        facts: Of this host.
        quarry: What has to go; asked again and again, for processes fork while they die.
        unkillable_s: What lives so long after SIGKILL cannot be killed.
    """

    def __init__(self, facts: Facts, quarry: Quarry, unkillable_s: float = UNKILLABLE_S) -> None:
        self._facts = facts
        self._quarry = quarry
        self._unkillable_s = unkillable_s

    def left(self) -> List[Process]:
        """What has to go and is still there."""
        return self._quarry.walk(procs.snapshot(self._facts))

    def politely(
        self, first: Sequence[Process], grace_s: float, apart: Sequence[Process] = ()
    ) -> List[Process]:
        """SIGTERM to the launchers alone, and patience.

        Args:
            apart: Gets it with them, and is not waited for: nothing of it belongs to a launcher.

        Returns:
            What is left: after the grace, or once the launchers are gone and nothing follows them.
        """
        terminate([*first, *apart])
        alone = {process.key for process in apart}
        end = time.monotonic() + grace_s
        followed_by: Optional[float] = None
        while True:
            left = self._wait(min(end, followed_by or end), first if followed_by is None else (), alone)
            if not [process for process in left if process.key not in alone] or time.monotonic() >= min(
                end, followed_by or end
            ):
                return left
            followed_by = time.monotonic() + FOLLOW_S

    def firmly(self, left: Sequence[Process], grace_s: float) -> List[Process]:
        """SIGTERM to all that is left; returns what then still is."""
        terminate(left)
        return self._wait(time.monotonic() + grace_s, ())

    def finally_(self) -> List[Process]:
        """SIGKILL, walking again until nothing new appears; returns what cannot be killed."""
        since: Dict[Tuple[int, int], float] = {}
        empty = rounds = 0
        while empty < 2:  # a walk may miss what is born during it
            left = self.left()
            now = time.monotonic()
            for path in self._quarry.cgroups(left):
                cgroups.kill(path)
            for process in left:
                since.setdefault(process.key, now)
                send(process, signal.SIGKILL)
            empty = 0 if left else empty + 1
            rounds += 1
            if left and all(now - since[process.key] > self._unkillable_s for process in left):
                return left
            if left and rounds > 5:
                _kill_groups({p.pgid for p in left} & self._quarry.groups)
            if left and now - min(since.values()) > 4 * self._unkillable_s:
                return left  # it forks faster than it can be killed
            time.sleep(_TICK_S if left else 0)
        return []

    def _wait(
        self, end: float, until_gone: Sequence[Process], alone: AbstractSet[Tuple[int, int]] = frozenset()
    ) -> List[Process]:
        """Wait until nothing is left but ``alone``, all of ``until_gone`` are gone, or the time is over."""
        next_walk = 0.0
        left: List[Process] = []
        while True:
            now = time.monotonic()
            if now >= next_walk or not any(procs.alive(*process.key) for process in left):
                left = self.left()
                next_walk = now + _WALK_S
            gone = bool(until_gone) and not any(procs.alive(*process.key) for process in until_gone)
            if gone or now >= end or all(process.key in alone for process in left):
                return left
            time.sleep(_TICK_S)


def _kill_groups(groups: Iterable[int]) -> None:
    """SIGKILL to whole process groups at once: nobody in them can fork away from that."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
