"""``--diff`` of what launches a server: its script as it is to be, against the one that lies on the host."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING

from stoker.fleet import daily
from stoker.fleet.job import Job, Outcome

if TYPE_CHECKING:
    from stoker.plan import LaunchPlan

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def with_diff(work: Callable[[Job], Outcome]) -> Callable[[Job], Outcome]:
    """What launches a server so that, where ``--diff`` is given, what changes in the script is told first.

    The outcome's data gets ``diff``: the lines of a unified diff, none where all is equal.
    """

    @wraps(work)
    def shown(job: Job) -> Outcome:
        if not job.args.get("diff") or job.plan is None:
            return work(job)
        there = daily.script(job).data["scripts"]
        changes = _changes(str(there.get(job.plan.slot, "")), job.plan)
        outcome = work(job)
        lines = ((line, _STYLES.get(line[:1], "")) for line in changes)
        return replace(outcome, data={**outcome.data, "diff": changes}, lines=(*lines, *outcome.lines))

    return shown


def _changes(there: str, plan: LaunchPlan) -> list[str]:
    """What changes in a script, in lines."""
    names = (f"{plan.slot} (there)", f"{plan.slot} (here)")
    return list(difflib.unified_diff(there.splitlines(), plan.script.splitlines(), *names, lineterm=""))
