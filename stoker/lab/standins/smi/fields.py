"""The fields of ``--query-gpu`` and ``--query-compute-apps``."""

from __future__ import annotations

import time
from collections.abc import Callable

from stoker.lab.standins.smi import reading
from stoker.lab.standins.smi.reading import App, Reading

UNKNOWN = "[N/A]"

# Every field that the driver knows, as ``name|alias``; those without a value below are [N/A].
_NAMES = """
timestamp driver_version vgpu_driver_capability.heterogenous_multivGPU count name|gpu_name
serial|gpu_serial uuid|gpu_uuid pci.bus_id|gpu_bus_id pci.domain pci.bus pci.device pci.baseClass
pci.subClass pci.device_id pci.sub_device_id vgpu_device_capability.fractional_multiVgpu
vgpu_device_capability.heterogeneous_timeSlice_profile
vgpu_device_capability.heterogeneous_timeSlice_sizes vgpu_device_capability.homogeneous_placements
vgpu_device_capability.mig_timeSlicing vgpu_device_capability.mig_timeSlicing_mode pcie.link.gen.current
pcie.link.gen.gpucurrent pcie.link.gen.max pcie.link.gen.gpumax pcie.link.gen.hostmax
pcie.link.width.current pcie.link.width.max index display_mode display_attached display_active
persistence_mode addressing_mode accounting.mode accounting.buffer_size driver_model.current
driver_model.pending vbios_version inforom.img|inforom.image inforom.oem inforom.ecc
inforom.pwr|inforom.power inforom.checksum_validation gpu_recovery_action
gom.current|gpu_operation_mode.current gom.pending|gpu_operation_mode.pending fan.speed pstate
clocks_event_reasons.supported|clocks_throttle_reasons.supported
clocks_event_reasons.active|clocks_throttle_reasons.active
clocks_event_reasons.gpu_idle|clocks_throttle_reasons.gpu_idle
clocks_event_reasons.applications_clocks_setting|clocks_throttle_reasons.applications_clocks_setting
clocks_event_reasons.sw_power_cap|clocks_throttle_reasons.sw_power_cap
clocks_event_reasons.hw_slowdown|clocks_throttle_reasons.hw_slowdown
clocks_event_reasons.hw_thermal_slowdown|clocks_throttle_reasons.hw_thermal_slowdown
clocks_event_reasons.hw_power_brake_slowdown|clocks_throttle_reasons.hw_power_brake_slowdown
clocks_event_reasons.sw_thermal_slowdown|clocks_throttle_reasons.sw_thermal_slowdown
clocks_event_reasons.sync_boost|clocks_throttle_reasons.sync_boost
clocks_event_reasons_counters.sw_power_cap clocks_event_reasons_counters.sync_boost
clocks_event_reasons_counters.sw_thermal_slowdown clocks_event_reasons_counters.hw_thermal_slowdown
clocks_event_reasons_counters.hw_power_brake_slowdown memory.total memory.reserved memory.used
memory.free compute_mode compute_cap utilization.gpu utilization.memory utilization.encoder
utilization.decoder utilization.jpeg utilization.ofa encoder.stats.sessionCount encoder.stats.averageFps
encoder.stats.averageLatency dramEncryption.mode.current dramEncryption.mode.pending ecc.mode.current
ecc.mode.pending ecc.errors.corrected.volatile.device_memory ecc.errors.corrected.volatile.dram
ecc.errors.corrected.volatile.register_file ecc.errors.corrected.volatile.l1_cache
ecc.errors.corrected.volatile.l2_cache ecc.errors.corrected.volatile.texture_memory
ecc.errors.corrected.volatile.cbu ecc.errors.corrected.volatile.sram ecc.errors.corrected.volatile.total
ecc.errors.corrected.aggregate.device_memory ecc.errors.corrected.aggregate.dram
ecc.errors.corrected.aggregate.register_file ecc.errors.corrected.aggregate.l1_cache
ecc.errors.corrected.aggregate.l2_cache ecc.errors.corrected.aggregate.texture_memory
ecc.errors.corrected.aggregate.cbu ecc.errors.corrected.aggregate.sram
ecc.errors.corrected.aggregate.total ecc.errors.uncorrected.volatile.device_memory
ecc.errors.uncorrected.volatile.dram ecc.errors.uncorrected.volatile.register_file
ecc.errors.uncorrected.volatile.l1_cache ecc.errors.uncorrected.volatile.l2_cache
ecc.errors.uncorrected.volatile.texture_memory ecc.errors.uncorrected.volatile.cbu
ecc.errors.uncorrected.volatile.sram ecc.errors.uncorrected.volatile.total
ecc.errors.uncorrected.aggregate.device_memory ecc.errors.uncorrected.aggregate.dram
ecc.errors.uncorrected.aggregate.register_file ecc.errors.uncorrected.aggregate.l1_cache
ecc.errors.uncorrected.aggregate.l2_cache ecc.errors.uncorrected.aggregate.texture_memory
ecc.errors.uncorrected.aggregate.cbu ecc.errors.uncorrected.aggregate.sram
ecc.errors.uncorrected.aggregate.total ecc.errors.uncorrected.volatile.sram.parity
ecc.errors.uncorrected.volatile.sram.secded ecc.errors.uncorrected.aggregate.sram.parity
ecc.errors.uncorrected.aggregate.sram.secded ecc.errors.uncorrected.aggregate.sram.thresholdExceeded
ecc.errors.uncorrected.aggregate.sram.l2 ecc.errors.uncorrected.aggregate.sram.sm
ecc.errors.uncorrected.aggregate.sram.mcu ecc.errors.uncorrected.aggregate.sram.pcie
ecc.errors.uncorrected.aggregate.sram.other retired_pages.single_bit_ecc.count|retired_pages.sbe
retired_pages.double_bit.count|retired_pages.dbe retired_pages.pending
remapped_rows.correctable|remapped_rows.sbe remapped_rows.correctable_inactive
remapped_rows.uncorrectable|remapped_rows.dbe remapped_rows.uncorrectable_inactive remapped_rows.pending
remapped_rows.failure remapped_rows.histogram.max remapped_rows.histogram.high
remapped_rows.histogram.partial remapped_rows.histogram.low remapped_rows.histogram.none temperature.gpu
temperature.gpu.tlimit temperature.memory power.management power.draw
power.draw.average|gpu.power.draw.average power.draw.instant|gpu.power.draw.instant
power.limit|gpu.power.requested_limit enforced.power.limit|gpu.power.current_limit
power.default_limit|gpu.power.default_limit power.min_limit|gpu.power.min_limit
power.max_limit|gpu.power.max_limit module.power.draw.average module.power.draw.instant
module.power.limit|module.power.requested_limit module.enforced.power.limit|module.power.current_limit
module.power.default_limit module.power.min_limit module.power.max_limit
power_smoothing.delayed_power_smoothing_supported power_smoothing.primary_power_floor
power_smoothing.secondary_power_floor power_smoothing.min_primary_floor_activation_offset
power_smoothing.min_primary_floor_activation_point power_smoothing.window_multiplier
power_smoothing.curr_profile.secondary_power_floor
power_smoothing.curr_profile.primary_floor_act_window_multiplier
power_smoothing.curr_profile.primary_floor_tar_window_multiplier
power_smoothing.curr_profile.primary_floor_act_offset
power_smoothing.admin_override.secondary_power_floor
power_smoothing.admin_override.primary_floor_act_window_multiplier
power_smoothing.admin_override.primary_floor_tar_window_multiplier
power_smoothing.admin_override.primary_floor_act_offset clocks.current.graphics|clocks.gr
clocks.current.sm|clocks.sm clocks.current.memory|clocks.mem clocks.current.video|clocks.video
clocks.applications.graphics|clocks.applications.gr clocks.applications.memory|clocks.applications.mem
clocks.default_applications.graphics|clocks.default_applications.gr
clocks.default_applications.memory|clocks.default_applications.mem clocks.max.graphics|clocks.max.gr
clocks.max.sm clocks.max.memory|clocks.max.mem mig.mode.current mig.mode.pending gsp.mode.current
gsp.mode.default c2c.mode protected_memory.total protected_memory.used protected_memory.free
fabric.state fabric.status fabric.cliqueId fabric.clusterUuid fabric.health.summary
fabric.health.bandwidth fabric.health.route_recovery_in_progress fabric.health.route_unhealthy
fabric.health.access_timeout_recovery fabric.health.incorrect_configuration
fabric.health.partition_assigned platform.chassis_serial_number platform.slot_number platform.tray_index
platform.host_id platform.peer_type platform.module_id platform.gpu_fabric_guid hostname
"""

