"""Is the host fit to serve: Python, memory, disk, NCCL's own files, leftovers; out of /proc, /sys, /etc.

Every check takes ``root``, under which those folders are.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, Iterable, Iterator, Mapping, Sequence, Tuple

from ..diagnosis import FAIL, OK, UNKNOWN, WARN, Check, check, worst
from ..processes.descriptors import read_file

_FILE_LIMIT = 1 << 20
_LOW_MEMORY_MIB = 4096
_LOW_DISK_MIB = 2048
_NO_DISK_MIB = 64
_SHM_MIB = 1024
_SHM_MIB_PER_GPU = 4
_SWAPPED_MIB = 1024
_UNLIMITED = 1 << 60
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
_V2 = ("memory.max", "memory.current")


def python() -> Check:
    """The Python that runs this, and whether it can supervise a server."""
    told = f"{sys.version.split()[0]}, {sys.executable or 'of unknown path'}"
    try:
        import ctypes
    except ImportError as error:
        return check("Python", FAIL, f"{told}: no ctypes ({error})", "install a whole Python 3.8 or newer")
    return check("Python", OK, told if ctypes else "")


def memory(root: str = "/") -> Check:
    """Memory that is free for a server, and what is swapped out."""
    known = _meminfo(root)
    free, total = known.get("MemAvailable"), known.get("MemTotal")
    if free is None or total is None:
        return check("memory", UNKNOWN, "/proc/meminfo does not tell")
    told = f"{free} of {total} MiB available"
    if free < min(_LOW_MEMORY_MIB, total // 10):
        return check("memory", WARN, told, "see what uses it: inv status, ps aux --sort=-rss")
    return check("memory", OK, told)


def swap(pids: Iterable[int], root: str = "/") -> Check:
    """Whether a server was swapped out, or the host swaps much.

    Args:
        pids: Processes of the servers that run.
    """
    known = _meminfo(root)
    used = known.get("SwapTotal", 0) - known.get("SwapFree", 0)
    out = {pid: _kib(text(root, f"proc/{pid}/status"), "VmSwap") >> 10 for pid in pids}
    servers = [f"process {pid} {mib} MiB" for pid, mib in sorted(out.items()) if mib]
    told = f"{used} of {known.get('SwapTotal', 0)} MiB used"
    if servers:
        remedy = "free memory, then restart the server; a host that serves wants no swap (swapoff -a)"
        return check("swap", WARN, f"{told}; swapped out: {', '.join(servers[:4])}", remedy)
    state = WARN if used > _SWAPPED_MIB else OK
    return check("swap", state, told if known.get("SwapTotal") else "none", "see what uses the memory")


def cgroup_memory(pids: Sequence[int], root: str = "/") -> Check:
    """The memory limit of the group that we, or a server, live in, and whether it has killed there.

    Args:
        pids: Launchers of the servers that run; empty: what a new one would get, which is what we have.
    """
    total = _meminfo(root).get("MemTotal", 0)
    found = [(f"process {pid}", *_limit(root, str(pid))) for pid in pids] or [("here", *_limit(root, "self"))]
    bounded = [(who, limit, used, kills) for who, limit, used, kills in found if limit and limit < total]
    kills = sum(one[3] for one in found)
    told = "; ".join(f"{who}: {used} of {limit} MiB" for who, limit, used, _ in bounded) or "no limit"
    if kills:
        return check("memory limit", WARN, f"{told}; {kills} processes were killed for it", "raise it")
    tight = any(limit - used < min(_LOW_MEMORY_MIB, limit // 10) for _, limit, used, _ in bounded)
    return check("memory limit", WARN if tight else OK, told, "raise the container's or the unit's limit")


def disk(folders: Mapping[str, str]) -> Check:
    """Room where things are written.

    Args:
        folders: What it is for, to its path.
    """
    told, states = [], []
    for what, path in folders.items():
        folder = path
        while not os.path.isdir(folder) and folder != "/":
            folder = os.path.dirname(folder)
        space = os.statvfs(folder)
        free = space.f_bavail * space.f_frsize >> 20
        bad = [f"{free} MiB free"]
        bad += ["mounted read-only"] if space.f_flag & os.ST_RDONLY and what == "home" else []
        bad += ["no inodes left"] if space.f_files and not space.f_favail else []
        told.append(f"{what} {path}: {', '.join(bad)}")
        states.append(FAIL if len(bad) > 1 or free < _NO_DISK_MIB else WARN if free < _LOW_DISK_MIB else OK)
    return check("disk", worst(states), "; ".join(told), "free some: logs, old models, core files")


def shm(folder: str, gpus: int) -> Check:
    """Shared memory: NCCL and the engines' workers talk through it.

    Args:
        folder: Usually ``/dev/shm``.
        gpus: Of the largest server meant for this host.
    """
    remedy = "mount it larger: docker run --shm-size=16g, or mount -o remount,size=16G /dev/shm"
    if not os.path.isdir(folder):
        return check("shared memory", FAIL if gpus > 1 else WARN, f"{folder} does not exist", remedy)
    space = os.statvfs(folder)
    size, free = (blocks * space.f_frsize >> 20 for blocks in (space.f_blocks, space.f_bavail))
    told = f"{folder}: {free} of {size} MiB free"
    if free < max(1, _SHM_MIB_PER_GPU * gpus):
        return check("shared memory", FAIL, told, remedy)
    return check("shared memory", WARN if size < _SHM_MIB and gpus > 1 else OK, told, remedy)


def nccl_files(home: str, named: Sequence[str], root: str = "/") -> Check:
    """NCCL settings that no profile holds: NCCL's own files.

    Args:
        home: The account's home.
        named: What profiles give as ``NCCL_CONF_FILE``; it replaces the home's.
    """
    paths = [*(named or [os.path.join(home, ".nccl.conf")]), os.path.join(root, "etc/nccl.conf")]
    told, broken = [], []
    for path in paths:
        lines = read_file(path, _FILE_LIMIT).decode("utf-8", "replace").splitlines()
        names = [line.split("=", 1)[0] for line in lines if line.strip() and not line.startswith("#")]
        told += [f"{path} sets {', '.join(names[:8])}"] if names else []
        broken += [f"{path}: {line!r:.60}" for line in lines if _is_broken(line)]
        if path in named and not os.path.exists(path):
            broken.append(f"{path} does not exist")
    if not told and not broken:
        return check("NCCL files", OK, "none sets anything")
    remedy = "move them into the profile, where they are reviewed, and remove the file"
    note = "; not understood by NCCL (spaces, quotes, export): " + ", ".join(broken[:3]) if broken else ""
    return check("NCCL files", WARN, "; ".join(told) + note, remedy)


def _is_broken(line: str) -> bool:
    """NCCL takes a line as it stands: neither blanks nor quotes nor ``export`` are understood."""
    if not line.strip() or line.startswith("#"):
        return False
    name, sign, value = line.partition("=")
    return not sign or not re.fullmatch(r"NCCL_\w+", name) or value != value.strip() or value[:1] in "\"'"


def servers_of(found: Iterable[Mapping[str, Any]]) -> Dict[str, int]:
    """Name to launcher of every server that lives, from ``status``."""
    return {
        str(one["slot"] or f"{one['engine']} (process {one['pid']})"): int(one["pid"])
        for one in found
        if one["alive"]
    }


def leftovers(servers: Sequence[Mapping[str, Any]], strays: Sequence[Mapping[str, Any]]) -> Check:
    """What dead servers left, and servers that nobody of ours started."""
    by_hand = [one for one in servers if one["launch"] is None]
    if strays:
        told = ", ".join(f"{one['pid']} ({one['reason']})" for one in strays[:4])
        return check("leftovers", WARN, f"{len(strays)} processes: {told}", "inv kill --host NAME")
    if by_hand:
        told = ", ".join(f"{one['engine']} (process {one['pid']}, port {one['port']})" for one in by_hand[:4])
        return check("leftovers", OK, f"started by hand: {told}")
    return check("leftovers", OK, "none")


def _meminfo(root: str) -> Dict[str, int]:
    """MiB by name."""
    rows = (line.split() for line in text(root, "proc/meminfo").splitlines())
    return {row[0].rstrip(":"): int(row[1]) >> 10 for row in rows if len(row) > 1 and row[1].isdigit()}


def _kib(content: str, name: str) -> int:
    value = field(content, name).split()
    return int(value[0]) if value and value[0].isdigit() else 0


def field(content: str, name: str) -> str:
    """What follows ``name:`` on a line of its own; empty where there is none."""
    found = re.search(rf"^{name}:\s*(.*)$", content, re.MULTILINE)
    return found.group(1).strip() if found else ""


def _limit(root: str, pid: str) -> Tuple[int, int, int]:
    """The tightest memory group above a process: limit and use in MiB (0: none), its own kills."""
    tightest = (0, 0)
    kills = 0
    for at, (folder, limit_name, used_name) in enumerate(_groups(root, pid)):
        limit, used = number(text(folder, limit_name)), number(text(folder, used_name))
        kills = _kills(folder) if at == 0 else kills
        if 0 < limit < _UNLIMITED and (not tightest[0] or limit >> 20 < tightest[0]):
            tightest = (limit >> 20, used >> 20)
    return (*tightest, kills)


def _groups(root: str, pid: str) -> Iterator[Tuple[str, str, str]]:
    """Folder and file names of every memory group above a process, its own first."""
    for line in text(root, f"proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2) if line.count(":") >= 2 else ("", "none", "/")
        if controllers and "memory" not in controllers.split(","):
            continue
        base = os.path.join(root, "sys/fs/cgroup", "memory" if controllers else "")
        while True:
            yield (os.path.join(base, path.strip("/")), *(_V1 if controllers else _V2))
            if path in ("", "/"):
                break
            path = os.path.dirname(path.rstrip("/"))


def _kills(folder: str) -> int:
    found = re.search(
        r"^oom_kill (\d+)", text(folder, "memory.events") or text(folder, "memory.oom_control"), re.M
    )
    return int(found.group(1)) if found else 0


def number(word: str) -> int:
    """0 where it is none."""
    return int(word) if word.strip().isdigit() else 0


def text(root: str, path: str) -> str:
    """A file below a root; empty where it cannot be read."""
    return read_file(os.path.join(root, path), _FILE_LIMIT).decode("utf-8", "replace")
