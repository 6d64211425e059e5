"""Who uses which GPU: the driver's word where /proc confirms it, else those that hold the device."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ..facts import Facts
from ..processes.descriptors import is_hidden, read_file
from ..processes.procs import Snapshot
from ..processes.recognise import is_monitor
from .gpu import GpuState

# A GPU that nobody uses may still show this much: the driver's own share.
IDLE_MIB = 128
_DRIVER_DIR = "/proc/driver/nvidia/gpus"


@dataclass(frozen=True)
class Owners:
    """Users of the host's GPUs at one moment.

    Args:
        users: GPU index to pid to MiB (None where the driver does not say).
        used_mib: GPU index to memory in use (None: unknown).
        unknown: GPU index to why its user cannot be told.
    """

    users: Dict[int, Dict[int, Optional[int]]]
    used_mib: Dict[int, Optional[int]]
    unknown: Dict[int, str]

    def gpus_of(self, pid: int) -> Tuple[int, ...]:
        """Indices of the GPUs that a process uses."""
        return tuple(sorted(index for index, users in self.users.items() if pid in users))

    def mib_of(self, pid: int) -> Optional[int]:
        """Memory that a process uses on all of them; None where the driver does not say."""
        known = [users[pid] for users in self.users.values() if pid in users]
        return None if not known or None in known else sum(mib for mib in known if mib is not None)


def find(
    snapshot: Snapshot,
    devices: Mapping[int, Set[int]],
    state: GpuState,
    facts: Facts,
    uid: Optional[int] = None,
) -> Owners:
    """Who uses which GPU.

    Args:
        devices: Of ``procs.holders``: number of the device file to the pids that hold it.
        state: What the driver says. Inside a container its process numbers are the host's, and may name
            somebody else here: one counts only where /proc shows that this process holds that GPU.
        uid: The user whose descriptors can be looked into; None: our own.
    """
    if not state.gpus:  # no driver to ask: the devices alone tell, by number
        plain = {number: _computing(snapshot, pids) for number, pids in devices.items()}
        return Owners(plain, {}, {})
    reader = os.getuid() if uid is None else uid
    users: Dict[int, Dict[int, Optional[int]]] = {}
    unknown: Dict[int, str] = {}
    numbers = device_numbers(state.gpus, facts)
    for gpu in state.gpus:
        holding = devices.get(numbers[gpu.index], set())
        listed = [p for p in state.processes if p.gpu_uuid == gpu.uuid]
        confirmed = {p.pid: p.used_mib for p in listed if p.pid and _confirmed(snapshot, p, holding, reader)}
        idle = not listed and gpu.memory_used_mib is not None and gpu.memory_used_mib <= IDLE_MIB
        if (listed and len(confirmed) == len({p.pid for p in listed})) or (idle and not gpu.mig):
            users[gpu.index] = confirmed
            continue
        users[gpu.index] = {**_computing(snapshot, holding), **confirmed}
        if not users[gpu.index] and (listed or (gpu.memory_used_mib or 0) > IDLE_MIB):
            unknown[gpu.index] = _why(gpu.memory_used_mib, len(listed))
    return Owners(users, {gpu.index: gpu.memory_used_mib for gpu in state.gpus}, unknown)


def device_numbers(gpus: Iterable[Any], facts: Facts) -> Dict[int, int]:
    """GPU index to N of its device file ``nvidiaN``: they differ where a container sees only some GPUs."""
    by_bus = {} if facts.simulated else _minors()
    return {gpu.index: by_bus.get((gpu.pci_bus_id or "").lower()[-12:], gpu.index) for gpu in gpus}


def _minors() -> Dict[str, int]:
    found: Dict[str, int] = {}
    try:
        names = os.listdir(_DRIVER_DIR)
    except OSError:
        return found
    for name in names:
        minor = re.search(rb"Device Minor:\s*(\d+)", read_file(f"{_DRIVER_DIR}/{name}/information"))
        if minor:
            found[name.lower()[-12:]] = int(minor.group(1))
    return found


def _confirmed(snapshot: Snapshot, listed: Any, holding: Set[int], uid: int) -> bool:
    """Whether the process that has this number here is the one the driver means."""
    if listed.pid in holding or snapshot.hides(listed.pid):
        return True
    process = snapshot.by_pid.get(listed.pid)
    if process is None or process.gone or uid == 0 or (uid == process.uid and not is_hidden(process.pid)):
        return False  # we may look into it, and it does not hold the device
    # Another user's, or one that hides: its descriptors are closed to us, but its name is not.
    first = process.argv[0] if process.argv else process.comm
    return listed.name in (first, os.path.basename(first), process.title)


def _computing(snapshot: Snapshot, pids: Iterable[int]) -> Dict[int, Optional[int]]:
    known = (snapshot.by_pid.get(pid) for pid in pids)
    return {p.pid: None for p in known if p is not None and not is_monitor(p)}


def _why(used_mib: Optional[int], listed: int) -> str:
    used = "memory" if used_mib is None else f"{used_mib} MiB"
    said = f"; the driver names {listed} that are not here" if listed else ""
    return f"{used} in use, and no process here holds it{said}"


def resolve(wanted: Iterable[Any], state: GpuState) -> Tuple[List[Any], List[str]]:
    """The GPUs a plan means.

    Args:
        wanted: Indices, UUIDs (or unambiguous beginnings of them), or ``all``.

    Returns:
        The GPUs (of ``state``) in the order asked for, and what was not found.
    """
    found: List[Any] = []
    missing: List[str] = []
    for item in wanted:
        if item == "all":
            hits = list(state.gpus)
        elif isinstance(item, int):
            hits = [gpu for gpu in state.gpus if gpu.index == item]
        else:
            hits = [gpu for gpu in state.gpus if (gpu.uuid or "").startswith(item)]
        if not hits or (item != "all" and len(hits) > 1):
            missing.append(str(item))
        else:
            found += [gpu for gpu in hits if gpu not in found]
    return found, missing
