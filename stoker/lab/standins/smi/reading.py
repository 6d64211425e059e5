"""What a pretended GPU shows at this moment: idle, or under the load of whoever holds it."""

from __future__ import annotations

from typing import NamedTuple

from stoker.lab.standins import devices

RESERVED_MIB = 616
PCIE_GEN = 5
PCIE_WIDTH = 16
POWER_LIMIT_W = 600.0
SM_MAX_MHZ, MEMORY_MAX_MHZ, VIDEO_MAX_MHZ = 2430, 12481, 2100


class App(NamedTuple):
    """A process on the GPU."""

    pid: int
    name: str
    mib: int


class Reading(NamedTuple):
    """One GPU, now.

    Args:
        gpu: Which one.
        machine: Its host.
        apps: Who holds it.
        percent: How busy it is.
    """

    gpu: devices.Gpu
    machine: devices.Machine
    apps: tuple[App, ...]
    percent: int

    @property
    def busy(self) -> bool:
        """Whether something computes: then the link and the clocks are up."""
        return self.percent > 0

    @property
    def used_mib(self) -> int:
        """Memory that is held."""
        return min(sum(app.mib for app in self.apps), self.gpu.memory_mib)

    @property
    def free_mib(self) -> int:
        """Memory that is neither held nor kept by the driver."""
        return max(self.gpu.memory_mib - self.used_mib - RESERVED_MIB, 0)

    @property
    def pcie_gen(self) -> int:
        """Of the link: an idle GPU lets it fall to the first."""
        return PCIE_GEN if self.busy else 1

    @property
    def sm_mhz(self) -> int:
        """Clock of the multiprocessors."""
        return 2340 if self.busy else 180

    @property
    def memory_mhz(self) -> int:
        """Clock of the memory."""
        return MEMORY_MAX_MHZ if self.busy else 405

    @property
    def video_mhz(self) -> int:
        """Clock of the video units."""
        return 1950 if self.busy else 600

    @property
    def power_w(self) -> float:
        """What it draws; every GPU a little differently."""
        return (318.2 if self.busy else 31.5) + 0.7 * self.gpu.number

    @property
    def temperature_c(self) -> int:
        """Of the GPU."""
        return (58 if self.busy else 30) + self.gpu.number % 3

    @property
    def pstate(self) -> str:
        """Performance state."""
        return "P1" if self.busy else "P8"


def read(machine: devices.Machine) -> list[Reading]:
    """Every GPU of the host."""
    held: dict[int, list[devices.Holder]] = {}
    for holder in devices.holders(machine):
        held.setdefault(holder.number, []).append(holder)
    return [
        Reading(
            gpu,
            machine,
            tuple(App(each.pid, _title(each.pid), each.mib) for each in held.get(gpu.number, ())),
            max((each.percent for each in held.get(gpu.number, ())), default=0),
        )
        for gpu in machine.gpus
    ]


def _title(pid: int) -> str:
    """The program as the driver names it: what stands first in its command line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            raw = file.read()
        if not raw.strip(b"\0"):
            with open(f"/proc/{pid}/comm", "rb") as file:
                raw = file.read().strip()
    except OSError:
        return "[Not Found]"
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
