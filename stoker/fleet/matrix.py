"""The verb that measures several profiles one after the other, and leaves the host as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.errors import EXIT_DONE, HostFailed, HostInterrupted, StokerError
from stoker.fleet import aftermath, life, measure
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.measure import PORT

Servers = Sequence[dict[str, Any]]


def bench_profiles(job: Job) -> Outcome:
    """Restart and measure each profile on the host, then put back what ran before.

    Raises:
        HostFailed: Of the first profile that failed, once what ran before was put back.
        HostInterrupted: Ctrl-C; says what runs now, what ran before, and how to put it back.
    """
    if job.check:
        return _planned(job)
    before = aftermath.alive(job)
    rows: list[dict[str, Any]] = []
    lines: list[tuple[str, str]] = []
    codes = [EXIT_DONE]
    touched: dict[str, str] = {}  # slot to the profile that the matrix began there last
    try:
        for name in job.args["profile"]:
            outcome = _measured(job, name, touched)
            rows.append({"profile": name, **outcome.data})
            codes.append(outcome.exit_code)
            lines += [(f"{name}: {outcome.summary}", "bold"), *outcome.lines]
    except HostFailed as error:
        if error.kind == "cancelled":  # the host was told to stop, so nothing more is begun there
            raise _left(job, before, touched, error) from error
        _tell(job, _put_back(job, before, touched))
        raise
    lines += _put_back(job, before, touched)
    many = "1 profile" if len(rows) == 1 else f"{len(rows)} profiles"
    return Outcome(f"{many} measured", {"rows": rows}, True, max(codes), tuple(lines))


def _measured(job: Job, name: str, touched: dict[str, str]) -> Outcome:
    """Restart and measure one profile."""
    number = f"{job.args['profile'].index(name) + 1}/{len(job.args['profile'])}"
    plan = job.project.plan(name, job.host)
    at = job.on(plan)
    _tell(job, [(f"profile {name} ({number}): restart", "")])
    touched[plan.slot] = name
    ready = life.restart(at)
    _tell(job, [(f"profile {name} ({number}): {ready.summary}; bench", "")])
    return measure.bench(at)


def _planned(job: Job) -> Outcome:
    """What --check has to say about it: each restart, as the host sees it now."""
    lines: list[tuple[str, str]] = []
    for name in job.args["profile"]:
        asked = life.restart(job.on(job.project.plan(name, job.host)))
        lines += [(f"{name}: {asked.summary}", "bold"), *asked.lines]
    names = ", ".join(job.args["profile"])
    what = f"would restart and measure {names}, then put back what runs"
    return Outcome(what, {"rows": []}, changed=True, lines=tuple(lines))


def _tell(job: Job, lines: Sequence[tuple[str, str]]) -> None:
    """Say something at once: what follows may fail."""
    for text, _ in lines:
        job.session.emit({"type": "note", "text": text})


def _put_back(job: Job, before: Servers, touched: dict[str, str]) -> list[tuple[str, str]]:
    """Stop what the matrix left where nothing ran, and start again what ran; says what it cannot.

    Raises:
        HostInterrupted: Ctrl-C.
    """
    were = {server.get("slot") for server in before}
    lines: list[tuple[str, str]] = []
    try:
        now = aftermath.alive(job)
        for slot, name in touched.items():
            if slot not in were and slot in {server.get("slot") for server in now}:
                life.stop(job.on(job.project.plan(name, job.host)))
                lines.append((f"stopped {name}: nothing ran in slot {slot} before", "dim"))
    except StokerError as error:
        if getattr(error, "kind", "") == "cancelled":
            raise _left(job, before, touched, error) from error
        return [*lines, (f"{_story(before)}; could not go back to that: {error.what}", "bold red")]
    for server in before:
        if not any(_is_same(server, one) for one in now):
            lines.append(_started_again(job, server, before, touched))
    return lines


def _started_again(
    job: Job, server: dict[str, Any], before: Servers, touched: dict[str, str]
) -> tuple[str, str]:
    """Start one server again that ran before; says so where it cannot."""
    launch = server.get("launch")
    if not launch:
        told = f"{server['engine']} on port {server['port']} was started by hand: start it again"
        return told, "yellow"
    try:
        life.restart(job.on(job.project.plan_again(launch, job.host)))
    except HostInterrupted as error:
        raise _left(job, before, touched, error) from error
    except StokerError as error:
        way = _command(job, server)
        return f"could not put back {launch['profile']}: {error.what}; try again: {way}", "bold red"
    return f"put back {launch['profile']}, which ran before", "dim"


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two looks saw the same server."""
    mine, its = one.get("launch"), other.get("launch")
    if mine and its:
        return bool(mine["launch_id"] == its["launch_id"])
    return not mine and not its and bool(one.get("pid") == other.get("pid"))


def _left(job: Job, before: Servers, touched: dict[str, str], error: StokerError) -> HostInterrupted:
    """An interrupted matrix: what runs now, what ran before, and the commands that put it back."""
    stops = [
        f"inv stop --host {job.host.name} --profile {name}"
        for slot, name in touched.items()
        if slot not in {server.get("slot") for server in before}
    ]
    steps = [*stops, *(_command(job, server) for server in before)] if touched else []
    return HostInterrupted(
        f"{error.what}; {_story(before)}",
        host=job.host.name,
        kind="cancelled",
        next_step=" && ".join(steps) and f"to put it back: {' && '.join(steps)}",
    )


def _story(before: Servers) -> str:
    """What ran before the matrix, as half a sentence."""
    told = aftermath.listed(before)
    return f"before the matrix ran {told}" if told else "before the matrix nothing ran"


def _command(job: Job, server: dict[str, Any]) -> str:
    """The command that starts a server again that ran before."""
    launch = server.get("launch")
    if not launch:
        return f"start {server['engine']} on port {server['port']} by hand again"
    return f"inv restart --host {job.host.name} --profile {launch['profile']}"


BENCH_PROFILES = Verb(
    "bench-all",
    tuple(flag for flag in measure.VERBS[0].flags if flag is not PORT),
    bench_profiles,
    changes=True,
    each_profile=True,
    wants_secrets=True,
)
