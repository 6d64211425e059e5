"""Measure a server that runs, once or launch after launch."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from stoker.benchmarks import others
from stoker.errors import HostFailed
from stoker.fleet import aftermath, life, servers
from stoker.fleet.hostdata import reading
from stoker.fleet.measuring import benchlines, benchrun, loads

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.fleet.job import Job, Outcome
    from stoker.results.records.record import Record


def measured(job: Job) -> Outcome:
    """Measure, judge, save and pull: one verdict, of the launches that were asked for."""
    launches = job.args["launches"] or 1
    if job.args.get("port") is None:
        job = job.on(job.plan or servers.running(job))
    if launches > 1:  # they restart the server
        servers.planned(job)
    job.project.store.check_room()
    wanted = benchrun.levels(job, job.plan)
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
        HostFailed: As :func:`measured`.
    """
    job.project.store.check_room()
    results = [_measure(job, benchrun.bench_of(job, job.plan))]
    record = _record(job, results)
    job.project.store.save(record)
    benchrun.pull(job, record, results)
    return record


def _measure(job: Job, wanted: Bench) -> dict[str, Any]:
    """One launch's measurement under one load, as the host tells it."""
    plan = job.plan
    tool = others.get(wanted.name)
    params = {
        "plan": plan.to_wire() if plan else None,
        "slot": plan.slot if plan else job.args["slot"],  # the host knows which is the only one
        "port": job.args.get("port"),
        "tool": tool.to_wire() if tool else None,
        **benchrun.asked(job, wanted),
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
    from stoker.results.records.fromjson import build

    with reading(job.host.name, "what bench gave"):
        subject = benchrun.subject_of(job, results[-1])
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


def _judged(job: Job, record: Record, results: list[dict[str, Any]]) -> Outcome:
    """Judge, save, pull, and say it; a regression comes with its first causes."""
    from stoker.results.baselines.baseline import Missing
    from stoker.results.compare import assess

    base = job.project.baselines.find(record)
    loss = job.args["max_loss"] or job.project.settings.max_loss
    record = record.judged(assess(record, base, max_loss=loss))
    job.project.store.save(record)  # before the pull: a lost link must not cost the measurement
    benchrun.pull(job, record, results)
    told = benchlines.outcome(job, record, None if isinstance(base, Missing) else base, _unkept(results))
    benchlines.refuse_incomplete(job, record, told.data)
    return told


def _unkept(results: list[dict[str, Any]]) -> list[str]:
    """Why raw files could not be kept on the host."""
    return [str(result["unkept"]) for result in results if result.get("unkept")]
