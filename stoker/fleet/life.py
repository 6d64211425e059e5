"""The verbs of a server's life: kill, start, stop, restart, wait."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, StokerError
from stoker.fleet import aftermath, servers
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.scriptdiff import with_diff
from stoker.fleet.servers import must_run
from stoker.fleet.shown import hook_line, process_line

if TYPE_CHECKING:
    from stoker.plan import LaunchPlan

_SHOWN_FILES = 6

PROFILE = Flag("profile", "Profile to use; run:RUN-ID is what that run had.", "list")
SLOT = Flag("slot", "Slot of the server on the host.", "name")
ROLLBACK = Flag("rollback", "Put the previous server back when the new one does not get ready.", "flag")
FORCE = Flag("force", "End other holders of the GPUs and the port too; use a busy server.", "flag")


def restart(job: Job) -> Outcome:
    """Clean-kill what holds the slot, launch, wait until it is ready, and prove the tuning."""
    plan = servers.planned(job)
    try:
        return _launch(job, plan, replace=True, force=job.args["force"])
    except HostFailed as error:
        if job.args.get("rollback") and _is_not_ready(error):
            error = _put_back(job, error)
        raise aftermath.of_launch(job, plan, error) from error


def start(job: Job) -> Outcome:
    """Launch, wait and prove where nothing runs; done where the same profile runs already."""
    plan = servers.planned(job)
    try:
        return _launch(job, plan, replace=False, force=job.args["force"])
    except HostFailed as error:
        raise aftermath.of_launch(job, plan, error) from error


def _launch(job: Job, plan: LaunchPlan, *, replace: bool, force: bool) -> Outcome:
    params = {
        **_plan_params(job, plan),
        "force": force,
        "check": job.check,
        "replace": replace,
        "keep_locks": not job.check,  # until the wait below is over
    }
    done = job.session.call("restart", params)
    if job.check:
        return _planned(plan, done)
    if done.get("already_running"):
        return Outcome(f"{plan.profile} runs already", data=done)
    asked = {**_plan_params(job, plan), "launch_id": done["launch"]["launch_id"], "after_ready": True}
    try:
        ready = job.session.call("wait", asked)
        outcome = _ready(job, plan, ready)
    except HostFailed as error:
        error.detail.setdefault("previous", done["previous"])
        raise
    data = {**done, **outcome.data, "steps": [*done["steps"], *ready["steps"]]}
    ran = tuple((hook_line(hook), "dim") for hook in [*done["kill"]["hooks"], *ready["hooks"]])
    ran += tuple(_shared_memory(done["kill"]))
    return Outcome(outcome.summary, data, changed=True, lines=(*ran, *outcome.lines))


def _is_not_ready(error: HostFailed) -> bool:
    """Whether the old server is gone and the new one is not what was wanted."""
    return "previous" in error.detail and error.kind not in ("hook", "cancelled")


def _put_back(job: Job, error: HostFailed) -> HostFailed:
    """Start again what served before; the failure it stays, with what came of that."""
    previous: Any = error.detail["previous"]
    back: Outcome | None = None
    if previous is None:
        told = "nothing was ready in this slot before, so nothing was put back"
    else:
        name = previous["launch"]["profile"]
        try:
            back = _launch(job, _again(job, previous), replace=True, force=False)
            told = f"{name}, which ran before, was put back: {back.summary}"
        except StokerError as second:
            told = f"{name}, which ran before, could not be put back: {second.what}"
    return HostFailed(
        f"{error.what}; {told}",
        host=error.host,
        kind=error.kind,
        evidence=error.evidence,
        next_step=error.next_step,
        detail={**error.detail, "rollback": back.data if back else None},
    )


def _again(job: Job, previous: dict[str, Any]) -> LaunchPlan:
    """The plan of a former launch, with the very script that it had.

    What is ended for it never served, so nothing has to be taken out of a balancer.
    """
    plan = job.project.plan_again(previous["launch"], job.host)
    hooks = replace(plan.hooks, before_stop=(), drain_s=0.0)
    return replace(plan, script=previous["script"] or plan.script, hooks=hooks)


def wait(job: Job) -> Outcome:
    """Wait until the server is really ready, and prove its tuning."""
    plan = must_run(job)
    try:
        ready = job.session.call("wait", {**_plan_params(job, plan), "launch_id": None})
    except HostFailed as error:
        raise aftermath.of_wait(job, plan, error) from error
    return _ready(job, plan, ready)


def kill(job: Job) -> Outcome:
    """Clean-kill what is stale: a profile's slot, what matches, or the whole host."""
    params = {
        "engines": job.project.engines,
        "owner": job.project.owner,
        "force": job.args["force"],
        "check": job.check,
        "match": job.args["match"],
        "slot": job.args["slot"],
        "plan": job.plan.to_wire() if job.plan else None,
        "protect": [] if job.plan else _protected(job),
        "expected": job.args.get("expected"),
    }
    report = job.session.call("kill", params)
    ended = len(report["ended"])
    done = "would end" if job.check else "ended"
    # What really is ended was shown before the first signal.
    lines = (*_hooks(report), *(_processes(report, "ended") if job.check else ()))
    lines = (*lines, *_processes(report, "blockers"), *_processes(report, "listed"), *_shared_memory(report))
    return Outcome(f"{done} {_count(ended, 'process', 'processes')}", report, changed=ended > 0, lines=lines)


