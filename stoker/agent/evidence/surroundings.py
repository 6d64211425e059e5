"""What stands around a server: wrappers, and the affinity, policy of memory and niceness it was given."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List

from ..killing import describe
from ..processes import recognise
from ..processes.procs import Process, Snapshot, read_file
from ..processes.recognise import invocation
from ..starting import proof

# Policies of memory that a program was started with; ``default`` is none.
_POLICY = re.compile(r"^\S+ (interleave|bind|prefer)[^:\s]*:([\d,-]+)", re.MULTILINE)
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)


def of(seen: Snapshot, launcher: Process) -> Dict[str, Any]:
    """What wraps a server: programs that stayed its parents, and what others that became it have left behind.

    Returns:
        ``wrap``: words before its command; ``cpus``: those that it is bound to, where that differs from ours;
        ``memory``: policy and nodes; ``nice``: how much nicer than we it is.
    """
    pid = launcher.pid
    cpus = _ALLOWED.search(read_file("/proc/%d/status" % pid).decode("utf-8", "replace"))
    own = _ALLOWED.search(read_file("/proc/self/status").decode("utf-8", "replace"))
    policy = _POLICY.search(read_file("/proc/%d/numa_maps" % pid, 1 << 16).decode("utf-8", "replace"))
    try:
        nice = os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0)
    except OSError:
        nice = 0
    narrowed = bool(cpus and own and cpus.group(1) != own.group(1))
    return {
        "wrap": _wrappers(seen, launcher),
        "cpus": cpus.group(1) if cpus and narrowed else "",
        "memory": list(policy.groups()) if policy else [],
        "nice": nice,
    }


def _wrappers(seen: Snapshot, launcher: Process) -> List[str]:
    """Words that stand before its command on the command lines of parents which run it and wait."""
    args = list(invocation(launcher.argv).args)
    first = {os.path.basename(word) for word in launcher.argv[:2]}
    wrap: List[str] = []
    for parent in seen.ancestors(launcher.pid):
        words = parent.argv
        runs_it = bool(args) and words[-len(args) :] == args
        if not runs_it or recognise.is_never(parent) or not proof.wraps(parent):
            break
        head = words[: -len(args)]
        at = next((i for i, word in enumerate(head) if i and os.path.basename(word) in first), 0)
        wrap = describe.command(head[:at]) if at and not wrap else wrap
    return wrap
