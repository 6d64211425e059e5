"""Signs that a server which is not ready yet is still at work: CPU time and bytes read."""

from __future__ import annotations

import os
from typing import Dict, Iterable, NamedTuple, Tuple

from .procs import Process, read_file

# An idle Python wakes up now and then, and answering our own questions costs a little too.
CPU_SHARE = 0.05
CACHED_BYTES = 1 << 20


class Spent(NamedTuple):
    """What a process has spent since its start; what may not be seen counts as 0.

    Args:
        ticks: CPU time in clock ticks.
        disk: Bytes that came from a disk.
        read: Bytes that read calls returned, from wherever.
    """

    ticks: int
    disk: int
    read: int


class Meter:
    """Compares what the processes of a launch have spent with what they had at the sample before."""

    def __init__(self) -> None:
        self._before: Dict[Tuple[int, int], Spent] = {}

    def worked(self, members: Iterable[Process], seconds: float) -> bool:
        """Whether they worked since the last call.

        Args:
            members: The processes of the launch, from a fresh snapshot.
            seconds: Since the last call.

        Returns:
            True for more than 5 % of a core, a byte read from a disk, or 1 MiB read from wherever (the page
            cache, a network file system); also when a process is new.
        """
        now = {process.key: spent(process) for process in members}
        before, self._before = self._before, now
        ticks = disk = read = 0
        for key, latest in now.items():
            if key not in before:
                return True
            ticks += max(0, latest.ticks - before[key].ticks)
            disk += max(0, latest.disk - before[key].disk)
            read += max(0, latest.read - before[key].read)
        busy = ticks > CPU_SHARE * seconds * os.sysconf("SC_CLK_TCK")
        return busy or disk > 0 or read >= CACHED_BYTES


def spent(process: Process) -> Spent:
    """What one process has spent."""
    fields: Dict[bytes, int] = {}
    for line in read_file(f"/proc/{process.pid}/io").splitlines():
        name, _, value = line.partition(b": ")
        fields[name] = int(value)
    return Spent(process.utime + process.stime, fields.get(b"read_bytes", 0), fields.get(b"rchar", 0))
