"""The verbs of a server's life: kill, start, stop, restart, wait, status, logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, InputError
from stoker.fleet.choose import desired, must_run
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb

if TYPE_CHECKING:
    from stoker.plan import LaunchPlan

PROFILE = Flag("profile", "Profile to use; run:RUN-ID is what that run had.", "list")
SLOT = Flag("slot", "Slot of the server on the host.")
FORCE = Flag("force", "End other holders of the GPUs and the port too; use a busy server.", "flag")


def restart(job: Job) -> Outcome:
    """Clean-kill what holds the slot, launch, wait until it is ready, and prove the tuning."""
    return _launch(job, replace=True)


def start(job: Job) -> Outcome:
    """Launch, wait and prove where nothing runs; done where the same profile runs already."""
    return _launch(job, replace=False)


def _launch(job: Job, *, replace: bool) -> Outcome:
    plan = _plan(job)
    params = {
        **_plan_params(job, plan),
        "force": job.args["force"],
        "check": job.check,
        "replace": replace,
        "keep_locks": not job.check,  # until the wait below is over
    }
    done = job.session.call("restart", params)
    if job.check:
        return _planned(plan, done)
    if done.get("already_running"):
        return Outcome(f"{plan.profile} runs already", data=done)
    ready = job.session.call("wait", {**_plan_params(job, plan), "launch_id": done["launch"]["launch_id"]})
    outcome = _ready(job, plan, ready)
    return Outcome(outcome.summary, {**done, **outcome.data}, changed=True, lines=outcome.lines)


def wait(job: Job) -> Outcome:
    """Wait until the server is really ready, and prove its tuning."""
    plan = must_run(job)
    return _ready(job, plan, job.session.call("wait", {**_plan_params(job, plan), "launch_id": None}))


def kill(job: Job) -> Outcome:
    """Clean-kill what is stale: a profile's slot, what matches, or the whole host."""
    params = {
        "engines": job.project.engines,
        "owner": job.project.owner,
        "force": job.args["force"],
        "check": job.check,
        "match": job.args["match"],
        "slot": job.args["slot"],
        "plan": job.plan.to_wire() if job.plan and job.args["profile"] else None,
        "protect": list(job.plan.kill.protect) if job.plan else [],
        "expected": job.args.get("expected"),
    }
    report = job.session.call("kill", params)
    ended = len(report["ended"])
    done = "would end" if job.check else "ended"
    lines = (*_processes(report, "ended"), *_processes(report, "listed"))
    return Outcome(f"{done} {_count(ended, 'process', 'processes')}", report, changed=ended > 0, lines=lines)


def stop(job: Job) -> Outcome:
    """Stop our server of a slot, gracefully."""
    slot = job.plan.slot if job.plan else job.args["slot"] or must_run(job).slot
    params = {
        "slot": slot,
        "engines": job.project.engines,
        "owner": job.project.owner,
        "check": job.check,
        "plan": job.plan.to_wire() if job.plan else None,
    }
    report = job.session.call("stop", params)
    ended = len(report["ended"])
    what = "nothing ran" if not ended else f"ended {_count(ended, 'process', 'processes')}"
    return Outcome(what, report, changed=ended > 0)


def status(job: Job) -> Outcome:
    """What runs on the host, whether it is healthy, and whether it runs as its profile says."""
    names = desired(job.host)
    planned = (job.project.plan(name, job.host, secrets=False) for name in names)
    plans = {plan.slot: plan for plan in planned}
    params = {
        "engines": job.project.engines,
        "slots": [job.args["slot"]] if job.args["slot"] else None,
        "plans": {slot: plan.to_wire() for slot, plan in plans.items()},
    }
    data = job.session.call("status", params, timeout_s=60)
    for server in data["servers"]:
        server["desired"] = plans[server["slot"]].profile if server.get("slot") in plans else None
        server["current"] = _is_current(plans.get(str(server.get("slot"))), server)
    alive = sum(bool(server.get("alive")) for server in data["servers"])
    return Outcome(_count(alive, "server", "servers") + " up", {**data, "desired": list(names)})


def logs(job: Job) -> Outcome:
    """The last lines of a slot's log; --follow goes on until Ctrl-C, which leaves the server alone."""
    slot = job.plan.slot if job.plan else job.args["slot"] or must_run(job).slot
    params = {"slot": slot, "lines": job.args["lines"] or 50, "follow": job.args["follow"], "launch_id": None}
    data = job.session.call("logs", params)
    return Outcome(data["path"], data)


def _is_current(plan: LaunchPlan | None, server: dict[str, Any]) -> bool | None:
    """Whether the project's version of the profile is what runs; None where nothing says so."""
    launch = server.get("launch")
    if plan is None or not launch or launch.get("profile") != plan.profile:
        return None
    return bool(launch.get("profile_hash") == plan.profile_hash)


def _plan(job: Job) -> LaunchPlan:
    """The plan that is meant.

    Raises:
        InputError: Nothing says which.
    """
    if job.plan is None:
        raise InputError(
            "no profile is named and the host has no stoker_profiles",
            where=job.host.name,
            next_step="add --profile NAME (inv profiles lists them)",
        )
    return job.plan


