"""The verb that measures: bench."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.benchmarks import BOUNDS
from stoker.errors import EXIT_DONE, EXIT_REGRESSED, HostFailed
from stoker.fleet import aftermath, life, servers
from stoker.fleet.flags import Flag
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.judge import explained

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.plan import LaunchPlan
    from stoker.results.record import Record, Subject

BENCH = (
    Flag("bench", "Which benchmark (decode)."),
    Flag("runs", "Measured runs, after one warm-up.", "whole", least=BOUNDS["runs"][0]),
    Flag("tokens", "Tokens of each request.", "whole", least=BOUNDS["tokens"][0]),
    Flag("concurrency", "Requests at once.", "whole", least=BOUNDS["concurrency"][0]),
)
PORT = Flag("port", "Port of the server, where somebody started it by hand.", "whole", least=1, most=65535)
MAX_LOSS = Flag("max_loss", "Loss that an ok must rule out, 0..1 (0.10).", "number")
_SHOWN_CAUSES = 3


def bench(job: Job) -> Outcome:
    """Measure the server that runs, judge it against its baseline, pull the result back.

    The data has ``run_id``, ``tok_s``, ``verdict``, ``change``, ``line`` and, on a regression, ``causes``.
    """
    launches = job.args["launches"] or 1
    if job.args.get("port") is None:
        job = job.on(job.plan or servers.running(job))
    if launches > 1:  # they restart the server
        servers.planned(job)
    job.project.store.check_room()
    results = [_measure(job)]
    for _ in range(launches - 1):
        life.restart(job)
        results.append(_measure(job))
    return _judged(job, _record(job, results), results)


def launch(job: Job) -> Record:
    """Measure one launch of the plan's server, save and pull it; nothing is judged.

    Raises:
        HostFailed: As :func:`bench`.
    """
    job.project.store.check_room()
    results = [_measure(job)]
    record = _record(job, results)
    job.project.store.save(record)
    _pull(job, record, results)
    return record


def bench_of(job: Job, plan: LaunchPlan | None) -> Bench:
    """The profile's benchmark with what the command line says instead."""
    from stoker.benchmarks import merge

    given = {name: job.args[name] for name in ("runs", "tokens", "concurrency")}
    return merge(plan.bench if plan else {}, {**given, "name": job.args["bench"]})


def _measure(job: Job) -> dict[str, Any]:
    """One launch's measurement, as the host tells it."""
    from stoker.results.record import new_run_id

    plan = job.plan
    wanted = bench_of(job, plan)
    salt, salt_id = job.project.salt
    params = {
        "plan": plan.to_wire() if plan else None,
        "slot": plan.slot if plan else job.args["slot"],  # the host knows which is the only one
        "port": job.args.get("port"),
        "engines": job.project.engines,
        "bench": wanted.to_wire(),
        "run_id": new_run_id(job.host.name),
        "force": job.args["force"],
        "salt": salt,
        "salt_id": salt_id,
        "owner": job.project.owner,
    }
    try:
        return job.session.call("bench", params)
    except HostFailed as error:
        raise aftermath.of_bench(job, error) from error


def _record(job: Job, results: list[dict[str, Any]]) -> Record:
    """The record of what was measured.

    Raises:
        HostFailed: Another profile runs than was named, no run was valid, or what came cannot be read.
    """
    from stoker.results.record import build

    with reading(job.host.name, "what bench gave"):
        subject = subject_of(job, results[-1])
        record = build(results, subject, where=job.host.name)
    named = job.args["profile"] or []
    if named and job.plan and subject.profile not in ("", job.plan.profile):
        raise HostFailed(
            f"slot {subject.slot} runs {subject.profile}, not {job.plan.profile}",
            host=job.host.name,
            kind="wrong-profile",
            next_step=f"inv restart --host {job.host.name} --profile {job.plan.profile}",
        )
    if not record.samples:
        why = [run.why for launch in record.launches for run in launch.runs if run.why]
        raise HostFailed(
            "no run was valid, so nothing was measured",
            host=job.host.name,
            kind="invalid",
            evidence=list(dict.fromkeys(why)),
            next_step=f"inv logs --host {job.host.name}",
        )
    return record


def subject_of(job: Job, result: dict[str, Any]) -> Subject:
    """What was measured: the launch that really runs, not what was asked for."""
    from stoker.results.record import Subject

    launch = result.get("launch") or {}
    if job.plan is not None and launch.get("profile_hash") == job.plan.profile_hash:
        return Subject.of(job.plan)
    return Subject(
        host=job.host.name,
        engine=str(launch.get("engine") or result.get("engine") or ""),
        profile=str(launch.get("profile") or ""),
        profile_hash=str(launch.get("profile_hash") or ""),
        slot=str(launch.get("slot") or ""),
        resolved=dict(launch.get("resolved") or {}),
    )


