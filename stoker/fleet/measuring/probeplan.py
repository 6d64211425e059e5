"""What is launched on a host to measure without a server: its plan, with something else in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.benchmarks import allreduce
from stoker.config import names

if TYPE_CHECKING:
    from stoker.engines.base import Engine
    from stoker.fleet.job import Job
    from stoker.plan import LaunchPlan

_GRACE_S = 3.0


def plan_of(job: Job, plan: LaunchPlan, tool: str) -> LaunchPlan:
    """What is launched for a server's plan: its environment, and the probe in place of the server."""
    slot = plan.slot + names.PROBE
    command = ("{python}", "-c", allreduce.program(slot))
    return in_place(job, plan, slot, command, engine_of(plan.engine, tool))


def in_place(job: Job, plan: LaunchPlan, slot: str, command: tuple[str, ...], engine: Engine) -> LaunchPlan:
    """What is launched for a server's plan in a slot of its own: its environment, and another command.

    Args:
        job: Of the host.
        plan: The server's.
        slot: Of what is launched.
        command: As ``Instead`` takes it.
        engine: How its processes look on the host.
    """
    from stoker.config.profiles.profile import Profile
    from stoker.plan import Instead, KillPolicy, build

    instead = Instead(slot, command, engine, KillPolicy(plan.kill.protect, _GRACE_S))
    templates = [job.project.settings.path("profiles") / "templates"]
    profile = Profile.from_plain(dict(plan.resolved))
    return build(
        job.host, plan.profile, profile, secrets=job.project.secrets, templates=templates, instead=instead
    )


def engine_of(engine: Engine, tool: str = allreduce.TOOLS[0]) -> Engine:
    """How the probe of an engine's profile looks on the host.

    The ranks are its workers; what only a server has, or does to its variables, is left out.

    Args:
        engine: Of the profile.
        tool: ``torch`` or ``nccl-tests``, which needs no torch.
    """
    return replace(
        engine,
        shapes=(),
        titles=(),
        workers=(r".*probe\.py rank \d+ measure", r"(?:\S*/)?all_reduce_perf .*"),
        command=("{python}",),
        api_key_env="",
        import_name="torch" if tool == "torch" else "",
        stages=(),
        ready="",
        fatal=(),
        rewrites={},
        info_paths=(),
    )
