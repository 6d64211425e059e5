"""Would the system let a server live and be seen: logins, limits, ptrace, IOMMU, MPS, the kernel's log.

Every check takes ``root``, under which /proc, /sys and /etc are.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import time
from typing import Dict, List, Mapping, Optional

from ..diagnosis import FAIL, OK, UNKNOWN, WARN, Check, check
from ..processes.descriptors import read_file
from ..processes.procs import Snapshot
from .doctorhost import field, number, text

_FEW_FILES = 4096
_CAP_SYS_PTRACE = 19
_UNLIMITED = 1 << 60
_FILE_LIMIT = 1 << 20
_UNITS = ".config/systemd/user/stoker-*.service"
_READ_ALL = 3  # of syslog(2): the whole buffer, and nothing is taken out of it
_LOG_BYTES = 1 << 22
_RECENT_S = 86400.0
# An application's own fault, or what the driver tidied up; the others are the hardware's or its own.
_MILD_XIDS = frozenset((8, 13, 31, 32, 43, 45, 63, 68, 92, 94, 137, 154))
_MPS = frozenset(("nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-cuda-mps"))


def xids(log: Optional[str], uptime_s: float) -> Check:
    """Errors of the GPUs that the kernel logged.

    Args:
        log: The kernel's log; None: it may not be read.
        uptime_s: Now, on the clock of the log.
    """
    if log is None:
        remedy = "look as root: dmesg | grep Xid"
        return check("Xid errors", UNKNOWN, "the kernel's log may not be read", remedy)
    told: Dict[str, float] = {}
    state = OK
    for hit in re.finditer(r"\[\s*(\d+\.\d+)\].*?NVRM: Xid \(PCI:([\w:.]+)\): (\d+)(?:, (.*))?", log):
        age = max(0.0, uptime_s - float(hit.group(1)))
        mild = int(hit.group(3)) in _MILD_XIDS or age > _RECENT_S
        state = FAIL if not mild else state if state == FAIL else WARN
        told[f"Xid {hit.group(3)} on {hit.group(2)}: {(hit.group(4) or '')[-90:]}"] = age
    lines = [f"{what}, {_ago(age)} ago" for what, age in sorted(told.items(), key=lambda item: item[1])]
    remedy = "look the number up in NVIDIA's Xid catalogue; reset the GPU or reboot where it says so"
    return check("Xid errors", state, "; ".join(lines[:4]) or "none in the kernel's log", remedy)


def kernel_log() -> Optional[str]:
    """The kernel's log as far as it is kept; None where we may not read it. Nothing is taken out of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(_LOG_BYTES)
    try:
        size = libc.klogctl(_READ_ALL, buffer, _LOG_BYTES)
    except AttributeError:  # musl has it too; a libc without it tells nothing
        return None
    return None if size < 0 else buffer.raw[:size].decode("utf-8", "replace")


def uptime_s() -> float:
    """Now, on the clock of the kernel's log."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def mps(snapshot: Snapshot) -> Check:
    """Whether a CUDA MPS server shares the GPUs: a client that is killed can take others with it."""
    found = [p for p in snapshot.living() if {p.comm, os.path.basename(p.exe)} & _MPS]
    told = ", ".join(f"{process.comm} (process {process.pid})" for process in found[:4])
    remedy = "stop it where servers have GPUs of their own: echo quit | nvidia-cuda-mps-control"
    return check("CUDA MPS", WARN, f"{told} runs", remedy) if found else check("CUDA MPS", OK, "none")


def _ago(seconds: float) -> str:
    for size, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.0f} s"


def ptrace(root: str = "/") -> Check:
    """Whether a running server's environment can be read from its memory, which proves its tuning."""
    scope = text(root, "proc/sys/kernel/yama/ptrace_scope").strip()
    may = bool(int(field(text(root, "proc/self/status"), "CapEff") or "0", 16) >> _CAP_SYS_PTRACE & 1)
    told = f"ptrace_scope {scope}" if scope else "no restriction"
    if scope in ("", "0") or (scope in ("1", "2") and may):
        return check("proof", OK, told)
    what = f"{told}: the tuning of a running server cannot be proved"
    return check("proof", WARN, what, "log in as root, or sysctl kernel.yama.ptrace_scope=0")


def limits(servers: Mapping[str, int], root: str = "/") -> Check:
    """Limits of the servers that run, else of this login: locked memory, open files.

    Args:
        servers: Slot (or engine) to its launcher's pid.
    """
    rdma = bool(glob.glob(os.path.join(root, "dev/infiniband/uverbs*")))
    found = servers or {"this login": 0}
    bad, told = [], []
    for who, pid in found.items():
        of = _limits(text(root, f"proc/{pid or 'self'}/limits"))
        locked, files = of.get("Max locked memory"), of.get("Max open files")
        if locked is None or files is None:
            continue
        told.append(f"{who}: memlock {_size(locked)}, {files} open files")
        if rdma and locked < _UNLIMITED:
            bad.append(f"{who}: memlock {_size(locked)}, and RDMA locks memory")
        if files < _FEW_FILES:
            bad.append(f"{who}: {files} open files")
    if not told:
        return check("limits", UNKNOWN, "/proc/PID/limits cannot be read")
    remedy = "raise them where the login or the unit starts (limits.conf, ulimit in the profile's setup)"
    return check("limits", WARN if bad else OK, "; ".join(bad or told), remedy)


