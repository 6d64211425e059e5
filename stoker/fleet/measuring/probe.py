"""All-reduces alone, under one profile after another: ``bench --bench allreduce``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.benchmarks import allreduce
from stoker.errors import EXIT_DONE, EXIT_REGRESSED, HostFailed, InputError, StokerError
from stoker.fleet import judge, servers
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome
from stoker.fleet.measuring import benchrun, probelines
from stoker.fleet.measuring.probeplan import plan_of
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.results.records.record import Record

_FAR_BACK = 60  # runs that are looked through for what to compare with
# What a profile is to blame for: the next one may well do.
_ITS_FAULT = frozenset(("died", "timeout", "not-in-force", "invalid", "incomplete", "preflight"))


def probes(job: Job) -> Outcome:
    """Probe each named profile, or those that should run there, and compare each with the first.

    The data has ``rows``: what ``bench`` has of a run, with ``sizes``, ``nccl`` and ``estimate``.

    Raises:
        InputError: No profile is named and none should run there.
        HostFailed: One could not be probed; the others were.
    """
    wanted = benchrun.profiles(job)
    told: list[Outcome] = []
    failed: dict[str, HostFailed] = {}
    first: Record | None = None
    for number, name in enumerate(wanted, 1):
        at = job.on(job.project.plan(name, job.host))
        _check_ranks(at)
        job.session.emit({"type": "note", "text": f"probe {name} ({number}/{len(wanted)})"})
        try:
            record, outcome = _probed(at, first)
        except HostFailed as error:
            if len(wanted) == 1 or error.kind not in _ITS_FAULT:
                raise
            failed[name] = error
            job.session.emit({"type": "note", "text": f"{name}: {error.what}"})
            continue
        first = first or record
        told.append(outcome)
    return _together(job, wanted, told, failed)


def _check_ranks(job: Job) -> None:
    """See that nobody asks for ranks where the GPUs say how many.

    Raises:
        InputError: Somebody does.
    """
    plan = servers.planned(job)
    if job.args.get("ranks") is not None and plan.gpus:
        what = f"{plan.profile} has GPUs, and there is one rank a GPU"
        raise InputError(what, where="--ranks", next_step="leave it out")


def probe(job: Job) -> Outcome:
    """The same for the one profile that is meant."""
    _check_ranks(job)
    return _probed(job, None)[1]


def launch(job: Job) -> Record:
    """Probe the plan's profile once, save and pull it; nothing is judged.

    Raises:
        HostFailed: As :func:`probes`.
    """
    job.project.store.check_room()
    record, results = _measured(job, benchrun.bench_of(job, job.plan), 1)
    job.project.store.save(record)
    benchrun.pull(job, record, results)
    return record


def _probed(job: Job, first: Record | None) -> tuple[Record, Outcome]:
    """Probe one profile, judge it against its baseline, save and pull it."""
    from stoker.results.baselines.baseline import Missing
    from stoker.results.compare import assess

    server = servers.planned(job)
    job.project.store.check_room()
    bench = benchrun.bench_of(job, server)
    record, results = _measured(job, bench, job.args["launches"] or 1)
    base = job.project.baselines.find(record)
    verdict = assess(record, base, max_loss=job.args["max_loss"] or job.project.settings.max_loss)
    record = record.judged(verdict)
    job.project.store.save(record)
    benchrun.pull(job, record, results)
    data = probelines.data(record, None if isinstance(base, Missing) else base)
    _refuse_incomplete(record, data)
    lines = [(verdict.line, "")] if verdict.line else []
    lines += [(f"contaminated: {text}", "yellow") for text in record.contaminated]
    lines += probelines.lines(record, server.engine.rewrites, server.env)
    gain = _estimate(job, record, first)
    if gain:
        data["estimate"] = vars(gain)
        lines.append((gain.line, "cyan"))
    if verdict.verdict == "regressed" and not isinstance(base, Missing):
        why = judge.explained(record, base)
        data["causes"] = why.data["causes"]
        lines += why.lines[1:4]
    code = EXIT_REGRESSED if verdict.verdict == "regressed" else EXIT_DONE
    return record, Outcome(_headline(record), data, exit_code=code, lines=tuple(lines))


def _measured(job: Job, bench: Bench, launches: int) -> tuple[Record, list[dict[str, Any]]]:
    """(the record, what the host told of each launch).

    Raises:
        HostFailed: ``invalid``: no run was valid, or a sum was wrong; or as the host says.
    """
    from stoker.results.records.fromjson import build

    results = [_call(job, bench) for _ in range(launches)]
    with reading(job.host.name, "what probe gave"):
        record = build(results, benchrun.subject_of(job, results[-1]), where=job.host.name)
    _refuse_invalid(record)
    return record, results


def _refuse_invalid(record: Record) -> None:
    """What is no measurement is not kept; a profile under which one sum is wrong has no figure at all.

    Raises:
        HostFailed: ``invalid``.
    """
    from stoker.results.records.latencies import sizes

    wrong = [row for launch in record.launches for row in sizes(launch) if row.get("wrong")]
    whys = list(dict.fromkeys(run.why for launch in record.launches for run in launch.runs if run.why))
    if wrong:
        what = f"sums are wrong under {record.profile}"
        whys = [f"{row['bytes']} bytes: {row['wrong']} elements are wrong" for row in wrong]
        hint = "LL128 forced on a platform without it corrupts; else look at the GPUs: inv doctor"
    elif not record.samples:
        what = f"no run of {record.profile} was valid"
        hint = "see what NCCL says: NCCL_DEBUG=INFO"
    else:
        return
    what = f"{what}: {whys[0] if whys else 'nothing was measured'}"
    raise HostFailed(what, host=record.host, kind="invalid", evidence=whys, next_step=hint)


def _call(job: Job, bench: Bench) -> dict[str, Any]:
    server = servers.planned(job)
    plan = plan_of(job, server, bench.to_wire()["tool"])
    own = {"plan": plan.to_wire(), "serves": server.slot, "script": allreduce.script()}
    params = {**own, **benchrun.asked(job, bench)}
    return benchrun.in_place(job, "probe", params, f"the probe of {server.profile}")


def _refuse_incomplete(record: Record, data: dict[str, Any]) -> None:
    """A profile under which a sum was wrong, or a run is missing, is none to be taken.

    Raises:
        HostFailed: ``incomplete``; the record is saved.
    """
    from stoker.results.compare import incomplete

    missing = incomplete(record)
    if missing:
        what, hint = f"{_headline(record)}: {missing}", f"what was measured is {record.run_id}"
        raise HostFailed(what, host=record.host, kind="incomplete", next_step=hint, detail=data)


def _estimate(job: Job, record: Record, first: Record | None) -> Any:
    """What the profile could gain over the first of this command, else over the last other one measured."""
    from stoker.results.allreduce import estimate

    past = [one for one in _past(job) if one.run_id != record.run_id]
    same = [one for one in past if one.bench.load == record.bench.load and one.bench.name == allreduce.NAME]
    others = [one for one in same if one.subject.profile_hash != record.subject.profile_hash]
    old = first or (others[0] if others else None)
    if old is None:
        return None
    decodes = [one for one in past if one.bench.name == "decode" and one.subject.slot == record.subject.slot]
    wanted = (old.subject.profile_hash, record.subject.profile_hash)
    decodes.sort(
        key=lambda one: wanted.index(one.subject.profile_hash) if one.subject.profile_hash in wanted else 2
    )
    return estimate(record, old, decodes[0] if decodes else None)


def _past(job: Job) -> list[Record]:
    """The host's latest records, the newest first; what cannot be read is left out."""
    found = []
    for summary in job.project.store.list(host=job.host.name, last=_FAR_BACK):
        with contextlib.suppress(StokerError):
            found.append(job.project.store.load(summary.run_id))
    return found


