"""The verb that measures: bench."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from stoker import benchmarks
from stoker.benchmarks import others
from stoker.errors import HostFailed
from stoker.fleet import aftermath, benchlines, life, loads, servers
from stoker.fleet.benchflags import BENCH, MAX_LOSS, PORT, SURER
from stoker.fleet.flags import Flag
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome, Verb

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.plan import LaunchPlan
    from stoker.results.record import Record, Subject


_PARAMETERS = tuple(flag.name for flag in BENCH if flag.name != "bench")


def bench(job: Job) -> Outcome:
    """Measure the server that runs, judge it against its baseline, pull the result back.

    The data has ``run_id``, ``tok_s``, ``verdict``, ``change``, ``line`` and, on a regression, ``causes``.
    """
    if job.args["bench"] == "allreduce":
        from stoker.fleet import probe

        return probe.probe(job)
    if job.args["bench"] == "llama-bench":
        from stoker.fleet import llamabench

        return llamabench.bench(job)
    if job.args.get("confirm") or job.args.get("until_sure"):
        from stoker.fleet import confirm

        return confirm.settled(job)
    return measured(job)


def measured(job: Job) -> Outcome:
    """The same by itself: one verdict, of the launches that were asked for."""
    launches = job.args["launches"] or 1
    if job.args.get("port") is None:
        job = job.on(job.plan or servers.running(job))
    if launches > 1:  # they restart the server
        servers.planned(job)
    job.project.store.check_room()
    wanted = levels(job, job.plan)
    results: list[list[dict[str, Any]]] = [[] for _ in wanted]
    for _ in range(launches - 1):
        for level, found in zip(wanted, results, strict=True):
            found.append(_measure(job, level))
        life.restart(job)
    works = [partial(_finished, job, level, found) for level, found in zip(wanted, results, strict=True)]
    return works[0]() if len(works) == 1 else loads.told(job, works, wanted)


def _finished(job: Job, level: Bench, results: list[dict[str, Any]]) -> Outcome:
    """Measure the last launch under a load, judge it and save it, before the next load may fail."""
    results.append(_measure(job, level))
    return _judged(job, _record(job, results), results)


def launch(job: Job) -> Record:
    """Measure one launch of the plan's server, save and pull it; nothing is judged.

    Raises:
        HostFailed: As :func:`bench`.
    """
    job.project.store.check_room()
    results = [_measure(job, bench_of(job, job.plan))]
    record = _record(job, results)
    job.project.store.save(record)
    _pull(job, record, results)
    return record


def bench_of(job: Job, plan: LaunchPlan | None) -> Bench:
    """The profile's benchmark with what the command line says instead, where it is of one load.

    Raises:
        InputError: It is none, or of several.
    """
    return benchmarks.merge(plan.bench if plan else {}, _said(job))


def levels(job: Job, plan: LaunchPlan | None) -> tuple[Bench, ...]:
    """The same under each of its loads.

    Raises:
        InputError: It is none.
    """
    return benchmarks.levels(plan.bench if plan else {}, _said(job))


def _said(job: Job) -> dict[str, Any]:
    """What the command line says of the benchmark."""
    return {name: job.args.get(name) for name in _PARAMETERS} | {"name": job.args["bench"]}


def said_of(bench: Bench) -> dict[str, Any]:
    """Arguments that ask for exactly this benchmark, whatever a profile has."""
    wire = bench.to_wire()
    said = {"bench": wire.pop("name"), **{name: wire.get(name) for name in _PARAMETERS}}
    return said | ({"goodput": bench.goodput} if bench.name == "serve" else {})


def _measure(job: Job, wanted: Bench) -> dict[str, Any]:
    """One launch's measurement under one load, as the host tells it."""
    from stoker.results.identity import new_run_id

    plan = job.plan
    salt, salt_id = job.project.salt
    tool = others.get(wanted.name)
    params = {
        "plan": plan.to_wire() if plan else None,
        "slot": plan.slot if plan else job.args["slot"],  # the host knows which is the only one
        "port": job.args.get("port"),
        "engines": job.project.engines,
        "bench": wanted.to_wire(),
        "tool": tool.to_wire() if tool else None,
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
    from stoker.results.fromjson import build

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
    record = record.judged(assess(record, base, max_loss=loss))
    job.project.store.save(record)  # before the pull: a lost link must not cost the measurement
    _pull(job, record, results)
    told = benchlines.outcome(job, record, None if isinstance(base, Missing) else base, _unkept(results))
    benchlines.refuse_incomplete(job, record, told.data)
    return told


def _unkept(results: list[dict[str, Any]]) -> list[str]:
    """Why raw files could not be kept on the host."""
    return [str(result["unkept"]) for result in results if result.get("unkept")]


def _pull(job: Job, record: Record, results: list[dict[str, Any]]) -> None:
    """Bring the raw files beside the record."""
    from stoker.reach.manifest import announced
    from stoker.reach.pull import fetch
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
            *SURER,
            life.FORCE,
        ),
        bench,
        runs="server",
        wants_secrets=True,
        in_check="skipped",
    ),
)