def _protected(job: Job) -> list[str]:
    """What any of the host's profiles protects: a whole host is killed under all of them."""
    return list(dict.fromkeys(name for plan in job.plans for name in plan.kill.protect))


def stop(job: Job) -> Outcome:
    """Stop our server of a slot, gracefully."""
    slot = servers.slot(job)
    params = {
        "slot": slot,
        "engines": job.project.engines,
        "owner": job.project.owner,
        "check": job.check,
        "plan": job.plan.to_wire() if job.plan else None,
    }
    try:
        report = job.session.call("stop", params)
    except HostFailed as error:
        raise aftermath.down(job, slot, error) from error
    ended = len(report["ended"])
    done = "would end" if job.check else "ended"
    beside = "" if ended else aftermath.others(job, slot)
    nothing = f"nothing ran in slot {slot}" + (f"; what runs: {beside}" if beside else "")
    what = nothing if not ended else f"{done} {_count(ended, 'process', 'processes')}"
    lines = (*_hooks(report), *(_processes(report, "ended") if job.check else ()), *_shared_memory(report))
    return Outcome(what, report, changed=ended > 0, lines=lines)


def _plan_params(job: Job, plan: LaunchPlan) -> dict[str, Any]:
    return {"plan": plan.to_wire(), "engines": job.project.engines, "owner": job.project.owner}


def _planned(plan: LaunchPlan, done: dict[str, Any]) -> Outcome:
    """What --check has to say about a launch."""
    report = done["kill"]
    lines = [*_hooks(report), *_processes(report, "ended")]
    lines += [*_processes(report, "blockers"), *_processes(report, "listed")]
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
            evidence=differences(proof),
            next_step="see which program between the script and the worker drops or sets these variables; "
            "what an engine is known to set itself belongs under `expect:` in the profile",
            detail=ready,
        )
    lines = tuple((line, "dim") for line in differences(proof))
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
    known = f"{len(readable)} of {_count(len(workers), 'worker', 'workers')}"
    return f"{_count(names, 'variable', 'variables')} {word} in {known}"


def differences(proof: dict[str, Any]) -> list[str]:
    """What each worker lacks, has otherwise, or could not show; equal workers are told once."""
    told: dict[str, list[str]] = {}
    for worker in proof["workers"]:
        found = [f"{name} is missing" for name in worker["missing"]]
        found += [f"{name} {_changed(change)}" for name, change in worker["changed"].items()]
        if worker["source"] == "unreadable":
            found.append("environment unreadable: " + str(worker.get("why", "")))
        for text in found:
            told.setdefault(text, []).append(worker["title"])
    return [f"{text} ({_some(titles)})" for text, titles in told.items()]


def _changed(change: dict[str, Any]) -> str:
    """How a variable differs; a credential's values are not told."""
    if "have" not in change:
        return "has another value"
    return f"is {change['have']!r}, not {change.get('want')!r}"


def _some(titles: list[str]) -> str:
    return titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more"


def _processes(report: dict[str, Any], key: str) -> list[tuple[str, str]]:
    """One line a process of a kill report: pid, age, user, GPU memory, and why it was picked."""
    word = {"ended": "end", "blockers": "BLOCKS", "listed": "leave"}[key]
    style = {"ended": "", "blockers": "bold red", "listed": "dim"}[key]
    return [(f"{word:<6} {process_line(process)}", style) for process in report.get(key, [])]


def _hooks(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(hook_line(hook), "dim") for hook in report.get("hooks", [])]


def _shared_memory(report: dict[str, Any]) -> list[tuple[str, str]]:
    """How many files the dead left there, and which: they were removed."""
    paths = report["released"]["shm"]
    if not paths:
        return []
    more = f" and {len(paths) - _SHOWN_FILES} more" if len(paths) > _SHOWN_FILES else ""
    told = ", ".join(map(str, paths[:_SHOWN_FILES]))
    return [(f"removed {_count(len(paths), 'file', 'files')} of shared memory: {told}{more}", "dim")]


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


VERBS = (
    Verb(
        "restart",
        (PROFILE, SLOT, FORCE, ROLLBACK),
        with_diff(restart),
        changes=True,
        runs="server",
        wants_secrets=True,
    ),
    Verb("start", (PROFILE, SLOT, FORCE), with_diff(start), changes=True, runs="server", wants_secrets=True),
    Verb("wait", (PROFILE, SLOT), wait, runs="server", wants_secrets=True, in_check="skipped"),
    Verb("stop", (PROFILE, SLOT), stop, changes=True, runs="server"),
    Verb(
        "kill",
        (
            PROFILE,
            SLOT,
            Flag("match", "End what this regular expression finds in a command line.", "regex"),
            FORCE,
            Flag("yes", "Do not ask.", "flag", in_book=False),  # a book is reviewed: nobody is asked
        ),
        kill,
        changes=True,
        runs="named",
    ),
)
