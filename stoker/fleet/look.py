"""The verbs that look at a server without touching it: status and logs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stoker.errors import HostError, HostFailed, InputError, OneHostsInput
from stoker.fleet import aftermath
from stoker.fleet.flags import Flag, moment
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.life import PROFILE, SLOT
from stoker.fleet.servers import desired

if TYPE_CHECKING:
    from stoker.plan import LaunchPlan

WATCH_S = 2.0


def status(job: Job) -> Outcome:
    """What runs on the host, how it is, and whether it runs as its profile says; with --watch, until Ctrl-C.

    Each server of the data has what the host tells, and ``desired`` (the profile that should run in its
    slot), ``version`` (``current``, ``outdated``, ``unknown``: the project has no such profile for this host;
    ``by-hand``) and ``changes`` (variables that the project's version sets otherwise: name to ``[runs,
    says]``). ``missing`` are the profiles that should run and do not.
    """
    return _watch(job) if job.args.get("watch") else _look(job)


def _look(job: Job) -> Outcome:
    """One request to the host, whatever runs there."""
    names = desired(job.host)
    planned = (job.project.plan(name, job.host, secrets=False) for name in names)
    plans = {plan.slot: plan for plan in planned}
    params = {
        "engines": job.project.engines,
        "slots": [job.args["slot"]] if job.args["slot"] else None,
        "plans": {slot: plan.to_wire() for slot, plan in plans.items()},
    }
    data = job.session.call("status", params, timeout_s=60)
    with reading(job.host.name, "its status"):
        for server in data["servers"]:
            plan = plans.get(str(server.get("slot")))
            server["desired"] = plan.profile if plan else None
            server.update(_version(job, server, plan))
        alive = [server for server in data["servers"] if server["alive"]]
        running = {server["launch"]["profile"] for server in alive if server["launch"]}
    asked = [plan.profile for slot, plan in plans.items() if job.args["slot"] in (None, slot)]
    missing = [name for name in asked if name not in running]
    count = f"{len(alive)} {'server' if len(alive) == 1 else 'servers'} up"
    return Outcome(count, {**data, "desired": list(names), "missing": missing})


def _version(job: Job, server: Mapping[str, Any], plan: LaunchPlan | None) -> dict[str, Any]:
    """Whether the project's version of its profile is what runs."""
    launch = server.get("launch")
    if not launch:
        return {"version": "by-hand", "changes": {}}
    if plan is None or plan.profile != launch["profile"]:
        try:
            plan = job.project.plan(launch["profile"], job.host, secrets=False)
        except InputError:
            return {"version": "unknown", "changes": {}}
    if launch["profile_hash"] == plan.profile_hash:
        return {"version": "current", "changes": {}}
    runs = {n: v for n, v in ((launch.get("resolved") or {}).get("env") or {}).items() if isinstance(v, str)}
    names = [name for name in sorted({*runs, *plan.env}) if runs.get(name) != plan.env.get(name)]
    return {"version": "outdated", "changes": {name: [runs.get(name), plan.env.get(name)] for name in names}}


def _watch(job: Job) -> Outcome:
    """Look again and again, over one connection; a host that is lost is tried again.

    Each look is a ``status`` event with ``data``, or ``status`` and ``why`` where there is none. What is
    returned or raised in the end is what the last look saw.
    """
    outcome = Outcome("not seen")
    while True:
        failure: HostError | None = None
        try:
            outcome = _look(job)
            job.session.emit({"type": "status", "data": outcome.data})
        except HostError as error:
            if job.session.stop.is_set() and error.kind == "cancelled":
                return outcome
            failure = error
            job.session.close()
            word = "failed" if isinstance(error, HostFailed) else "unreachable"
            job.session.emit({"type": "status", "data": None, "status": word, "why": error.what})
        if job.session.stop.wait(float(job.args["watch"])):
            if failure is not None:
                raise failure
            return outcome


def logs(job: Job) -> Outcome:
    """The ends of servers' logs; --follow goes on until Ctrl-C, which leaves the servers alone.

    A follow that the user ends is done; the data then has no lines, for they were shown as they came.
    """
    slots = [plan.slot for plan in job.plans] or ([job.args["slot"]] if job.args["slot"] else None)
    launch_id, follow = job.args["launch"], job.args["follow"]
    if launch_id and slots and len(slots) > 1:
        raise InputError("--launch is of one slot", where=job.host.name, next_step="add --slot NAME")
    params = {
        "slots": slots,
        "launch_id": launch_id,
        "lines": job.args["lines"],
        "grep": job.args["grep"],
        "follow": follow,
        **_since(job.args["since"]),
    }
    if follow:
        job.session.doing = "following (Ctrl-C ends it)"
    try:
        data = job.session.call("logs", params)
    except HostFailed as error:
        if error.kind == "bad-request":
            raise OneHostsInput(error.what, where=job.host.name, next_step=error.next_step) from error
        if follow and error.kind == "cancelled" and job.session.stop.is_set():
            return Outcome("followed", {"logs": []})
        raise (aftermath.down(job, slots[0], error) if slots and len(slots) == 1 else error) from error
    with reading(job.host.name, "its logs"):
        found = [_told(log) for log in data["logs"]]
    return Outcome("; ".join(found), data)


def _since(text: str | None) -> dict[str, float]:
    """``--since`` for the host: an age counts by its clock, a moment by ours."""
    if text is None:
        return {}
    found = moment(text, "--since")
    return {"since_at": found.timestamp()} if isinstance(found, datetime) else {"since_s": found}


def _told(log: Mapping[str, Any]) -> str:
    """A log in one line: where it is, and what is to be known of its lines."""
    notes = [] if log["dated"] else ["it tells no times: its last lines are shown"]
    notes += [] if log["whole"] else ["more fits than can be shown"]
    return str(log["path"]) + (f" ({'; '.join(notes)})" if notes else "")


VERBS = (
    Verb(
        "status",
        (
            SLOT,
            Flag("watch", "Look again every so many seconds (2).", "number", alone=WATCH_S, in_book=False),
        ),
        status,
    ),
    Verb(
        "logs",
        (
            PROFILE,
            SLOT,
            Flag("lines", "How many lines, at most 20000 (50; with --since all).", "whole", least=1),
            Flag("follow", "Go on until Ctrl-C, also with the next launch.", "flag", in_book=False),
            Flag("grep", "Only lines in which this regular expression is found.", "regex"),
            Flag(
                "since",
                "Only lines since then, by their own times: 90s, 10m, 2h, 1d ago, or an ISO time.",
                "since",
            ),
            Flag("launch", "An earlier launch, by its id.", "name"),
        ),
        logs,
    ),
)
