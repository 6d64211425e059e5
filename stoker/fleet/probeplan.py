"""What is launched on a host for a probe of all-reduces: a server's plan with the probe in its place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.benchmarks import allreduce
from stoker.engines.base import Engine

if TYPE_CHECKING:
    from stoker.fleet.job import Job
    from stoker.plan import LaunchPlan

_GRACE_S = 3.0


def plan_of(job: Job, plan: LaunchPlan, tool: str) -> LaunchPlan:
    """What is launched for a server's plan: its environment, and the probe in place of the server."""
    from stoker.config.profile import Profile
    from stoker.plan import Instead, KillPolicy, build

    slot = f"{plan.slot}-probe"
    instead = Instead(
        slot, allreduce.program(slot), engine_of(plan.engine, tool), KillPolicy(plan.kill.protect, _GRACE_S)
    )
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