def _plan_params(job: Job, plan: LaunchPlan) -> dict[str, Any]:
    return {"plan": plan.to_wire(), "engines": job.project.engines, "owner": job.project.owner}


def _planned(plan: LaunchPlan, done: dict[str, Any]) -> Outcome:
    """What --check has to say about a launch."""
    report = done["kill"]
    lines = [*_processes(report, "ended"), *_processes(report, "blockers"), *_processes(report, "listed")]
    lines.append((f"would launch {plan.profile} in slot {plan.slot} on {plan.bind}:{plan.port}", ""))
    ended = _count(len(report["ended"]), "process", "processes")
    return Outcome(f"would end {ended} and launch {plan.profile}", done, changed=True, lines=tuple(lines))


def _ready(job: Job, plan: LaunchPlan, ready: dict[str, Any]) -> Outcome:
    """A ready server's outcome; the tuning that is not in force is a failure that leaves it running.

    Raises:
        HostFailed: A variable of the profile is not in force.
    """
    proof = ready["proof"]
    if proof["verdict"] == "not-in-force":
        raise HostFailed(
            f"{plan.profile} runs, but not as tuned: the server was left running",
            host=job.host.name,
            kind="not-in-force",
            evidence=_differences(proof),
            next_step="see which program between the script and the worker drops or sets these variables; "
            "what an engine is known to set itself belongs under `expect:` in the profile",
            detail=ready,
        )
    lines = tuple((line, "dim") for line in _differences(proof))
    return Outcome(f"ready in {ready['ready_s']:.1f} s, {describe(proof)}", ready, lines=lines)


def describe(proof: dict[str, Any]) -> str:
    """A proof in a few words: ``6 variables in force in 8 of 8 workers``."""
    workers = proof["workers"]
    readable = [worker for worker in workers if worker["source"] != "unreadable"]
    names = len(proof["variables"])
    if not workers or not readable:
        return "the live environment could not be read: tuning unproven"
    if not names:
        return f"no variables to prove ({_count(len(workers), 'worker', 'workers')})"
    word = {"in-force": "in force", "not-in-force": "NOT in force", "unproven": "unproven"}[proof["verdict"]]
    return f"{_count(names, 'variable', 'variables')} {word} in {len(readable)} of {len(workers)} workers"


def _differences(proof: dict[str, Any]) -> list[str]:
    """What each worker lacks, has otherwise, or could not show; equal workers are told once."""
    told: dict[str, list[str]] = {}
    for worker in proof["workers"]:
        found = [f"{name} is missing" for name in worker["missing"]]
        found += [f"{n} is {d['have']!r}, not {d['want']!r}" for n, d in worker["changed"].items()]
        if worker["source"] == "unreadable":
            found.append("environment unreadable: " + str(worker.get("why", "")))
        for text in found:
            told.setdefault(text, []).append(worker["title"])
    return [f"{text} ({_some(titles)})" for text, titles in told.items()]


def _some(titles: list[str]) -> str:
    return titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more"


def _processes(report: dict[str, Any], key: str) -> list[tuple[str, str]]:
    """One line a process of a kill report: pid, age, user, GPU memory, and why it was picked."""
    word = {"ended": "end", "blockers": "BLOCKS", "listed": "leave"}[key]
    style = {"ended": "", "blockers": "bold red", "listed": "dim"}[key]
    return [(f"{word:<6} {process_line(process)}", style) for process in report.get(key, [])]


def process_line(process: dict[str, Any]) -> str:
    """A process of the wire as one line."""
    gpu = "" if process.get("gpu_mib") is None else f" {process['gpu_mib']} MiB"
    held = ",".join(str(index) for index in process.get("gpus") or [])
    where = f" GPU {held}{gpu}" if held else ""
    age = f"{process['age_s']:.0f} s" if process.get("age_s") is not None else "?"
    title = str(process.get("title") or process.get("cmdline") or "")[:60]
    return (
        f"{process['pid']:>7} {process.get('user', '?')} {age}{where}  {title}  ({process.get('reason', '')})"
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


VERBS = (
    Verb("restart", (PROFILE, SLOT, FORCE), restart, changes=True, wants_plan=True, wants_secrets=True),
    Verb("start", (PROFILE, SLOT, FORCE), start, changes=True, wants_plan=True, wants_secrets=True),
    Verb("wait", (PROFILE, SLOT), wait, wants_plan=True, wants_secrets=True),
    Verb("stop", (PROFILE, SLOT), stop, changes=True, wants_plan=True),
    Verb(
        "kill",
        (
            PROFILE,
            SLOT,
            Flag("match", "End what this regular expression finds in a command line."),
            FORCE,
            Flag("yes", "Do not ask.", "flag"),
        ),
        kill,
        changes=True,
    ),
    Verb("status", (SLOT,), status),
    Verb(
        "logs",
        (
            PROFILE,
            SLOT,
            Flag("lines", "How many lines (50).", "whole", least=1),
            Flag("follow", "Go on until Ctrl-C.", "flag"),
        ),
        logs,
        wants_plan=True,
    ),
)