_UNITS = {
    "memory.": "MiB",
    "protected_memory.": "MiB",
    "utilization.": "%",
    "fan.speed": "%",
    "power.draw": "W",
    "power.limit": "W",
    "power.default_limit": "W",
    "power.min_limit": "W",
    "power.max_limit": "W",
    "enforced.power.limit": "W",
    "module.": "W",
    "clocks.": "MHz",
    "clocks_event_reasons_counters.": "us",
}

_VALUES: dict[str, Callable[[Reading], object]] = {
    "timestamp": lambda r: timestamp(),
    "driver_version": lambda r: r.machine.driver,
    "count": lambda r: len(r.machine.gpus),
    "name": lambda r: r.gpu.name,
    "serial": lambda r: f"{1700000000000 + r.gpu.number}",
    "uuid": lambda r: r.gpu.uuid,
    "pci.bus_id": lambda r: r.gpu.bus_id,
    "pci.domain": lambda r: "0x0000",
    "pci.bus": lambda r: f"0x{r.gpu.bus_id[9:11]}",
    "pci.device": lambda r: "0x00",
    "pcie.link.gen.current": lambda r: r.pcie_gen,
    "pcie.link.gen.gpucurrent": lambda r: r.pcie_gen,
    "pcie.link.gen.max": lambda r: reading.PCIE_GEN,
    "pcie.link.gen.gpumax": lambda r: reading.PCIE_GEN,
    "pcie.link.width.current": lambda r: reading.PCIE_WIDTH,
    "pcie.link.width.max": lambda r: reading.PCIE_WIDTH,
    "index": lambda r: r.gpu.number,
    "display_mode": lambda r: "Disabled",
    "display_attached": lambda r: "No",
    "display_active": lambda r: "Disabled",
    "persistence_mode": lambda r: "Enabled",
    "accounting.mode": lambda r: "Disabled",
    "accounting.buffer_size": lambda r: 4000,
    "vbios_version": lambda r: "98.02.6A.00.03",
    "gpu_recovery_action": lambda r: "None",
    "pstate": lambda r: r.pstate,
    "clocks_event_reasons.supported": lambda r: "0x00000000000001FF",
    "clocks_event_reasons.active": lambda r: f"0x{0 if r.busy else 1:016x}",
    "clocks_event_reasons.gpu_idle": lambda r: "Not Active" if r.busy else "Active",
    "memory.total": lambda r: r.gpu.memory_mib,
    "memory.reserved": lambda r: reading.RESERVED_MIB,
    "memory.used": lambda r: r.used_mib,
    "memory.free": lambda r: r.free_mib,
    "compute_mode": lambda r: "Default",
    "compute_cap": lambda r: "12.0",
    "utilization.gpu": lambda r: r.percent,
    "utilization.memory": lambda r: r.percent // 2,
    "ecc.mode.current": lambda r: "Enabled",
    "ecc.mode.pending": lambda r: "Enabled",
    "temperature.gpu": lambda r: r.temperature_c,
    "temperature.memory": lambda r: r.temperature_c - 2,
    "power.draw": lambda r: f"{r.power_w:.2f}",
    "power.draw.average": lambda r: f"{r.power_w:.2f}",
    "power.draw.instant": lambda r: f"{r.power_w:.2f}",
    "power.limit": lambda r: f"{reading.POWER_LIMIT_W:.2f}",
    "enforced.power.limit": lambda r: f"{reading.POWER_LIMIT_W:.2f}",
    "power.default_limit": lambda r: f"{reading.POWER_LIMIT_W:.2f}",
    "power.min_limit": lambda r: "150.00",
    "power.max_limit": lambda r: f"{reading.POWER_LIMIT_W:.2f}",
    "clocks.current.graphics": lambda r: r.sm_mhz,
    "clocks.current.sm": lambda r: r.sm_mhz,
    "clocks.current.memory": lambda r: r.memory_mhz,
    "clocks.current.video": lambda r: r.video_mhz,
    "clocks.max.graphics": lambda r: reading.SM_MAX_MHZ,
    "clocks.max.sm": lambda r: reading.SM_MAX_MHZ,
    "clocks.max.memory": lambda r: reading.MEMORY_MAX_MHZ,
    "mig.mode.current": lambda r: "Disabled",
    "mig.mode.pending": lambda r: "Disabled",
    "hostname": lambda r: r.machine.folder.rsplit("/", 1)[-1],
}

