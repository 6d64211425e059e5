"""Which GPUs a server holds, and who else is on them."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..context import Context
from ..gpus import owners
from ..gpus.gpu import GpuState
from ..killing.describe import process
from ..killing.scope import Finding
from ..processes import procs
from ..starting.subject import Subject


def gpus_of(ctx: Context, found: Subject, state: GpuState) -> Tuple[List[Dict[str, Any]], List[str]]:
    """The GPUs that a server holds: those its processes hold, else those it was launched on."""
    if state.state == "none":
        return [], []
    if not state.gpus:
        return [], ["GPUs: %s" % state.why]
    seen = found.seen
    users = owners.find(seen, procs.holders(seen), state, ctx.facts).users
    pids = {member.pid for member in found.members}
    held = {index for index, by_pid in users.items() if pids & set(by_pid)}
    missing: List[str] = []
    if not held and found.launch:
        wanted, absent = owners.resolve(found.launch.get("gpus") or (), state)
        held = {one.index for one in wanted}
        missing = ["GPU %s: it is not there" % name for name in absent]
    why = ["GPUs: %s" % state.why] if state.state != "ok" else []
    return [one.to_wire() for one in state.gpus if one.index in held], why + missing


def loaded(used: List[Dict[str, Any]], under_load: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """Each GPU as it was under load, where it was sampled then."""
    sampled = {one["index"]: dict(one) for one in under_load}
    return [sampled.get(one["index"], one) for one in used]


def strangers(ctx: Context, found: Subject, state: GpuState) -> List[Dict[str, Any]]:
    """Processes of others on the server's GPUs, as *process*; where nobody here is seen, only why."""
    used, _ = gpus_of(ctx, found, state)
    if not used:
        return []
    seen = procs.snapshot(ctx.facts)
    owned = owners.find(seen, procs.holders(seen), state, ctx.facts)
    ours = {member.pid for member in found.members} | {p.pid for p in seen.descendants(found.launcher.pid)}
    indices = {one["index"] for one in used}
    others = sorted({pid for index in indices for pid in owned.users.get(index, {})} - ours - {os.getpid()})
    told = [
        Finding(seen.by_pid[pid], "uses the same GPU", owned.gpus_of(pid), (), owned.mib_of(pid))
        for pid in others
        if pid in seen.by_pid
    ]
    told += [Finding(None, why, (index,)) for index, why in owned.unknown.items() if index in indices]
    return [process(one) for one in told]
