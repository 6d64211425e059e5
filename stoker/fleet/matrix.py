"""The verb that measures several profiles one after the other, and leaves the host as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.errors import EXIT_DONE, HostFailed
from stoker.fleet import aftermath, life, measure
from stoker.fleet.experiments import putback
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.measuring.benchflags import PORT
from stoker.fleet.reserve import give_up, reserve


def bench_profiles(job: Job) -> Outcome:
    """Restart and measure each profile on the host, then put back what ran before.

    Raises:
        HostFailed: Of the first profile that failed, once what ran before was put back.
        HostInterrupted: Ctrl-C; says what runs now, what ran before, and how to put it back.
    """
    if job.check:
        return _planned(job)
    job.project.store.check_room()
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
            raise putback.left(job, before, touched, error) from error
        _tell(job, putback.put_back(job, before, touched))
        raise
    else:
        lines += putback.put_back(job, before, touched)
    finally:
        if touched:
            give_up(job)
    many = "1 profile" if len(rows) == 1 else f"{len(rows)} profiles"
    return Outcome(f"{many} measured", {"rows": rows}, True, max(codes), tuple(lines))


def _measured(job: Job, name: str, touched: dict[str, str]) -> Outcome:
    """Restart and measure one profile."""
    number = f"{job.args['profile'].index(name) + 1}/{len(job.args['profile'])}"
    plan = job.project.plan(name, job.host)
    at = job.on(plan)
    _tell(job, [(f"profile {name} ({number}): restart", "")])
    reserve(job, plan, "bench-all")
    touched[plan.slot] = name
    ready = life.restart(at)
    _tell(job, [(f"profile {name} ({number}): {ready.summary}; bench", "")])
    return measure.bench(at)


def _planned(job: Job) -> Outcome:
    """What --check has to say about it: each restart, as the host sees it now, and what is measured."""
    from stoker.fleet.measuring import benchplan

    lines: list[tuple[str, str]] = []
    rows: list[dict[str, Any]] = []
    for name in job.args["profile"]:
        at = job.on(job.project.plan(name, job.host))
        asked = life.restart(at)
        measured = benchplan.rows(at, at.plan, "restart")
        lines += [(f"{name}: {asked.summary}", "bold"), *asked.lines]
        lines += [(f"then measure {benchplan.line(row)}", "") for row in measured]
        rows += measured
    names = ", ".join(job.args["profile"])
    what = f"would restart and measure {names}, then put back what runs"
    return Outcome(what, {"rows": rows}, changed=True, lines=tuple(lines))


def _tell(job: Job, lines: Sequence[tuple[str, str]]) -> None:
    """Say something at once: what follows may fail."""
    for text, _ in lines:
        job.session.emit({"type": "note", "text": text})


BENCH_PROFILES = Verb(
    "bench-all",
    tuple(flag for flag in measure.VERBS[0].flags if flag is not PORT),
    bench_profiles,
    changes=True,
    each_profile=True,
    wants_secrets=True,
)
