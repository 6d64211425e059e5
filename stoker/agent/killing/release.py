"""The proof that an ended server has let go: processes, port, GPU memory, shared memory."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Sequence, Set, Tuple

from ..context import Context
from ..gpus import gpu, owners
from ..gpus.owners import IDLE_MIB, Owners
from ..processes import procs
from ..processes.descriptors import listening, overlap, read_file
from ..processes.procs import Process, Snapshot

PORT_S = 60.0
# With large models others report minutes.
GPU_S = 180.0
_TICK_S = 0.02
_GPU_TICK_S = 0.25
_COMMON_PREFIXES = ("psm_", "sem.mp-", "nccl-")
# File times have the kernel's tick, start times ours.
_SLACK_S = 2.0


@dataclass(frozen=True)
class Ended:
    """What was ended.

    Args:
        keys: (pid, start) of every process.
        lives: From when to when (Unix time) each of their servers lived.
        gpus: Indices to be free again.
        before: Users and memory of the GPUs before the first signal.
        addresses: With ``port``: where nobody may listen any more.
        port: 0: none.
        shm_prefixes: Names of files the engines leave in shared memory.
    """

    keys: FrozenSet[Tuple[int, int]]
    lives: Tuple[Tuple[float, float], ...]
    gpus: Tuple[int, ...]
    before: Owners
    addresses: Tuple[str, ...]
    port: int
    shm_prefixes: Tuple[str, ...]


def port_free(ended: Ended, patience_s: float) -> bool:
    """Wait until nobody listens there; sockets close a moment after their process."""
    end = time.monotonic() + patience_s
    while ended.port and _listens(ended):
        if time.monotonic() > end:
            return False
        time.sleep(_TICK_S)
    return True


def _listens(ended: Ended) -> bool:
    rows = [row for table in ("tcp", "tcp6") for row in listening(table) if row[1] == ended.port]
    return any(overlap(row[0], address) for row in rows for address in ended.addresses)


def gpus_free(ctx: Context, ended: Ended, patience_s: float) -> List[Dict[str, Any]]:
    """Wait until the ended processes' GPU memory is back.

    Returns:
        ``{index, before_mib, after_mib, free}`` for each GPU.
    """
    end = time.monotonic() + patience_s
    while ended.gpus:
        now = _owners_now(ctx)
        report = [_one(ended, now, index) for index in ended.gpus]
        if all(one["free"] for one in report) or time.monotonic() > end:
            return report
        time.sleep(_GPU_TICK_S)
    return []


def _owners_now(ctx: Context) -> Owners:
    state = gpu.query(ctx.facts, ctx.login_env)
    snapshot = procs.snapshot(ctx.facts)
    return owners.find(snapshot, procs.holders(snapshot), state, ctx.facts)


def _one(ended: Ended, now: Owners, index: int) -> Dict[str, Any]:
    users = now.users.get(index, {})
    after = now.used_mib.get(index)
    dead = {pid for pid, _ in ended.keys}
    mine = [pid for pid in users if pid in dead]
    others = [mib for pid, mib in users.items() if pid not in dead]
    # What the driver does not count cannot be held against it.
    counted = after is None or None in others or after <= IDLE_MIB + sum(mib or 0 for mib in others)
    return {
        "index": index,
        "before_mib": ended.before.used_mib.get(index),
        "after_mib": after,
        "free": not mine and counted,
    }


def sweep_shm(ctx: Context, ended: Ended) -> List[str]:
    """Remove what a dead server left in shared memory, and nothing else.

    Only files of our user with a known prefix, written while that server lived, which no process has open or
    mapped.

    Returns:
        The paths that were removed.
    """
    candidates = _candidates(ctx.facts.shm_dir, ended)
    if not candidates:
        return []
    paths, inodes = _used(procs.snapshot(ctx.facts), ctx.facts.shm_dir)
    removed: List[str] = []
    for path, inode in candidates.items():
        if path not in paths and inode not in inodes:
            with contextlib.suppress(OSError):
                os.unlink(path)
                removed.append(path)
    return removed


def _candidates(folder: str, ended: Ended) -> Dict[str, int]:
    """Path to inode of what the dead servers may have left."""
    prefixes = tuple({*_COMMON_PREFIXES, *ended.shm_prefixes})
    found: Dict[str, int] = {}
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                state = os.lstat(path)
                if name.startswith(prefixes) and _is_from(state, ended.lives):
                    found[path] = state.st_ino
    return found


def _is_from(state: os.stat_result, lives: Iterable[Tuple[float, float]]) -> bool:
    if not stat.S_ISREG(state.st_mode) or state.st_uid != os.getuid():
        return False
    times = (state.st_ctime, state.st_mtime)
    return any(
        begin - _SLACK_S <= min(times) and max(times) <= end + _SLACK_S for begin, end in lives if begin < end
    )


def _used(snapshot: Snapshot, folder: str) -> Tuple[Set[str], Set[int]]:
    """Paths and inodes of the folder's files that any process has open or mapped.

    A semaphore gets its name by a link: whoever made it has it mapped under another name, which is deleted.
    The inode alone tells then; its device is left out, for an overlay shows another one.
    """
    prefix = folder.rstrip("/") + "/"
    paths: Set[str] = set()
    inodes: Set[int] = set()
    for process in snapshot.living():
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{process.pid}/fd"):
                with contextlib.suppress(OSError):
                    path = os.readlink(f"/proc/{process.pid}/fd/{name}")
                    if path.startswith(prefix):
                        paths.add(path)
                        inodes.add(os.stat(f"/proc/{process.pid}/fd/{name}").st_ino)
        maps = read_file(f"/proc/{process.pid}/maps")
        if prefix.encode() in maps:
            rows = [line.split(None, 5) for line in maps.decode("utf-8", "replace").splitlines()]
            mapped = [row for row in rows if row[-1].startswith(prefix)]
            paths.update(row[-1] for row in mapped)
            inodes.update(int(row[4]) for row in mapped)
    return paths, inodes


def life_of(processes: Sequence[Process], since: Optional[float] = None) -> Tuple[float, float]:
    """From when to when these processes lived, if they end now.

    Args:
        since: An earlier begin that is known, as Unix time.
    """
    now = time.time()
    begins = [now - process.age_s for process in processes] + ([since] if since else [])
    return min(begins, default=now), now
