"""What the rows of ``nvidia-smi`` mean, field by field: what the driver does not know is None, never 0."""

from __future__ import annotations

import contextlib
import re
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

_REASONS = (
    (0x1, "gpu_idle"),
    (0x2, "applications_clocks_setting"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal_slowdown"),
    (0x40, "hw_thermal_slowdown"),
    (0x80, "hw_power_brake_slowdown"),
    (0x100, "display_clock_setting"),
)


@dataclass(frozen=True)
class Gpu:
    """One GPU; None is unknown.

    Args:
        throttle: ``{"mask": "0x…", "reasons": [name]}``: why its clocks are below what they could be.
        ecc_uncorrected: Uncorrected errors since the driver was loaded.
    """

    index: int
    uuid: Optional[str] = None
    name: Optional[str] = None
    pci_bus_id: Optional[str] = None
    driver: Optional[str] = None
    memory_total_mib: Optional[int] = None
    memory_used_mib: Optional[int] = None
    utilization: Optional[int] = None
    temperature_c: Optional[int] = None
    power_w: Optional[float] = None
    power_limit_w: Optional[float] = None
    clock_sm_mhz: Optional[int] = None
    clock_sm_max_mhz: Optional[int] = None
    clock_mem_mhz: Optional[int] = None
    throttle: Optional[Dict[str, Any]] = None
    pcie_gen: Optional[int] = None
    pcie_gen_max: Optional[int] = None
    pcie_width: Optional[int] = None
    pcie_width_max: Optional[int] = None
    ecc_uncorrected: Optional[int] = None
    mig: Optional[bool] = None
    persistence: Optional[bool] = None
    compute_cap: Optional[str] = None

    def to_wire(self) -> Dict[str, Any]:
        """The same as JSON types."""
        return asdict(self)


class GpuProcess(NamedTuple):
    """A process as the driver names it: inside a container the number may be the host's."""

    gpu_uuid: str
    pid: Optional[int]
    name: str
    used_mib: Optional[int]


def _text(value: str) -> Optional[str]:
    return value


def _whole(value: str) -> Optional[int]:
    return int(value.split()[0])


def _real(value: str) -> Optional[float]:
    return float(value.split()[0])


def _flag(value: str) -> Optional[bool]:
    return {"enabled": True, "disabled": False}.get(value.lower())


def _throttle(value: str) -> Optional[Dict[str, Any]]:
    mask = int(value, 16)
    return {"mask": value, "reasons": [name for bit, name in _REASONS if mask & bit]}


_Parse = Callable[[str], Any]
# The name comes last: it alone may hold a comma.
_FIELDS: Tuple[Tuple[str, str, _Parse], ...] = (
    ("index", "index", _whole),
    ("uuid", "uuid", _text),
    ("pci_bus_id", "pci.bus_id", _text),
    ("driver", "driver_version", _text),
    ("memory_total_mib", "memory.total", _whole),
    ("memory_used_mib", "memory.used", _whole),
    ("utilization", "utilization.gpu", _whole),
    ("temperature_c", "temperature.gpu", _whole),
    ("power_w", "power.draw", _real),
    ("power_limit_w", "power.limit", _real),
    ("clock_sm_mhz", "clocks.current.sm", _whole),
    ("clock_sm_max_mhz", "clocks.max.sm", _whole),
    ("clock_mem_mhz", "clocks.current.memory", _whole),
    ("throttle", "clocks_event_reasons.active", _throttle),
    ("pcie_gen", "pcie.link.gen.current", _whole),
    ("pcie_gen_max", "pcie.link.gen.max", _whole),
    ("pcie_width", "pcie.link.width.current", _whole),
    ("pcie_width_max", "pcie.link.width.max", _whole),
    ("ecc_uncorrected", "ecc.errors.uncorrected.volatile.total", _whole),
    ("mig", "mig.mode.current", _flag),
    ("persistence", "persistence_mode", _flag),
    ("compute_cap", "compute_cap", _text),
    ("name", "name", _text),
)
_NO_VALUE = re.compile(r"\[.*\]|N/A|ERR!|Unknown Error|", re.IGNORECASE)
_BROKEN = re.compile(r"GPU is lost|requires? reset|Unknown Error|ERR!", re.IGNORECASE)
_VITAL = {"index", "uuid", "pci_bus_id", "memory_total_mib", "memory_used_mib"}
# An older name of the same field.
ALIASES = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}
UNHEALTHY = re.compile(
    r"Unable to determine the device handle|No devices were found|couldn't communicate with the NVIDIA driver"
    r"|GPU is lost|requires? reset|fallen off the bus",
    re.IGNORECASE,
)


def fields() -> List[str]:
    """Every field that is asked for, in order."""
    return [field for _, field, _ in _FIELDS]


def parse_gpus(text: str, fields: List[str]) -> Tuple[List[Gpu], List[str]]:
    """Rows of ``--query-gpu`` without header.

    Args:
        fields: As they were asked for, in order.

    Returns:
        The GPUs, and what else the driver said, or says of a broken one.
    """
    gpus: List[Gpu] = []
    complaints: List[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        values = [value.strip() for value in line.split(",", len(fields) - 1)]
        if len(values) != len(fields) or not values[0].isdigit():
            complaints.append(line[:300])
            continue
        row = dict(zip(fields, values))
        gpus.append(_gpu(row))
        complaints += _faults(gpus[-1], row)
    return gpus, complaints


def _gpu(row: Mapping[str, str]) -> Gpu:
    found = {}
    for name, field, parse in _FIELDS:
        value = row.get(field, row.get(ALIASES.get(field, ""), ""))
        if not _NO_VALUE.fullmatch(value):
            with contextlib.suppress(ValueError):  # a form that no driver had so far: unknown
                found[name] = parse(value)
    return Gpu(**found)


def _faults(gpu: Gpu, row: Mapping[str, str]) -> List[str]:
    """Signs that this GPU is broken; a sensor that answers "Unknown Error" alone is none."""
    bad = [
        f"{field}: {row[field]}"
        for name, field, _ in _FIELDS
        if field in row and _BROKEN.search(row[field]) and (name in _VITAL or UNHEALTHY.search(row[field]))
    ]
    return [f"GPU {gpu.index} ({gpu.pci_bus_id or 'bus id unknown'}): {', '.join(bad)}"] if bad else []


def parse_texts(text: str, fields: List[str]) -> Dict[int, Dict[str, str]]:
    """Rows whose first field is the index, as text; a field without a value is absent."""
    found: Dict[int, Dict[str, str]] = {}
    for line in text.splitlines():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields) and values[0].isdigit():
            row = zip(fields, values)
            found[int(values[0])] = {name: value for name, value in row if not _NO_VALUE.fullmatch(value)}
    return found


def parse_processes(text: str) -> List[GpuProcess]:
    """Rows of ``--query-compute-apps=gpu_uuid,pid,process_name,used_memory`` without header.

    The name is whatever the process calls itself, commas included: the number is read from the left, the
    memory from the right.
    """
    found = []
    for line in text.splitlines():
        left = [part.strip() for part in line.split(",", 2)]
        if len(left) < 3 or not re.match(r"(GPU|MIG)-", left[0]):
            continue
        name, _, memory = left[2].rpartition(",")
        found.append(GpuProcess(left[0], _number(left[1]), name.strip(), _number(memory)))
    return found


def _number(value: str) -> Optional[int]:
    digits = re.fullmatch(r"\s*(\d+)(\s*MiB)?\s*", value)
    return int(digits.group(1)) if digits else None
