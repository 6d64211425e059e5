"""The pretended GPUs of a lab host: files that workers really hold open.

The kernel keeps, for whoever has the file open, a position in it. That position is what the process "holds":
MiB in the high bits, per cent of load in the low ones (``position = mib << 20 | percent``). So memory and
load are seen from outside as on a real GPU, by looking into /proc, and are free the moment the process ends.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import NamedTuple

CONTEXT_MIB = 518  # what holding the device costs before anything is allocated
_PERCENT = (1 << 20) - 1


class Gpu(NamedTuple):
    """One GPU as ``gpus.json`` of its host describes it."""

    number: int
    uuid: str
    name: str
    memory_mib: int
    bus_id: str


class Machine(NamedTuple):
    """What a lab host pretends to have.

    Args:
        folder: The host's folder, with ``gpus.json``, ``dev`` and ``shm``.
        driver: Version of the driver.
        cuda: The CUDA version that it supports.
        gpus: By index.
    """

    folder: str
    driver: str
    cuda: str
    gpus: tuple[Gpu, ...]

    @property
    def devices(self) -> str:
        """Folder of the device files."""
        return f"{self.folder}/dev"

    @property
    def shm(self) -> str:
        """Folder of shared memory."""
        return f"{self.folder}/shm"


def load(folder: str) -> Machine:
    """The host whose folder this is."""
    with open(f"{folder}/gpus.json", encoding="utf-8") as file:
        data = json.load(file)
    gpus = tuple(Gpu(number=gpu.pop("index"), **gpu) for gpu in data["gpus"])
    return Machine(folder, data["driver"], data["cuda"], gpus)


def visible(machine: Machine, env: Mapping[str, str]) -> list[Gpu]:
    """The GPUs that a process sees, in its order: ``CUDA_VISIBLE_DEVICES`` as CUDA reads it.

    The first entry that names no GPU ends the list.
    """
    listed = env.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return list(machine.gpus)
    found: list[Gpu] = []
    for entry in (part.strip() for part in listed.split(",")):
        matches = [
            gpu
            for gpu in machine.gpus
            if entry == str(gpu.number) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))
        ]
        if len(matches) != 1 or matches[0] in found:
            break
        found.append(matches[0])
    return found


class Device:
    """A GPU held open by this process.

    Args:
        machine: The host.
        gpu: Which GPU.
    """

    def __init__(self, machine: Machine, gpu: Gpu) -> None:
        self._fd = os.open(f"{machine.devices}/nvidia{gpu.number}", os.O_RDWR | os.O_CLOEXEC)
        self._mib = CONTEXT_MIB
        self._percent = 0
        self._tell()

    def hold(self, mib: int) -> None:
        """Have that much memory allocated, the context included."""
        self._mib = mib
        self._tell()

    def load(self, percent: int) -> None:
        """Be that busy."""
        self._percent = percent
        self._tell()

    def _tell(self) -> None:
        os.lseek(self._fd, self._mib << 20 | self._percent, os.SEEK_SET)


class Holder(NamedTuple):
    """A process that has a GPU open."""

    pid: int
    number: int
    mib: int
    percent: int


def holders(machine: Machine) -> list[Holder]:
    """Who holds the host's GPUs, as far as we may look; by GPU and pid."""
    prefix = f"{machine.devices}/nvidia"
    found: dict[tuple[int, int], Holder] = {}
    for pid in (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()):
        for fd, number in _open_devices(pid, prefix):
            mib, percent = _position(pid, fd)
            known = found.get((number, pid), Holder(pid, number, 0, 0))
            found[number, pid] = Holder(pid, number, max(known.mib, mib), max(known.percent, percent))
    return [found[key] for key in sorted(found)]


def _open_devices(pid: int, prefix: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    try:
        names = [entry.name for entry in os.scandir(f"/proc/{pid}/fd")]
    except OSError:
        return []  # gone meanwhile, or not ours to see
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115  # thousands of them: paths are dear
        except OSError:
            continue
        if target.startswith(prefix) and target[len(prefix) :].isdigit():
            found.append((name, int(target[len(prefix) :])))
    return found


def _position(pid: int, fd: str) -> tuple[int, int]:
    try:
        with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
            position = int(file.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return 0, 0
    return max(position >> 20, CONTEXT_MIB), min(position & _PERCENT, 100)
