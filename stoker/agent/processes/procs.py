"""Processes, listeners and GPU holders as /proc tells them; no tool is called, for a host may have none."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..facts import Facts
from . import descriptors
from .descriptors import Descriptors, overlap, read_file

if TYPE_CHECKING:
    from .liveenv import Reader

__all__ = [
    "Listener",
    "Process",
    "Snapshot",
    "alive",
    "environ_of",
    "holders",
    "listeners",
    "look",
    "overlap",
    "read_file",
    "snapshot",
]

KERNEL_THREAD = 0x00200000  # PF_KTHREAD in field 9 of /proc/PID/stat


class Process:
    """One process at the moment of a snapshot; pid *and* start name it.

    What is dear to read (arguments, user, executable) is read when first asked for, and only if the pid still
    names the same process.

    Attributes:
        start: Field 22 of ``/proc/PID/stat``: clock ticks since boot.
        state: One letter; ``Z`` is dead unless other threads live.
        comm: The name, cut to 15 characters by the kernel.
        utime, stime: CPU time spent, in clock ticks.
    """

    __slots__ = (
        "_argv",
        "_exe",
        "_uid",
        "comm",
        "kernel",
        "pgid",
        "pid",
        "ppid",
        "sid",
        "start",
        "state",
        "stime",
        "threads",
        "utime",
    )

    def __init__(self, pid: int, stat: bytes) -> None:
        name_end = stat.rindex(b")")
        rest = stat[name_end + 2 :].split()
        self.pid = pid
        self.comm = stat[stat.index(b"(") + 1 : name_end].decode("utf-8", "replace")
        self.state = rest[0].decode("ascii")
        self.ppid, self.pgid, self.sid = int(rest[1]), int(rest[2]), int(rest[3])
        self.kernel = bool(int(rest[6]) & KERNEL_THREAD)
        self.utime, self.stime = int(rest[11]), int(rest[12])
        self.threads, self.start = int(rest[17]), int(rest[19])
        self._argv: Optional[List[str]] = None
        self._uid: Optional[int] = None
        self._exe: Optional[str] = None

    def __repr__(self) -> str:
        return f"Process({self.pid}, start={self.start}, {self.title!r})"

    @property
    def key(self) -> Tuple[int, int]:
        """(pid, start): what names this process."""
        return self.pid, self.start

    @property
    def gone(self) -> bool:
        """True for a zombie: it holds nothing any more (unless threads outlive its main thread)."""
        return self.state in "Xx" or (self.state == "Z" and self.threads <= 1)

    @property
    def argv(self) -> List[str]:
        """The command line as it reads now; empty for kernel threads and the dead."""
        if self._argv is None:
            raw = b"" if self.kernel else self._read("cmdline")
            # A title written over the arguments is padded with NUL bytes up to their old length.
            text = raw.rstrip(b"\0").decode("utf-8", "replace")
            self._argv = text.split("\0") if text else []
        return self._argv

    @property
    def title(self) -> str:
        """The command line as one text, or the name a process gave itself; ``[comm]`` where there is none."""
        return " ".join(self.argv) or f"[{self.comm}]"

    @property
    def uid(self) -> int:
        """Real user id; -1 where it is gone. (The owner of /proc/PID is root for undumpable ones.)"""
        if self._uid is None:
            found = re.search(rb"^Uid:\s+(\d+)", self._read("status"), re.MULTILINE)
            self._uid = int(found.group(1)) if found else -1
        return self._uid

    @property
    def exe(self) -> str:
        """Path of the executable; empty where it cannot be read."""
        if self._exe is None:
            try:
                self._exe = os.readlink(f"/proc/{self.pid}/exe")
            except OSError:
                self._exe = ""
        return self._exe

    def remember(self) -> None:
        """Read now what could not be read any more once it has ended."""
        _ = (self.argv, self.uid, self.exe)

    @property
    def age_s(self) -> float:
        """Seconds since it started."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        return max(0.0, now - self.start / os.sysconf("SC_CLK_TCK"))

    def _read(self, name: str) -> bytes:
        raw = read_file(f"/proc/{self.pid}/{name}")
        return raw if alive(self.pid, self.start) else b""


class Listener(NamedTuple):
    """A listening TCP socket; one entry for each process that holds it.

    ``pid`` is None where no process that we may look into holds it; ``uid`` owns the socket either way.
    """

    address: str
    port: int
    inode: int
    pid: Optional[int]
    uid: int


