"""What several launches in turn need is held on the host from the first to the last."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from stoker.errors import StokerError

if TYPE_CHECKING:
    from stoker.fleet.job import Job
    from stoker.plan import LaunchPlan

# What of a plan says which locks it takes.
_CLAIMS = ("slot", "gpus", "bind", "port", "kill")


def reserve(job: Job, plan: LaunchPlan, what: str) -> None:
    """From now on what this plan's server uses is ours, whatever is done there in between.

    Args:
        job: Of the host.
        plan: Of the next launch.
        what: What it is for, for those who find it held.

    Raises:
        HostFailed: ``lock-held``: somebody else works there; nothing was touched.
    """
    claimed = {key: value for key, value in plan.to_wire().items() if key in _CLAIMS}
    asked = {"plan": claimed, "owner": job.project.owner, "what": what}
    job.session.call("reserve", asked, timeout_s=60)


def give_up(job: Job) -> None:
    """Others may work on the host again; the end of the connection does the same."""
    with suppress(StokerError):
        job.session.call("reserve", {"plan": None}, timeout_s=10)
