"""``nvidia-smi -q``, as text and as XML: the parts that a look at a host needs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from stoker.lab.standins import devices
from stoker.lab.standins.smi import reading
from stoker.lab.standins.smi.reading import Reading

# One entry: the label of the text, the tag of the XML, and a value or entries below it.
Entry = tuple[str, str, str | list["Entry"]]
_WIDTH = 55


def text(machine: devices.Machine, readings: Sequence[Reading]) -> str:
    """The report as text."""
    lines = ["", "=" * 14 + "NVSMI LOG" + "=" * 14, ""]
    lines += _lines(_about(machine, readings), 0)
    lines.insert(-1, "")
    for r in readings:
        lines += [f"GPU {r.gpu.bus_id}", *_lines(_gpu(r), 1), *_processes(r), ""]
    return "\n".join(lines) + "\n"


def xml(machine: devices.Machine, readings: Sequence[Reading]) -> str:
    """The report as XML."""
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">',
        "<nvidia_smi_log>",
        *_elements(_about(machine, readings), 1),
    ]
    for r in readings:
        lines += [
            f'\t<gpu id="{r.gpu.bus_id}">',
            *_elements(_gpu(r), 2),
            *_process_elements(r),
            "\t</gpu>",
            "",
        ]
    return "\n".join([*lines, "</nvidia_smi_log>"]) + "\n"


def _about(machine: devices.Machine, readings: Sequence[Reading]) -> list[Entry]:
    return [
        ("Timestamp", "timestamp", time.strftime("%a %b %d %H:%M:%S %Y")),
        ("Driver Version", "driver_version", machine.driver),
        ("CUDA Version", "cuda_version", machine.cuda),
        ("Attached GPUs", "attached_gpus", str(len(readings))),
    ]


def _gpu(r: Reading) -> list[Entry]:
    return [
        ("Product Name", "product_name", r.gpu.name),
        ("Product Brand", "product_brand", "NVIDIA"),
        ("Product Architecture", "product_architecture", "Blackwell"),
        ("Persistence Mode", "persistence_mode", "Enabled"),
        (
            "MIG Mode",
            "mig_mode",
            [("Current", "current_mig", "Disabled"), ("Pending", "pending_mig", "Disabled")],
        ),
        ("GPU UUID", "uuid", r.gpu.uuid),
        ("Minor Number", "minor_number", str(r.gpu.number)),
        ("GPU Recovery Action", "gpu_recovery_action", "None"),
        ("PCI", "pci", _pci(r)),
        ("Fan Speed", "fan_speed", "N/A"),
        ("Performance State", "performance_state", r.pstate),
        ("Clocks Event Reasons", "clocks_event_reasons", _reasons(r)),
        ("FB Memory Usage", "fb_memory_usage", _memory(r)),
        ("Compute Mode", "compute_mode", "Default"),
        (
            "Utilization",
            "utilization",
            [("GPU", "gpu_util", f"{r.percent} %"), ("Memory", "memory_util", f"{r.percent // 2} %")],
        ),
        (
            "ECC Mode",
            "ecc_mode",
            [("Current", "current_ecc", "Enabled"), ("Pending", "pending_ecc", "Enabled")],
        ),
        ("ECC Errors", "ecc_errors", [("Volatile", "volatile", _ecc()), ("Aggregate", "aggregate", _ecc())]),
        ("Temperature", "temperature", [("GPU Current Temp", "gpu_temp", f"{r.temperature_c} C")]),
        ("GPU Power Readings", "gpu_power_readings", _power(r)),
        ("Clocks", "clocks", _clocks(r.sm_mhz, r.memory_mhz, r.video_mhz)),
        (
            "Max Clocks",
            "max_clocks",
            _clocks(reading.SM_MAX_MHZ, reading.MEMORY_MAX_MHZ, reading.VIDEO_MAX_MHZ),
        ),
        ("Fabric", "fabric", [("State", "state", "N/A"), ("Status", "status", "N/A")]),
    ]


def _pci(r: Reading) -> list[Entry]:
    generation: list[Entry] = [
        ("Max", "max_link_gen", str(reading.PCIE_GEN)),
        ("Current", "current_link_gen", str(r.pcie_gen)),
        ("Device Current", "device_current_link_gen", str(r.pcie_gen)),
        ("Device Max", "max_device_link_gen", str(reading.PCIE_GEN)),
    ]
    width: list[Entry] = [
        ("Max", "max_link_width", f"{reading.PCIE_WIDTH}x"),
        ("Current", "current_link_width", f"{reading.PCIE_WIDTH}x"),
    ]
    link: list[Entry] = [
        ("PCIe Generation", "pcie_gen", generation),
        ("Link Width", "link_widths", width),
    ]
    return [
        ("Bus Id", "pci_bus_id", r.gpu.bus_id),
        ("GPU Link Info", "pci_gpu_link_info", link),
        ("Replays Since Reset", "replay_counter", "0"),
    ]


def _reasons(r: Reading) -> list[Entry]:
    prefix = "clocks_event_reason_"
    return [
        ("Idle", f"{prefix}gpu_idle", "Not Active" if r.busy else "Active"),
        ("SW Power Cap", f"{prefix}sw_power_cap", "Not Active"),
        ("HW Slowdown", f"{prefix}hw_slowdown", "Not Active"),
        ("SW Thermal Slowdown", f"{prefix}sw_thermal_slowdown", "Not Active"),
    ]


def _memory(r: Reading) -> list[Entry]:
    return [
        ("Total", "total", f"{r.gpu.memory_mib} MiB"),
        ("Reserved", "reserved", f"{reading.RESERVED_MIB} MiB"),
        ("Used", "used", f"{r.used_mib} MiB"),
        ("Free", "free", f"{r.free_mib} MiB"),
    ]


def _ecc() -> list[Entry]:
    return [
        ("SRAM Correctable", "sram_correctable", "0"),
        ("DRAM Correctable", "dram_correctable", "0"),
        ("DRAM Uncorrectable", "dram_uncorrectable", "0"),
    ]


def _power(r: Reading) -> list[Entry]:
    return [
        ("Average Power Draw", "average_power_draw", f"{r.power_w:.2f} W"),
        ("Instantaneous Power Draw", "instant_power_draw", f"{r.power_w:.2f} W"),
        ("Current Power Limit", "current_power_limit", f"{reading.POWER_LIMIT_W:.2f} W"),
    ]


def _clocks(sm: int, memory: int, video: int) -> list[Entry]:
    return [
        ("Graphics", "graphics_clock", f"{sm} MHz"),
        ("SM", "sm_clock", f"{sm} MHz"),
        ("Memory", "mem_clock", f"{memory} MHz"),
        ("Video", "video_clock", f"{video} MHz"),
    ]


def _lines(entries: Sequence[Entry], depth: int) -> Iterator[str]:
    for label, _, value in entries:
        start = "    " * depth + label
        if isinstance(value, str):
            yield f"{start:<{_WIDTH}}: {value}"
        else:
            yield start
            yield from _lines(value, depth + 1)


def _processes(r: Reading) -> Iterator[str]:
    if not r.apps:
        yield f"{'    Processes':<{_WIDTH}}: None"
        return
    yield "    Processes"
    for app in r.apps:
        values = (
            ("GPU instance ID", "N/A"),
            ("Compute instance ID", "N/A"),
            ("Process ID", str(app.pid)),
            ("    Type", "C"),
            ("    Name", app.name),
            ("    Used GPU Memory", f"{app.mib} MiB"),
        )
        yield from (f"{'        ' + label:<{_WIDTH}}: {value}" for label, value in values)


def _elements(entries: Sequence[Entry], depth: int) -> Iterator[str]:
    start = "\t" * depth
    for _, tag, value in entries:
        if isinstance(value, str):
            yield f"{start}<{tag}>{escape(value)}</{tag}>"
        else:
            yield f"{start}<{tag}>"
            yield from _elements(value, depth + 1)
            yield f"{start}</{tag}>"


def _process_elements(r: Reading) -> Iterator[str]:
    yield "\t\t<processes>"
    for app in r.apps:
        entries: list[Entry] = [
            ("", "gpu_instance_id", "N/A"),
            ("", "compute_instance_id", "N/A"),
            ("", "pid", str(app.pid)),
            ("", "type", "C"),
            ("", "process_name", app.name),
            ("", "used_memory", f"{app.mib} MiB"),
        ]
        yield from _elements([("", "process_info", entries)], 3)
    yield "\t\t</processes>"
