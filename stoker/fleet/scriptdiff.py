"""``--diff`` of what launches a server: its script as it is to be, against the one that lies on the host."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.fleet import daily
from stoker.fleet.job import Job, Outcome, Verb

if TYPE_CHECKING:
    from stoker.plan import LaunchPlan

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def with_diff(verb: Verb, job: Job, plans: Sequence[LaunchPlan]) -> list[Outcome]:
    """Do a verb on a host; where it launches, what changes in the scripts is told before the rest.

    Raises:
        StokerError: As its work.
    """
    if not (verb.changes and verb.wants_secrets and verb.runs == "server"):
        return verb.on(job, plans)
    there = daily.SCRIPT.on(replace(job, check=False), ())[0].data["scripts"]
    lines = tuple(line for plan in plans for line in _lines(str(there.get(plan.slot, "")), plan))
    first, *others = verb.on(job, plans)
    return [replace(first, lines=(*lines, *first.lines)), *others]


def _lines(there: str, plan: LaunchPlan) -> Iterator[tuple[str, str]]:
    """What changes in one script."""
    names = (f"{plan.slot} (there)", f"{plan.slot} (here)")
    for line in difflib.unified_diff(there.splitlines(), plan.script.splitlines(), *names, lineterm=""):
        yield line, _STYLES.get(line[:1], "")
