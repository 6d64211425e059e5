"""Are the GPUs fit to serve: the driver, their errors, what holds them back, and how they are set up."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..diagnosis import FAIL, OK, UNKNOWN, WARN, Check, Part, check, together
from ..gpus.gpu import GpuState
from ..gpus.owners import IDLE_MIB, Owners

# What ``gpu.query`` does not ask for; a driver that lacks some of it is asked for the rest.
FIELDS = (
    "power.default_limit",
    "temperature.gpu.tlimit",
    "ecc.errors.uncorrected.aggregate.total",
    "remapped_rows.pending",
    "remapped_rows.failure",
    "gpu_recovery_action",
    "compute_mode",
    "fabric.state",
    "fabric.status",
)
_HOT_C = 85
_NEAR_C = 5
_SLOW = 0.7
_STOPPING = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
_SLOWING = ("sw_thermal_slowdown", "applications_clocks_setting", "sync_boost")
_SETUP = "nvidia-smi -pm 1, or the service nvidia-persistenced"
_REMEDIES = (
    (r"version mismatch", "the library was updated under a running kernel module: reboot the host"),
    (
        r"device handle|GPU is lost|fallen off|requires? reset|Unknown Error",
        "the GPU named by its bus id does not answer: reboot; if it comes back so, reseat or replace it",
    ),
    (r"couldn't communicate|No devices", "see that the kernel module fits this kernel: dkms status, lspci"),
    (r"Insufficient Permissions", "give this user access to /dev/nvidia*"),
)


class Look(NamedTuple):
    """One GPU as it was looked at.

    Args:
        gpu: ``Gpu.to_wire()``, under load where it was sampled then.
        more: The driver's words for ``FIELDS``.
        load: ``idle``; ``busy``: it happened to work; ``under load``: sampled while a server decoded.
    """

    gpu: Mapping[str, Any]
    more: Mapping[str, str]
    load: str


def looks(
    state: GpuState, more: Mapping[int, Mapping[str, str]], sampled: Sequence[Mapping[str, Any]]
) -> List[Look]:
    """Every GPU that answered.

    Args:
        more: Of ``gpu.details``.
        sampled: GPUs as a sampler saw them while a server decoded; empty: none did.
    """
    under_load = {one["index"]: one for one in sampled if _works(one)}
    found = []
    for one in state.gpus:
        wire = one.to_wire()
        load = "under load" if one.index in under_load else "busy" if _works(wire) else "idle"
        found.append(Look(under_load.get(one.index, wire), more.get(one.index, {}), load))
    return found


def _works(gpu: Mapping[str, Any]) -> bool:
    """Whether it computes: a server that decodes may well show 0 % of utilisation, but its clocks are up."""
    if gpu["throttle"]:
        return "gpu_idle" not in gpu["throttle"]["reasons"]
    return bool(gpu["utilization"])


def driver(state: GpuState, wanted: bool) -> Check:
    """Whether the driver answers for every GPU.

    Args:
        wanted: Whether a profile of this host wants GPUs.
    """
    if state.state == "none":
        remedy = "install the driver, or put nvidia-smi on the PATH"
        return check("driver", FAIL if wanted else OK, f"no GPU: {state.why}", remedy)
    if state.state != "ok":
        known = (remedy for sign, remedy in _REMEDIES if re.search(sign, state.why, re.IGNORECASE))
        return check("driver", FAIL, state.why, next(known, "look at nvidia-smi and dmesg on the host"))
    names = ", ".join(sorted({gpu.name or "a GPU without a name" for gpu in state.gpus}))
    told = f"{state.gpus[0].driver or 'of unknown version'}, {len(state.gpus)} × {names}"
    if state.why:
        return check("driver", WARN, f"{told}; {state.why}", "look that warning up before it grows")
    return check("driver", OK, told)


def each(found: Sequence[Look]) -> List[Check]:
    """Every check that looks at one GPU at a time; none where no GPU answered."""
    return [
        together(name, [Part(int(look.gpu["index"]), *judge(look)) for look in found])
        for name, judge in _JUDGES.items()
        if found
    ]


# (state, evidence) or (state, evidence, remedy)
_Verdict = Tuple[str, ...]


def _ecc(look: Look) -> _Verdict:
    volatile, ever = look.gpu["ecc_uncorrected"], look.more.get("ecc.errors.uncorrected.aggregate.total", "")
    pending, failed = (_yes(look.more.get(f"remapped_rows.{name}", "")) for name in ("pending", "failure"))
    action = look.more.get("gpu_recovery_action", "None")
    if failed:
        return FAIL, "a row could not be remapped", "replace the GPU"
    if action != "None":
        return FAIL, f"the driver asks for: {action}", f"do that ({action.lower()}), then look again"
    if volatile:
        return FAIL, f"{volatile} uncorrected errors since the driver was loaded", "reset the GPU or reboot"
    if pending:
        return WARN, "a remapped row waits for a reset", "reset the GPU when nothing runs: nvidia-smi -r"
    if volatile is None:
        return UNKNOWN, "not told", "it may be switched off: nvidia-smi -q -d ECC"
    return OK, "no uncorrected error" + (f" ({ever} in its life)" if ever not in ("", "0") else "")


def _throttle(look: Look) -> _Verdict:
    if not look.gpu["throttle"]:
        return UNKNOWN, "not told"
    reasons = look.gpu["throttle"]["reasons"]
    stopping = [reason for reason in reasons if reason in _STOPPING]
    slowing = [reason for reason in reasons if reason in _SLOWING]
    if stopping:
        return FAIL, ", ".join(stopping), "see to cooling and to the power supply"
    if slowing:
        return WARN, ", ".join(slowing), "set clocks back (nvidia-smi -rac, -rgc); see to cooling"
    told = ", ".join(reason for reason in reasons if reason != "gpu_idle")
    return OK, f"{look.load}, {told or 'none'}"


def _temperature(look: Look) -> _Verdict:
    degrees, left = look.gpu["temperature_c"], _whole(look.more.get("temperature.gpu.tlimit", ""))
    if degrees is None and left is None:
        return UNKNOWN, "not told"
    told = (f"{degrees} °C" if degrees is not None else "") + (
        f", {left} °C below its limit" if left is not None else ""
    )
    if left is not None and left <= 0:
        return FAIL, told.strip(", "), "see to cooling: it is slowed down by heat"
    if (left is not None and left < _NEAR_C) or (left is None and (degrees or 0) >= _HOT_C):
        return WARN, told.strip(", "), "see to cooling"
    return OK, f"at most {_tens(degrees)} °C" if degrees is not None else told.strip(", ")


def _power(look: Look) -> _Verdict:
    limit, usual = look.gpu["power_limit_w"], _real(look.more.get("power.default_limit", ""))
    if limit is None or usual is None:
        return UNKNOWN, "not told"
    if limit < usual:
        return WARN, f"capped at {limit:g} W of {usual:g} W", f"nvidia-smi -pl {usual:g}"
    return OK, f"{limit:g} W"


def _link(look: Look) -> _Verdict:
    now, most = ((look.gpu[f"pcie_gen{m}"], look.gpu[f"pcie_width{m}"]) for m in ("", "_max"))
    if None in (*now, *most):
        return UNKNOWN, "not told"
    told = f"Gen{now[0]} x{now[1]}"
    if now[0] >= most[0] and now[1] >= most[1]:
        return OK, told
    told += f" of Gen{most[0]} x{most[1]}"
    if look.load == "idle":
        return UNKNOWN, f"{told}: idle, not judged", "measure it: inv doctor --load, with a server running"
    remedy = "reseat the GPU or its riser; see the BIOS for the slot's speed and power saving (ASPM)"
    return (FAIL if look.load == "under load" else WARN), f"{told} {look.load}", remedy


def _clocks(look: Look) -> _Verdict:
    now, most = look.gpu["clock_sm_mhz"], look.gpu["clock_sm_max_mhz"]
    if not now or not most:
        return UNKNOWN, "not told"
    if look.load == "idle":
        return UNKNOWN, "idle, not judged", "measure them: inv doctor --load, with a server running"
    told = f"{now} of {most} MHz {look.load}"
    if now >= _SLOW * most:
        return OK, told
    reasons = ", ".join((look.gpu["throttle"] or {}).get("reasons") or ()) or "no reason told"
    return WARN, f"{told} ({reasons})", "see throttling, the power cap and locked clocks (nvidia-smi -rgc)"


def _persistence(look: Look) -> _Verdict:
    on = look.gpu["persistence"]
    if on is None:
        return UNKNOWN, "not told"
    return (OK, "on") if on else (WARN, "off: the driver is set up anew for every start", _SETUP)


def _mig(look: Look) -> _Verdict:
    on = look.gpu["mig"]
    if on:
        return WARN, "on: a profile's GPUs are whole ones", "nvidia-smi -mig 0, if nobody uses its parts"
    return OK, "off" if on is False else "not there"


def _mode(look: Look) -> _Verdict:
    mode = look.more.get("compute_mode", "")
    if mode == "Prohibited":
        return FAIL, "Prohibited: nothing may compute", "nvidia-smi -c DEFAULT"
    if "Exclusive" in mode:
        return WARN, f"{mode}: one process only", "nvidia-smi -c DEFAULT, where several processes share it"
    return (OK, mode) if mode else (UNKNOWN, "not told")


def _fabric(look: Look) -> _Verdict:
    state, status = look.more.get("fabric.state", ""), look.more.get("fabric.status", "")
    if not state or state == "Not Supported":
        return OK, "none"
    if state == "Completed" and status in ("", "Success"):
        return OK, state
    remedy = "CUDA cannot start (error 802): see the service nvidia-fabricmanager, of the driver's version"
    return FAIL, f"{state}" + (f", {status}" if status else ""), remedy


_JUDGES: Dict[str, Callable[[Look], _Verdict]] = {
    "ECC": _ecc,
    "throttling": _throttle,
    "temperature": _temperature,
    "power cap": _power,
    "PCIe link": _link,
    "clocks": _clocks,
    "persistence": _persistence,
    "MIG": _mig,
    "compute mode": _mode,
    "fabric": _fabric,
}


def memory(state: GpuState, owners: Owners) -> List[Check]:
    """Whether somebody can be named for all GPU memory in use; none where no GPU answered."""
    parts = []
    for gpu in state.gpus:
        used, users = gpu.memory_used_mib, owners.users.get(gpu.index, {})
        if gpu.index in owners.unknown:
            remedy = "its holder is outside this container, or a crashed context: look on the host itself"
            parts.append(Part(gpu.index, FAIL, owners.unknown[gpu.index], remedy))
        elif used is None:
            parts.append(Part(gpu.index, UNKNOWN, "memory in use is not told"))
        else:
            held = f"held by {len(users)} processes" if used > IDLE_MIB else "free"
            parts.append(Part(gpu.index, OK, held))
    return [together("GPU memory", parts)] if parts else []


def _whole(text: str) -> Optional[int]:
    digits = re.match(r"-?\d+", text)
    return int(digits.group()) if digits else None


def _real(text: str) -> Optional[float]:
    digits = re.match(r"\d+(\.\d+)?", text)
    return float(digits.group()) if digits else None


def _yes(text: str) -> bool:
    return text.lower() in ("yes", "1")


def _tens(degrees: int) -> int:
    """Rounded up, so that equal GPUs are told once."""
    return -(-degrees // 10) * 10
