"""What the host is, as ``status`` tells it: identity, age, load, and how much is left of what."""

from __future__ import annotations

import os
import platform
import socket
import time
from typing import Any, Dict, Optional

from ..context import Context
from ..killing import describe
from ..processes import procs


def take(ctx: Context) -> Dict[str, Any]:
    """The host in one object; sizes in MiB, null where the host does not tell."""
    facts = ctx.facts
    return {
        "hostname": socket.gethostname(),
        "user": describe.user(os.getuid()),
        "uid": os.getuid(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "boot_id": facts.boot_id,
        "init_start": facts.init_start,
        "simulated": facts.simulated,
        "uptime_s": round(time.clock_gettime(time.CLOCK_BOOTTIME), 1),
        "cpus": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "memory_mib": _memory("MemTotal"),
        "memory_free_mib": _memory("MemAvailable"),
        "disk_free_mib": _free(os.path.dirname(ctx.home)),
        "shm_free_mib": _free(facts.shm_dir),
    }


def _memory(name: str) -> Optional[int]:
    for line in procs.read_file("/proc/meminfo").decode("ascii", "replace").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) >> 10
    return None


def _free(folder: str) -> Optional[int]:
    try:
        space = os.statvfs(folder)
    except OSError:
        return None
    return int(space.f_bavail * space.f_frsize) >> 20
