"""Which server is meant: ``--profile``, else ``--slot``, else what should run there, else the only one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, InputError, OneHostsInput
from stoker.fleet.hostdata import reading

if TYPE_CHECKING:  # a listing of the commands needs none of them
    from stoker.config.inventories.inventory import Host
    from stoker.fleet.job import Job, Verb
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
    data = job.session.call("status", params, timeout_s=60)
    with reading(job.host.name, "its status"):
        launches = [one["launch"] for one in data["servers"] if one.get("alive") and one.get("launch")]
        names = ", ".join(f"{launch['slot']} ({launch['profile']})" for launch in launches)
    if len(launches) > 1:
        raise OneHostsInput(f"several servers run: {names}", where=job.host.name, next_step="add --slot NAME")
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


def slot(job: Job) -> str:
    """The slot that is meant: of the plan, else the one that is named, else of the only server that runs.

    Raises:
        InputError: Several run: it names the choices.
        HostFailed: None runs.
    """
    return job.plan.slot if job.plan else job.args["slot"] or must_run(job).slot


def planned(job: Job) -> LaunchPlan:
    """The plan that is meant.

    Raises:
        InputError: Nothing says which.
    """
    if job.plan is None:
        raise _unnamed(job.host)
    return job.plan


def meant(project: Project, verb: Verb, host: Host, args: Mapping[str, Any]) -> tuple[LaunchPlan, ...]:
    """The servers that a verb is meant for on a host, known before anything is connected.

    Args:
        project: The project.
        verb: The verb.
        host: The host.
        args: The verb's arguments, typed.

    Returns:
        At most one plan a slot. Empty for a verb without ``--profile``, for one that takes its profiles one
        after the other, and where only the host can tell.

    Raises:
        InputError: Two profiles for one slot, an unknown one; or a verb that launches and does not know what.
        ConfigError: The linter finds errors in what is to be launched or asked.
    """
    if "profile" not in args:
        return ()
    if args.get("port") is not None:
        if args["profile"] or args.get("slot"):
            raise InputError(
                "--port names a server of its own: leave --profile and --slot out", where=host.name
            )
        return ()
    if verb.each_profile:  # one after the other in one slot is what it is for
        each = [project.plan(name, host, secrets=verb.wants_secrets) for name in args["profile"]]
        project.gate.check(host, each, together=False)
        return ()
    found = plans(project, host, args["profile"], args.get("slot"), secrets=verb.wants_secrets)
    if verb.wants_secrets:  # what only ends a server must do so however wrong its profile is
        project.gate.check(host, found)
    # To launch takes a whole profile; what is only ended may be the one that runs, which the host knows.
    if verb.runs == "server" and verb.changes and verb.wants_secrets and not found:
        raise _unnamed(host)
    return found


def _unnamed(host: Host) -> InputError:
    hint = "name one: --profile NAME, in a playbook profile: NAME (inv profiles lists them)"
    return InputError(
        "no profile is named and the host has no stoker_profiles", where=host.name, next_step=hint
    )


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
