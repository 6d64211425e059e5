"""What a benchmark would do, without doing it: which server, measured with what, how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.benchmarks import IN_PLACE
from stoker.fleet import servers
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome
from stoker.fleet.measuring import benchrun
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.plan import LaunchPlan


def planned(job: Job) -> Outcome:
    """What ``bench`` would measure on a host, as the host is now.

    The data has ``rows``, one for each server and load: ``profile``, ``slot``, ``bench``, ``size``, ``runs``,
    ``launches`` and ``now``, what of it runs.

    Raises:
        InputError: Nothing says which server is meant, or the benchmark cannot be asked for.
        HostFailed: The host failed.
    """
    if job.args["bench"] in IN_PLACE:
        named = [job.on(job.project.plan(name, job.host)) for name in benchrun.profiles(job)]
        found = [row for at in named for row in rows(at, at.plan, _now(at, servers.planned(at)))]
    elif job.plan is not None or job.args.get("port") is not None:
        found = rows(job, job.plan, _now(job, job.plan) if job.plan else "")
    else:
        plan = servers.running(job)
        found = rows(job, plan, "runs" if plan else "")
    lines = [(line(row), "") for row in found]
    missing = [(f"it would fail: {found[0]['now']} there", "yellow")] if _lacks(found[0]) else []
    if len(lines) == 1:
        return Outcome(f"would measure {lines[0][0]}", {"rows": found}, lines=tuple(missing))
    what = f"would make {counts(len(lines), 'measurement', 'measurements')}"
    return Outcome(what, {"rows": found}, lines=(*lines, *missing))


def _lacks(row: dict[str, Any]) -> bool:
    """Whether the server that would be measured is not the one that runs."""
    return row["bench"]["name"] not in IN_PLACE and row["now"] not in ("", "runs")


def rows(job: Job, plan: LaunchPlan | None, now: str) -> list[dict[str, Any]]:
    """A row for each load that a server would be measured under.

    Args:
        job: Of the host.
        plan: Of the server; None: nobody planned it.
        now: What of it runs.

    Raises:
        InputError: The benchmark cannot be asked for.
    """
    return [_row(job, plan, bench, now) for bench in benchrun.levels(job, plan)]


def line(row: dict[str, Any]) -> str:
    """A row for people: ``tuned in slot main: decode 5 × 500 tokens, concurrency 1``."""
    what = row["profile"] or "the server that runs there"
    where = f" in slot {row['slot']}" if row["slot"] else f" on port {row['port']}" if row["port"] else ""
    often = f", {row['launches']} launches" if row["launches"] > 1 else ""
    return f"{what}{where}: {row['title']}{often}"


def _row(job: Job, plan: LaunchPlan | None, bench: Bench, now: str) -> dict[str, Any]:
    return {
        "profile": plan.profile if plan else "",
        "slot": plan.slot if plan else job.args["slot"] or "",
        "port": plan.port if plan else job.args.get("port"),
        "bench": bench.to_wire(),
        "title": bench.title,
        "size": bench.size,
        "runs": bench.runs,
        "launches": job.args["launches"] or 1,
        "now": now,
    }


def _now(job: Job, plan: LaunchPlan) -> str:
    """What runs in a plan's slot: ``runs`` where it is this profile's server."""
    params: dict[str, Any] = {"engines": job.project.engines, "slots": [plan.slot], "plans": {}}
    data = job.session.call("status", params, timeout_s=60)
    with reading(job.host.name, "its status"):
        living = [
            one["launch"]["profile"] for one in data["servers"] if one.get("alive") and one.get("launch")
        ]
        there = str(living[0]) if living else ""
    return "runs" if there == plan.profile else f"{there} runs" if there else "nothing runs"
