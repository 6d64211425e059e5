"""Which server is meant: ``--profile``, else ``--slot``, else what should run there, else the only one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, InputError

if TYPE_CHECKING:  # a listing of the commands needs none of them
    from stoker.config.inventory import Host
    from stoker.fleet.job import Job
    from stoker.fleet.project import Project
    from stoker.plan import LaunchPlan


def desired(host: Host) -> tuple[str, ...]:
    """Names of the profiles that should run on a host: its variable ``stoker_profiles``.

    Raises:
        InputError: It is neither a name nor a list of names.
    """
    value = host.vars.get("stoker_profiles", ())
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(
            "stoker_profiles must be a list of profile names",
            where=host.source,
            next_step="write [nccl-tuned]",
        )
    return tuple(names)


def running(job: Job) -> LaunchPlan | None:
    """The plan of the only server of ours that runs on a host: asked of the host.

    Args:
        job: Its ``slot`` argument, where there is one, narrows the choice.

    Returns:
        None where none of ours runs.

    Raises:
        InputError: Several run: it names the choices.
    """
    slot = job.args.get("slot")
    params: dict[str, Any] = {"engines": job.project.engines, "slots": [slot] if slot else None, "plans": {}}
    servers = job.session.call("status", params, timeout_s=60)["servers"]
    launches = [server["launch"] for server in servers if server.get("alive") and server.get("launch")]
    if len(launches) > 1:
        names = ", ".join(f"{launch['slot']} ({launch['profile']})" for launch in launches)
        raise InputError(f"several servers run: {names}", where=job.host.name, next_step="add --slot NAME")
    return job.project.plan_again(launches[0], job.host) if launches else None


def must_run(job: Job) -> LaunchPlan:
    """The plan that is meant, else that of the only server of ours that runs.

    Raises:
        InputError: Several run: it names the choices.
        HostFailed: None runs.
    """
    plan = job.plan or running(job)
    if plan is None:
        slot = job.args.get("slot")
        raise HostFailed(
            f"nothing of ours runs in slot {slot}" if slot else "nothing of ours runs there",
            host=job.host.name,
            kind="no-server",
            next_step=f"inv status --host {job.host.name} shows what runs there",
        )
    return plan


def plans(
    project: Project, host: Host, profiles: Sequence[str], slot: str | None, *, secrets: bool
) -> tuple[LaunchPlan, ...]:
    """The plans meant on one host, before anything is connected.

    Args:
        project: The project.
        host: The host.
        profiles: What ``--profile`` named; empty for what should run there.
        slot: What ``--slot`` named: of what should run there, only that slot.
        secrets: Whether the plans must hold their servers' secrets.

    Returns:
        At most one plan a slot. Empty where only the host can tell (nothing named, nothing desired).

    Raises:
        InputError: Two profiles for one slot, an unknown profile, or no desired profile of that slot.
    """
    found: dict[str, LaunchPlan] = {}
    for name in profiles or desired(host):
        plan = project.plan(name, host, secrets=secrets)
        if plan.slot in found:
            both = f"{found[plan.slot].profile} and {plan.profile}"
            raise InputError(
                f"two profiles for slot {plan.slot!r}: {both}", where=host.name, next_step="name one"
            )
        found[plan.slot] = plan
    if slot is None:
        return tuple(found.values())
    if slot not in found and profiles:
        raise InputError(
            f"no named profile uses slot {slot!r}", where=host.name, next_step="leave out --slot"
        )
    return tuple(plan for name, plan in found.items() if name == slot)
