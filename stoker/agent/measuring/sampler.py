"""What the machine does while a benchmark runs: GPUs and load, sampled beside it."""

from __future__ import annotations

import os
import statistics
import threading
from collections import Counter
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..facts import Facts
from ..gpus import gpu
from ..gpus.gpu import GpuState
from ..processes.procs import read_file

INTERVAL_S = 2.0
_END_S = 5.0
_MEDIAN = ("clock_sm_mhz", "clock_mem_mhz", "utilization")
# An idle link falls back to an older generation: what it can do shows under load.
_LARGEST = ("power_w", "temperature_c", "pcie_gen", "pcie_width", "memory_used_mib", "ecc_uncorrected")
_OFTEN = 0.5


class Sampler(threading.Thread):
    """A thread that asks the driver every two seconds until it is stopped.

    Args:
        facts: Of the host.
        env: The login's environment.
        interval_s: Between the end of one question and the next one.
        query: Asks the driver.
    """

    def __init__(
        self,
        facts: Facts,
        env: Mapping[str, str],
        interval_s: float = INTERVAL_S,
        query: Callable[[Facts, Mapping[str, str]], GpuState] = gpu.query,
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self.interval_s = interval_s
        self._facts = facts
        self._env = env
        self._query = query
        self._stopped = threading.Event()
        self._states: List[GpuState] = []
        self._loads: List[float] = []
        self._cpu: List[Tuple[int, int]] = []

    def run(self) -> None:
        """Sample until stopped; at least once."""
        while True:
            state = self._query(self._facts, self._env)
            self._states.append(state)
            self._loads.append(os.getloadavg()[0])
            self._cpu += cpu_times()
            # Without a driver nothing but the load is left to ask for, and that is cheap.
            if self._stopped.wait(self.interval_s):
                return

    def stop(self) -> None:
        """End it; a driver that hangs is left behind."""
        self._stopped.set()
        self.join(_END_S)

    @property
    def state(self) -> Optional[GpuState]:
        """The latest answer of the driver; None: none yet."""
        return self._states[-1] if self._states else None

    def passers_by(self, gpus: Iterable[Mapping[str, Any]]) -> List[Tuple[str, Optional[int], int]]:
        """(name, pid, GPU index) of processes that the driver listed later, and not when it began."""
        index = {one.get("uuid"): one["index"] for one in gpus}
        listed = [{(p.name, p.pid, p.gpu_uuid) for p in state.processes} for state in self._states]
        later = set().union(*listed[1:]) - listed[0] if listed else set()
        return sorted(((name, pid, index[uuid]) for name, pid, uuid in later if uuid in index), key=str)

    def gpus(self) -> List[Dict[str, Any]]:
        """Each GPU as it was under load."""
        by_index: Dict[int, List[Dict[str, Any]]] = {}
        for state in self._states:
            for one in state.gpus:
                by_index.setdefault(one.index, []).append(one.to_wire())
        return [under_load(samples) for _, samples in sorted(by_index.items())]

    def machine(self) -> Dict[str, Any]:
        """The machine's part of a benchmark's result."""
        return {
            "samples": len(self._states),
            "interval_s": self.interval_s,
            "cpus": os.cpu_count(),
            "load1": {"least": min(self._loads), "most": max(self._loads)} if self._loads else None,
            "cpu_busy": busy_share(self._cpu),
            "gpus": self.gpus(),
        }


def cpu_times() -> List[Tuple[int, int]]:
    """(busy, all) ticks of all CPUs since the boot, at most one; none where the kernel does not tell."""
    line = (read_file("/proc/stat") or b"").split(b"\n", 1)[0].split()
    if len(line) < 9 or line[0] != b"cpu" or not all(word.isdigit() for word in line[1:9]):
        return []
    # user nice system idle iowait irq softirq steal; guests are in user already.
    ticks = [int(word) for word in line[1:9]]
    return [(sum(ticks) - ticks[3] - ticks[4], sum(ticks))]


def busy_share(times: Sequence[Tuple[int, int]]) -> Optional[float]:
    """Share of all CPUs that worked from the first to the last of ``cpu_times``, 0..1; None: not known."""
    if len(times) < 2 or times[-1][1] <= times[0][1]:
        return None
    share = (times[-1][0] - times[0][0]) / (times[-1][1] - times[0][1])
    return round(min(1.0, max(0.0, share)), 4)


def under_load(samples: List[Dict[str, Any]]) -> Dict[str, Any]:
    """One GPU out of its samples: those in which it worked, where there are any.

    Args:
        samples: ``Gpu.to_wire()``, at least one.

    Returns:
        The same fields: medians of clocks, the largest of what grows with load, ``throttle`` with the reasons
        that held at least half of the time and how often each was ``seen``; and ``samples``.
    """
    busy = [sample for sample in samples if (sample.get("utilization") or 0) > 0] or samples
    found = dict(busy[-1])
    for name in _MEDIAN:
        found[name] = _over(busy, name, statistics.median_low)
    for name in _LARGEST:
        found[name] = _over(busy, name, max)
    throttles = [sample["throttle"] for sample in busy if sample.get("throttle")]
    if throttles:
        seen = Counter(reason for throttle in throttles for reason in throttle["reasons"])
        often = sorted(reason for reason, count in seen.items() if count >= _OFTEN * len(throttles))
        found["throttle"] = {
            "mask": throttles[-1]["mask"],
            "reasons": often,
            "seen": dict(sorted(seen.items())),
        }
    found["samples"] = len(busy)
    return found


def _over(samples: List[Dict[str, Any]], name: str, combine: Callable[[List[Any]], Any]) -> Any:
    """None where no sample knows it."""
    known = [sample[name] for sample in samples if sample.get(name) is not None]
    return combine(known) if known else None