class Snapshot:
    """Every process of the machine at one moment.

    Attributes:
        by_pid: All of them, also those of other users; ask ``is_ours`` whether one belongs to this host.
    """

    def __init__(self, facts: Facts, by_pid: Dict[int, Process]) -> None:
        self.facts = facts
        self.by_pid = by_pid
        self._children: Optional[Dict[int, List[int]]] = None
        self._descriptors: Optional[Descriptors] = None
        self._ours: Dict[int, bool] = {}
        self._presumed: Dict[int, List[Process]] = {}
        self._environs: Dict[int, Optional[Dict[str, str]]] = {}
        self._reader: Optional[Reader] = None

    def living(self) -> List[Process]:
        """Every process that holds something: neither kernel threads nor zombies."""
        return [p for p in self.by_pid.values() if not p.kernel and not p.gone]

    def environ(self, pid: int) -> Optional[Dict[str, str]]:
        """As ``environ_of``, read once."""
        if pid not in self._environs:
            if self._reader is None:
                from . import liveenv  # dear, and rarely needed

                self._reader = liveenv.Reader()
            self._environs[pid] = self._reader.given(pid)
        return self._environs[pid]

    def children(self, pid: int) -> List[Process]:
        """Direct children, zombies left out."""
        if self._children is None:
            self._children = {}
            for process in self.by_pid.values():
                self._children.setdefault(process.ppid, []).append(process.pid)
        return [self.by_pid[child] for child in self._children.get(pid, ()) if not self.by_pid[child].gone]

    def descendants(self, pid: int) -> List[Process]:
        """Every process below ``pid``, parents first, without itself."""
        found: List[Process] = []
        todo = [pid]
        seen = {pid}
        while todo:
            for child in self.children(todo.pop()):
                if child.pid not in seen:
                    seen.add(child.pid)
                    found.append(child)
                    todo.append(child.pid)
        return found

    def ancestors(self, pid: int) -> List[Process]:
        """From the parent up to init."""
        found: List[Process] = []
        process = self.by_pid.get(pid)
        while process is not None and process.ppid in self.by_pid and len(found) < len(self.by_pid):
            process = self.by_pid[process.ppid]
            found.append(process)
        return found

    def alive(self, pid: int, start: int) -> bool:
        """Whether that very process lived at the moment of the snapshot (a zombie does not)."""
        process = self.by_pid.get(pid)
        return process is not None and process.start == start and not process.gone

    def is_ours(self, process: Process) -> bool:
        """Whether a process belongs to this host (``Facts.process_env``); always, on a host of its own."""
        if not self.facts.process_env:
            return True
        known = self._ours.get(process.pid)
        if known is None:
            self._ours[process.pid] = False  # ends a cycle
            known = self._ours[process.pid] = self._carries(process)
        return known

    def _carries(self, process: Process) -> bool:
        if process.kernel or process.pid == 1:
            return False
        env = self.environ(process.pid)
        if env is not None:
            return all(env.get(name) == value for name, value in self.facts.process_env.items())
        # Unreadable: children inherit the environment, so it is what its parent or its session's leader is.
        for pid in (process.ppid, process.sid):
            kin = self.by_pid.get(pid)
            if kin is not None and kin is not process:
                return self.is_ours(kin)
        return False

    def presume(self, port: int, members: Iterable[Process]) -> None:
        """Say whose a listener on this port is that nobody is seen to hold: of those that hide what is open.

        Args:
            members: The processes of a launch that was made for this port.
        """
        found = self._presumed.setdefault(port, [])
        found += [one for one in members if descriptors.is_hidden(one.pid) and one not in found]

    def presumed(self, port: int, uid: int) -> Set[int]:
        """Pids of those that hide what they hold and were launched to listen there."""
        return {one.pid for one in self._presumed.get(port, ()) if one.uid == uid}

    def hides(self, pid: int) -> bool:
        """Whether it is one of those."""
        return any(one.pid == pid for found in self._presumed.values() for one in found)

    def held(self) -> Descriptors:
        """Sockets and GPU devices by holder; walked once."""
        if self._descriptors is None:
            living = [process.pid for process in self.living()]
            self._descriptors = descriptors.walk(living, self.facts.gpu_device_dir)
        return self._descriptors


def snapshot(facts: Facts) -> Snapshot:
    """One walk of /proc."""
    by_pid: Dict[int, Process] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = look(int(name))
            if process is not None:
                by_pid[process.pid] = process
    return Snapshot(facts, by_pid)


def look(pid: int) -> Optional[Process]:
    """The process that has this pid now, zombies too; None where there is none."""
    stat = read_file(f"/proc/{pid}/stat")
    return Process(pid, stat) if b")" in stat else None


def alive(pid: int, start: int) -> bool:
    """Whether that very process lives now; a zombie does not."""
    process = look(pid)
    return process is not None and process.start == start and not process.gone


def environ_of(pid: int) -> Optional[Dict[str, str]]:
    """The environment that a process was given, as ``liveenv.Reader.given`` tells it."""
    from . import liveenv  # dear, and rarely needed

    return liveenv.Reader().given(pid)


def listeners(port: Optional[int] = None, snapshot: Optional[Snapshot] = None) -> List[Listener]:
    """Listening TCP sockets of this network namespace, with the processes that hold them.

    Args:
        port: Only this one; None: all.
        snapshot: Of the same moment; its walk over descriptors is shared. None: they are walked here.
    """
    rows = [row for name in ("tcp", "tcp6") for row in descriptors.listening(name) if port in (None, row[1])]
    if not rows:
        return []
    if snapshot is None:
        snapshot = Snapshot(Facts(), {})
        held = descriptors.walk((int(n) for n in os.listdir("/proc") if n.isdigit()), "").sockets
    else:
        held = snapshot.held().sockets
    return [
        Listener(address, number, inode, pid, uid)
        for address, number, inode, uid in rows
        for pid in _or_none(held.get(inode) or snapshot.presumed(number, uid))
    ]


def holders(snapshot: Snapshot) -> Dict[int, Set[int]]:
    """Which processes hold which GPU device open or mapped.

    Returns:
        Number N of the device file ``nvidiaN`` to pids. (N is the GPU's minor number: usually its index.)
    """
    return {number: set(pids) for number, pids in snapshot.held().devices.items()}


def _or_none(pids: Optional[Set[int]]) -> Iterable[Optional[int]]:
    return sorted(pids) if pids else (None,)