def logins(user: str, uid: int, root: str = "/") -> Check:
    """Whether the end of a login would end the servers that it started."""
    cgroup = text(root, "proc/self/cgroup")
    if "slurm" in cgroup:
        remedy = "start it as that job, or persist it as a system's unit"
        return check("logins", WARN, "this login belongs to a Slurm job, whose end ends the server", remedy)
    if not os.path.isdir(os.path.join(root, "run/systemd/system")):
        return check("logins", OK, "no systemd: nothing ends what a login left")
    linger = os.path.exists(os.path.join(root, "var/lib/systemd/linger", user))
    told = "lingers" if linger else "does not linger"
    kills = _logind(root, "KillUserProcesses").lower() in ("yes", "true", "on", "1")
    spared = user in (_logind(root, "KillExcludeUsers") or "root").split()
    only = _logind(root, "KillOnlyUsers").split()
    if kills and not spared and (not only or user in only):
        remedy = "inv persist gives it a unit of its own; or KillUserProcesses=no in logind.conf"
        return check("logins", FAIL, f"KillUserProcesses=yes ends {user}'s servers at logout", remedy)
    needs = uid != 0 and not linger and glob.glob(os.path.join(_home_of(root, user), _UNITS))
    if needs:
        what = f"{user} {told}: its own units start at its first login only, and end with its last"
        return check("logins", WARN, what, f"loginctl enable-linger {user}")
    return check(
        "logins", OK, f"KillUserProcesses={'yes, not for ' + user if kills else 'no'}; {user} {told}"
    )


def iommu(p2p_level: str, root: str = "/") -> Check:
    """Whether an IOMMU or ACS stands between GPUs that shall write into each other's memory.

    Args:
        p2p_level: ``NCCL_P2P_LEVEL`` of the profile; empty: none sets it.
    """
    forced = p2p_level in ("SYS", "PHB", "PXB", "4", "5", "3")
    translated = [
        group
        for group in glob.glob(os.path.join(root, "sys/kernel/iommu_groups/*"))
        if _holds_gpu(group) and text(group, "type").strip() not in ("identity", "")
    ]
    redirecting = _acs(root)
    signs = ([f"the IOMMU translates for {len(translated)} GPU groups"] if translated else []) + (
        [f"ACS redirects at {', '.join(redirecting[:3])}"] if redirecting else []
    )
    if not signs:
        return check("IOMMU and ACS", OK, "neither is seen (in a virtual machine, ask for the host's)")
    told = "; ".join(signs) + (
        f"; NCCL_P2P_LEVEL={p2p_level} makes NCCL use P2P all the same" if forced else ""
    )
    remedy = "P2P may hang or be slow: iommu=pt or off, and ACS off (NCCL's troubleshooting guide)"
    return check("IOMMU and ACS", WARN if forced else OK, told, remedy)


def _limits(content: str) -> Dict[str, int]:
    """Soft limits by name, as /proc/PID/limits has them."""
    found = {}
    for line in content.splitlines():
        row = re.match(r"(Max [a-z ]+?)\s{2,}(\S+)\s+(\S+)", line)
        if row:
            found[row.group(1)] = _UNLIMITED if row.group(2) == "unlimited" else number(row.group(2))
    return found


def _size(value: int) -> str:
    return "unlimited" if value >= _UNLIMITED else f"{value >> 10} KiB"


def _logind(root: str, name: str) -> str:
    """A setting of logind.conf: the last drop-in by name wins; a folder of /etc hides the others' file."""
    found = ""
    files: Dict[str, str] = {}
    for folder in ("usr/lib/systemd", "run/systemd", "etc/systemd"):
        for path in glob.glob(os.path.join(root, folder, "logind.conf.d/*.conf")):
            files[os.path.basename(path)] = path
    for path in [os.path.join(root, "etc/systemd/logind.conf"), *(files[key] for key in sorted(files))]:
        content = read_file(path, _FILE_LIMIT).decode("utf-8", "replace")
        for hit in re.finditer(rf"^\s*{name}\s*=\s*(.*?)\s*$", content, re.MULTILINE):
            found = hit.group(1)
    return found


def _home_of(root: str, user: str) -> str:
    row = re.search(
        rf"^{re.escape(user)}:(?:[^:\n]*:){{4}}([^:\n]*):", text(root, "etc/passwd"), re.MULTILINE
    )
    return os.path.join(root, row.group(1).strip("/")) if row else os.path.join(root, "nowhere")


def _holds_gpu(group: str) -> bool:
    devices = glob.glob(os.path.join(group, "devices/*"))
    return any(text(d, "vendor").strip() == "0x10de" and text(d, "class").startswith("0x03") for d in devices)


def _acs(root: str) -> List[str]:
    """Bridges whose ACS sends traffic between devices up to the root (seen by root only)."""
    found = []
    for path in sorted(glob.glob(os.path.join(root, "sys/bus/pci/devices/*"))):
        if text(path, "class").startswith("0x0604") and _redirects(
            read_file(os.path.join(path, "config"), 4096)
        ):
            found.append(os.path.basename(path))
    return found


def _redirects(config: bytes) -> bool:
    """Whether the ACS control register of a PCIe configuration space redirects requests or completions."""
    at, seen = 0x100, 0
    while 0x100 <= at <= len(config) - 8 and seen < 64:
        header = int.from_bytes(config[at : at + 4], "little")
        if header & 0xFFFF == 0x000D:
            return bool(int.from_bytes(config[at + 6 : at + 8], "little") & 0x000C)
        at, seen = header >> 20, seen + 1
    return False
