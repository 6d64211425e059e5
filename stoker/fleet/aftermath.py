"""What a step that did not end well left on its host, and the way on from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, HostInterrupted, StokerError
from stoker.fleet.hostdata import reading
from stoker.fleet.servers import desired

if TYPE_CHECKING:  # a listing of the commands needs none of them
    from stoker.fleet.job import Job
    from stoker.plan import LaunchPlan

# The new server was left running: how to go on is in the failure itself.
_LEFT_RUNNING = ("hook", "not-in-force")


def alive(job: Job) -> list[dict[str, Any]]:
    """The servers that live on the host, ours and those started by hand, as its status tells them.

    Raises:
        HostError: Not reached, or its answer cannot be read.
    """
    params: dict[str, Any] = {"engines": job.project.engines, "slots": None, "plans": {}}
    data = job.session.call("status", params, timeout_s=60)
    with reading(job.host.name, "its status"):
        return [server for server in data["servers"] if server["alive"]]


def listed(servers: Sequence[dict[str, Any]]) -> str:
    """Servers in a few words: ``two (profile X), port 8000 (llamacpp, by hand)``; empty for none."""
    return ", ".join(
        f"{server['launch']['slot']} (profile {server['launch']['profile']})"
        if server.get("launch")
        else f"port {server.get('port')} ({server.get('engine')}, by hand)"
        for server in servers
    )


def others(job: Job, slot: str) -> str:
    """What lives on the host beside a slot; empty where nothing does, or the host does not tell."""
    try:
        return listed([server for server in alive(job) if server.get("slot") != slot])
    except StokerError:
        return ""  # it only adds to what is told already


def down(job: Job, slot: str, error: HostFailed) -> HostFailed:
    """A failure to find a server, told by what runs in its place.

    Args:
        job: Of the host.
        slot: The slot that was meant.
        error: What the host said.

    Returns:
        The same where the slot's server lives, or where it was no such failure.
    """
    if error.kind not in ("no-server", "died"):
        return error
    try:
        found = alive(job)
    except StokerError:
        return error
    if any(server.get("slot") == slot for server in found):
        return error
    if error.kind == "died":  # its log's end says more than we could
        return _adding(error, f"what runs: {listed(found)}") if found else error
    named = next((plan.profile for plan in (job.plan, *job.plans) if plan and plan.slot == slot), "")
    told = f" ({named}, which should run here)" if named in desired(job.host) else f" ({named})"
    ours = [server["launch"]["slot"] for server in found if server.get("launch")]
    hint = f"--slot {ours[0]} takes the one that runs" if ours else ""
    start = f"inv restart --host {job.host.name} --profile {named}" if named else ""
    return HostFailed(
        f"slot {slot}{told if named else ''} is down; "
        + (f"what runs: {listed(found)}" if found else "nothing runs here"),
        host=error.host,
        kind=error.kind,
        evidence=error.evidence,
        next_step="; ".join(step for step in (hint, start) if step),
        detail=error.detail,
    )


def of_launch(job: Job, plan: LaunchPlan, error: HostFailed) -> HostFailed:
    """A launch that failed or was interrupted, with what that left on the host.

    Args:
        job: Of the host.
        plan: What was launched.
        error: The failure; ``previous`` in its detail says that the old server is gone.
    """
    if error.kind == "cancelled":
        return _interrupted(plan, error)
    previous: Any = error.detail.get("previous")
    if not previous or error.detail.get("rollback") or error.kind in _LEFT_RUNNING:
        return error
    with reading(job.host.name, "what ran before"):
        name = str(previous["launch"]["profile"])
        way = _way_back(job, plan, previous["launch"])
    return _adding(error, f"the server that ran before ({name}) is gone", way)


def _adding(error: HostFailed, more: str, way: str = "") -> HostFailed:
    """The same failure, told with more."""
    return HostFailed(
        f"{error.what}; {more}",
        host=error.host,
        kind=error.kind,
        evidence=error.evidence,
        next_step="; ".join(step for step in (error.next_step, way) if step),
        detail=error.detail,
    )


def of_wait(job: Job, plan: LaunchPlan, error: HostFailed) -> HostFailed:
    """A wait that failed or was interrupted, with what runs on the host."""
    if error.kind != "cancelled":
        return down(job, plan.slot, error)
    return _interrupted(
        plan, HostFailed(error.what, host=error.host, kind=error.kind, detail={"previous": None})
    )


def of_bench(job: Job, error: HostFailed) -> HostFailed:
    """A benchmark that failed or was interrupted, with what runs on the host."""
    slot = job.plan.slot if job.plan else str(job.args.get("slot") or "")
    if error.kind != "cancelled":
        return down(job, slot, error) if slot else error
    server = f"the server of slot {slot}" if slot else "the server"
    return HostInterrupted(
        f"the measurement ended and nothing of it was kept; {server} runs on",
        host=error.host,
        kind=error.kind,
        next_step=f"inv wait --host {error.host} shows that it serves",
    )


def _interrupted(plan: LaunchPlan, error: HostFailed) -> HostInterrupted:
    """Where a launch was when Ctrl-C came: before the first signal, while it waited, or nobody knows."""
    host, told = error.host, f"the server of slot {plan.slot} ({plan.profile})"
    follow = f"inv wait --host {host} --profile {plan.profile}"
    if "previous" in error.detail:
        what, hint = f"{told} goes on loading on {host}", f"{follow} follows it"
    elif error.detail.get("unfinished"):
        what = f"{told} is still being replaced on {host}: what was begun is finished there"
        hint = f"inv status --host {host} shows what runs, {follow} follows it"
    else:
        what, hint = f"interrupted before anything was ended: {told} was not launched", ""
    return HostInterrupted(what, host=host, kind="cancelled", next_step=hint, detail=error.detail)


def _way_back(job: Job, plan: LaunchPlan, launch: dict[str, Any]) -> str:
    """How to start again what ran before; empty where the very same was tried."""
    name, was = str(launch["profile"]), str(launch.get("profile_hash") or "")
    if was == plan.profile_hash:
        return ""
    back = f"back to what ran before: inv restart --host {job.host.name} --profile "
    if _hash_today(job, name) == was:
        return f"{back}{name} (--rollback does that by itself)"
    for row in job.project.store.list(host=job.host.name, profile=name, last=20):
        if job.project.store.load(row.run_id).subject.profile_hash == was:
            return f"{back}run:{row.run_id} (--rollback does that by itself)"
    return f"{back}{name} (its file has changed since; --rollback puts back the very same)"


def _hash_today(job: Job, name: str) -> str:
    """The hash of a profile as the project's files say it; empty where they say none."""
    try:
        return job.project.plan(name, job.host, secrets=False).profile_hash
    except StokerError:
        return ""