# Groups of fields that all say the same on a healthy GPU.
_SAME = {
    "clocks_event_reasons.": "Not Active",
    "clocks_event_reasons_counters.": "0",
    "ecc.errors.": "0",
    "remapped_rows.": "0",
}

_APPS: dict[str, Callable[[Reading, App], object]] = {
    "timestamp": lambda r, a: timestamp(),
    "gpu_name": lambda r, a: r.gpu.name,
    "gpu_bus_id": lambda r, a: r.gpu.bus_id,
    "gpu_serial": lambda r, a: f"{1700000000000 + r.gpu.number}",
    "gpu_uuid": lambda r, a: r.gpu.uuid,
    "pid": lambda r, a: a.pid,
    "process_name": lambda r, a: a.name,
    "used_gpu_memory": lambda r, a: f"{a.mib} MiB",
}
_APP_ALIASES = {"name": "process_name", "used_memory": "used_gpu_memory"}


def timestamp() -> str:
    """Now, as the driver writes it."""
    now = time.time()
    return time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"


def canonical(name: str) -> str:
    """The name that stands in the header; empty for an unknown field."""
    for entry in _NAMES.split():
        names = entry.split("|")
        if name in names:
            return names[0]
    return ""


def canonical_app(name: str) -> str:
    """The same for a field of a process."""
    name = _APP_ALIASES.get(name, name)
    return name if name in _APPS else ""


def header(name: str) -> str:
    """The field in the header, with its unit."""
    unit = "MiB" if name == "used_gpu_memory" else unit_of(name)
    return f"{name} [{unit}]" if unit else name


def unit_of(name: str) -> str:
    """The unit behind the values of a field; empty for none."""
    return next((unit for prefix, unit in _UNITS.items() if name.startswith(prefix)), "")


def value(name: str, of: Reading) -> str:
    """A field's value, with its unit."""
    if name in _VALUES:
        text = str(_VALUES[name](of))
    else:
        text = next((same for prefix, same in _SAME.items() if name.startswith(prefix)), UNKNOWN)
    unit = unit_of(name)
    return f"{text} {unit}" if unit and text != UNKNOWN else text


def app_value(name: str, of: Reading, app: App) -> str:
    """The same for a process."""
    return str(_APPS[name](of, app))
