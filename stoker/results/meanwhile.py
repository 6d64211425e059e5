"""What the machine did while something was measured: what held it back, and a line of it for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.results.records.record import Record

# Why a driver lowers clocks that nobody asked it to lower.
_HELD_BACK = {
    "hw_slowdown": "the hardware slowed it down",
    "sw_thermal_slowdown": "it was too hot",
    "hw_thermal_slowdown": "it was too hot",
    "hw_power_brake_slowdown": "the power supply braked it",
}
# At its power cap a GPU is held back too, but many are for most of their lives.
_AT_THE_CAP = "sw_power_cap"
_CAPPED_SHARE = 0.5
_BUSY_LOAD = 1.5  # of the CPUs


def disturbed(record: Record) -> tuple[str, ...]:
    """What held the machine back; no reason to doubt the figure, but one to know of beside it."""
    return tuple(dict.fromkeys(text for launch in record.launches for text in _of(launch.machine)))


def _of(machine: Mapping[str, Any]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for gpu in _gpus(machine):
        for text in _throttled(gpu):
            reasons.setdefault(text, []).append(str(gpu.get("index", "?")))
    for text, indices in reasons.items():
        yield f"GPU {','.join(indices)} was held back: {text}"
    load, cpus = machine.get("load1"), machine.get("cpus")
    least = load.get("least") if isinstance(load, Mapping) else None
    if isinstance(least, int | float) and isinstance(cpus, int) and cpus and least > _BUSY_LOAD * cpus:
        yield f"the host was overloaded: load {least:.0f} or more on {cpus} CPUs"


def _throttled(gpu: Mapping[str, Any]) -> Iterator[str]:
    throttle, samples = gpu.get("throttle"), gpu.get("samples")
    seen = throttle.get("seen") if isinstance(throttle, Mapping) else None
    if not isinstance(seen, Mapping) or not isinstance(samples, int) or samples <= 0:
        return
    for name, count in seen.items():
        if not isinstance(count, int):
            continue
        share = min(1.0, count / samples)
        if name in _HELD_BACK:
            yield f"{_HELD_BACK[name]} ({name}, {100 * share:.0f} % of the time)"
        elif name == _AT_THE_CAP and share >= _CAPPED_SHARE:
            cap = gpu.get("power_limit_w")
            watts = f" of {cap:g} W" if isinstance(cap, int | float) else ""
            yield f"it ran at its power cap{watts} ({100 * share:.0f} % of the time)"


_SHOWN = (
    ("clock_sm_mhz", "MHz"),
    ("power_w", "W"),
    ("temperature_c", "°C"),
    ("utilization", "%"),
    ("memory_used_mib", "MiB"),
    ("pcie_gen", "PCIe gen"),
    ("pcie_width", "PCIe lanes"),
)


def shown(record: Record) -> str:
    """The machine of the last launch on one line: ``1980–1995 MHz, 540–561 W, …; load 3–9 on 64 CPUs``."""
    machine = record.launches[-1].machine if record.launches else {}
    parts = [text for name, unit in _SHOWN if (text := _range(_gpus(machine), name, unit))]
    load, cpus, busy = machine.get("load1"), machine.get("cpus"), machine.get("cpu_busy")
    if isinstance(load, Mapping) and all(isinstance(load.get(n), int | float) for n in ("least", "most")):
        parts.append(f"load {load['least']:.1f}–{load['most']:.1f} on {cpus or '?'} CPUs")
    if isinstance(busy, int | float):
        parts.append(f"CPUs {100 * busy:.0f} % busy")
    return ", ".join(parts)


def _gpus(machine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = machine.get("gpus")
    return [gpu for gpu in found if isinstance(gpu, Mapping)] if isinstance(found, list) else []


def _range(gpus: list[Mapping[str, Any]], name: str, unit: str) -> str:
    values = [gpu[name] for gpu in gpus if isinstance(gpu.get(name), int | float)]
    if not values:
        return ""
    least, most = min(values), max(values)
    figure = f"{least:g}" if least == most else f"{least:g}–{most:g}"
    return f"{unit} {figure}" if unit.startswith("PCIe") else f"{figure} {unit}"