def _headline(record: Record) -> str:
    word = record.verdict.verdict if record.verdict else "unjudged"
    shown = word.upper() if word in ("ok", "regressed", "improved") else word
    mark = " (simulated)" if record.simulated else ""
    return f"{record.metrics['latency_us'].value:.1f} µs an all-reduce{mark}: {shown}"


def _together(
    job: Job, names: Sequence[str], done: Sequence[Outcome], failed: Mapping[str, HostFailed]
) -> Outcome:
    """All profiles in one outcome, the fastest first in its last lines.

    Raises:
        HostFailed: Some could not be probed.
    """
    rows = [outcome.data for outcome in done]
    lines: list[tuple[str, str]] = []
    for row, outcome in zip(rows, done, strict=True):
        lines += [(f"{row['profile']}: {outcome.summary}", "bold"), *outcome.lines]
    for row in sorted(rows, key=lambda one: float(one["latency_us"])) if len(rows) > 1 else []:
        lines.append((f"{row['profile']:<24} {row['latency_us']:9.1f} µs", ""))
    code = max((outcome.exit_code for outcome in done), default=EXIT_DONE)
    if failed:
        for text, _ in lines:
            job.session.emit({"type": "note", "text": text})
        name, error = next(iter(failed.items()))
        raise HostFailed(
            f"{len(failed)} of {len(names)} profiles could not be probed: {name}: {error.what}",
            host=job.host.name,
            kind=error.kind,
            evidence=list(error.evidence),
            next_step=error.next_step,
            detail={**error.detail, "rows": rows, "failed": {n: e.what for n, e in failed.items()}},
        )
    if len(done) == 1:
        return done[0]
    return Outcome(
        f"{counts(len(rows), 'profile', 'profiles')} probed", {"rows": rows}, True, code, tuple(lines)
    )