def _judged(job: Job, record: Record, results: list[dict[str, Any]]) -> Outcome:
    """Judge, save, pull, and say it; a regression comes with its first causes."""
    from stoker.results.baseline import Missing
    from stoker.results.compare import assess

    base = job.project.baselines.find(record)
    loss = job.args["max_loss"] or job.project.settings.max_loss
    verdict = assess(record, base, max_loss=loss)
    record = record.judged(verdict)
    job.project.store.save(record)  # before the pull: a lost link must not cost the measurement
    _pull(job, record, results)
    why = None
    if verdict.verdict == "regressed" and not isinstance(base, Missing):
        why = explained(record, base)
    data = _bench_data(record)
    if why:
        data["causes"] = why.data["causes"]
    _refuse_incomplete(job, record, data)
    lines = [(verdict.line, "")] if verdict.line else []
    lines += [(f"not kept on the host: {text}", "yellow") for text in _unkept(results)]
    lines += [(f"contaminated: {text}", "yellow") for text in record.contaminated]
    if why:
        causes = why.lines[1:]  # the first says what it is compared with
        lines += causes[:_SHOWN_CAUSES]
        more = len(causes) - _SHOWN_CAUSES
        lines += [(f"and {more} more: inv explain --host {job.host.name}", "dim")] if more > 0 else []
    regressed = verdict.verdict == "regressed"
    code = EXIT_REGRESSED if regressed else EXIT_DONE
    return Outcome(_headline(record), data, exit_code=code, lines=tuple(lines))


def _unkept(results: list[dict[str, Any]]) -> list[str]:
    """Why raw files could not be kept on the host."""
    return [str(result["unkept"]) for result in results if result.get("unkept")]


def _pull(job: Job, record: Record, results: list[dict[str, Any]]) -> None:
    """Bring the raw files beside the record."""
    from stoker.reach.pull import announced, fetch
    from stoker.results.store import RECORD

    job.session.note("pulling")
    for index, result in enumerate(results):
        if not result.get("path"):
            continue  # its disk was full: all that there is has come with the result
        folder = job.project.store.path(record.run_id)
        manifest = announced(job.session.agent, str(result["path"]))
        files = tuple(file for file in manifest.files if file.path.casefold() != RECORD)
        into = folder if index == 0 else folder / f"launch-{index + 1}"
        fetch(job.session.agent, replace(manifest, files=files), into)


def _refuse_incomplete(job: Job, record: Record, data: dict[str, Any]) -> None:
    """A measurement that lacks runs is none of what was asked for, whatever the rest of them says.

    Raises:
        HostFailed: ``incomplete``; the record is saved.
    """
    from stoker.results.compare import incomplete

    missing = incomplete(record)
    if missing:
        why = [run.why for launch in record.launches for run in launch.runs if run.why]
        raise HostFailed(
            f"{_headline(record)}: {missing}",
            host=job.host.name,
            kind="incomplete",
            evidence=[*([data["line"]] if data["line"] else []), *dict.fromkeys(why)],
            next_step=f"inv logs --host {job.host.name}; what was measured is {record.run_id}",
            detail=data,
        )


def _bench_data(record: Record) -> dict[str, Any]:
    """What a playbook registers and --json prints."""
    verdict = record.verdict
    return {
        "run_id": record.run_id,
        "profile": record.profile,
        "model": record.model,
        "bench": record.bench.to_wire(),
        "simulated": record.simulated,
        "contaminated": list(record.contaminated),
        "tok_s": round(record.metrics["decode_tok_s"].value, 3) if "decode_tok_s" in record.metrics else None,
        "metrics": {name: vars(metric) for name, metric in record.metrics.items()},
        "verdict": verdict.verdict if verdict else None,
        "change": verdict.change if verdict else None,
        "line": verdict.line if verdict else "",
        "causes": [],
    }


def _headline(record: Record) -> str:
    verdict = record.verdict
    what = f"{record.metrics['decode_tok_s'].value:.1f} tok/s"
    word = verdict.verdict if verdict else "unjudged"
    shown = word.upper() if word in ("ok", "regressed", "improved") else word
    mark = " (simulated)" if record.simulated else ""
    return f"{what}{mark}: {shown}"


VERBS = (
    Verb(
        "bench",
        (
            life.PROFILE,
            life.SLOT,
            PORT,
            *BENCH,
            Flag("launches", "Restart in between: the unit of evidence is the launch (1).", "whole", least=1),
            MAX_LOSS,
            life.FORCE,
        ),
        bench,
        runs="server",
        wants_secrets=True,
        in_check="skipped",
    ),
)
