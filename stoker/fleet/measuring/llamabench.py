"""A profile's model without its server: ``bench --bench llama-bench``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.benchmarks import llamabench
from stoker.config import names
from stoker.errors import EXIT_DONE, HostFailed, InputError
from stoker.fleet import servers
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome
from stoker.fleet.measuring import benchlines, benchrun
from stoker.fleet.measuring.probeplan import in_place
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.engines.base import Engine
    from stoker.plan import LaunchPlan
    from stoker.results.records.record import Record

NAME = llamabench.NAME
_ENGINE = "llamacpp"


def benches(job: Job) -> Outcome:
    """Measure each named profile's model, or those that should run there, one after the other.

    The data has ``rows``: what ``bench`` has of a run.

    Raises:
        InputError: No profile is named, none should run there, or one is of another engine.
        HostFailed: One could not be measured; those before it were.
    """
    jobs = [job.on(job.project.plan(name, job.host)) for name in benchrun.profiles(job)]
    for at in jobs:
        _check_engine(servers.planned(at))
    told: list[Outcome] = []
    for number, at in enumerate(jobs, 1):
        profile = servers.planned(at).profile
        job.session.emit({"type": "note", "text": f"llama-bench {profile} ({number}/{len(jobs)})"})
        told.append(bench(at))
    if len(told) == 1:
        return told[0]
    lines: list[tuple[str, str]] = []
    for at, outcome in zip(jobs, told, strict=True):
        lines += [(f"{servers.planned(at).profile}: {outcome.summary}", "bold"), *outcome.lines]
    rows = [outcome.data for outcome in told]
    code = max((outcome.exit_code for outcome in told), default=EXIT_DONE)
    return Outcome(
        f"{counts(len(rows), 'profile', 'profiles')} measured", {"rows": rows}, True, code, tuple(lines)
    )


def bench(job: Job) -> Outcome:
    """Measure one profile's model, judge it against its baseline, save and pull it.

    Raises:
        HostFailed: ``invalid``, ``incomplete``, or as the host says.
    """
    from stoker.results.baselines.baseline import Missing
    from stoker.results.compare import assess

    plan = servers.planned(job)
    _check_engine(plan)
    job.project.store.check_room()
    record, results = _measured(job, plan, job.args["launches"] or 1)
    base = job.project.baselines.find(record)
    loss = job.args["max_loss"] or job.project.settings.max_loss
    record = record.judged(assess(record, base, max_loss=loss))
    job.project.store.save(record)
    benchrun.pull(job, record, results)
    told = benchlines.outcome(job, record, None if isinstance(base, Missing) else base)
    benchlines.refuse_incomplete(job, record, told.data)
    left = _settings(plan).left
    lines = [*told.lines, *_lines(record)]
    lines += [(f"of the profile's settings llama-bench has not: {', '.join(left)}", "dim")] if left else []
    return replace(told, lines=tuple(lines))


def launch(job: Job) -> Record:
    """Measure the plan's model once, save and pull it; nothing is judged.

    Raises:
        HostFailed: As :func:`bench`.
    """
    plan = servers.planned(job)
    _check_engine(plan)
    job.project.store.check_room()
    record, results = _measured(job, plan, 1)
    job.project.store.save(record)
    benchrun.pull(job, record, results)
    return record


def _check_engine(plan: LaunchPlan) -> None:
    """See that it is a profile of llama.cpp.

    Raises:
        InputError: It is not.
    """
    if plan.engine.name != _ENGINE:
        what = f"{plan.profile} is a profile of {plan.engine.name}, and llama-bench is of llama.cpp"
        raise InputError(what, where="--bench", next_step="--bench decode measures a server of any engine")


def _measured(job: Job, plan: LaunchPlan, launches: int) -> tuple[Record, Sequence[Mapping[str, Any]]]:
    """(the record, what the host told of each launch).

    Raises:
        HostFailed: ``invalid``: no run was valid; or as the host says.
    """
    from stoker.results.records.fromjson import build

    results = [_call(job, plan) for _ in range(launches)]
    with reading(job.host.name, "what llama-bench gave"):
        record = build(results, benchrun.subject_of(job, results[-1]), where=job.host.name)
    if not record.samples:
        whys = [run.why for one in record.launches for run in one.runs if run.why]
        what = f"no run of {record.profile} was valid, so nothing was measured"
        raise HostFailed(what, host=job.host.name, kind="invalid", evidence=list(dict.fromkeys(whys)))
    return record, results


def _call(job: Job, plan: LaunchPlan) -> dict[str, Any]:
    own = {"plan": _plan(job, plan).to_wire(), "serves": plan.slot}
    params = {**own, **benchrun.asked(job, benchrun.bench_of(job, plan))}
    return benchrun.in_place(job, "llama-bench", params, f"llama-bench of {plan.profile}")


def _plan(job: Job, plan: LaunchPlan) -> LaunchPlan:
    """What is launched in the server's place."""
    wanted = benchrun.bench_of(job, plan)
    slot = plan.slot + names.LLAMA_BENCH
    program = llamabench.program(plan.argv)
    command = llamabench.command(wanted, plan.model, program, slot, _settings(plan))
    return in_place(job, plan, slot, command, _engine(plan.engine))


def _settings(plan: LaunchPlan) -> llamabench.Settings:
    """What of the profile's settings llama-bench has."""
    from stoker.config.profiles.model import flag_of
    from stoker.config.profiles.profile import Profile

    args = Profile.from_plain(dict(plan.resolved)).server.args
    return llamabench.settings(
        {flag_of(name): value for name, value in args.items()}, plan.env, plan.engine.aliases
    )


def _engine(engine: Engine) -> Engine:
    """How it looks on the host: no server, and so nothing that only a server has."""
    return replace(
        engine,
        shapes=(),
        titles=(),
        workers=(),
        command=(),
        api_key_env="",
        stages=(),
        ready="",
        info_paths=(),
    )


def _lines(record: Record) -> list[tuple[str, str]]:
    """What each test came to, as llama-bench tells it."""
    found = record.launches[-1].probe.get("tests")
    tests = [test for test in found if isinstance(test, dict)] if isinstance(found, list) else []
    words = {True: "prefill", False: "decode"}
    return [
        (
            f"{words[bool(test.get('input'))]} of {test.get('input') or test.get('output')} tokens: "
            f"{test.get('tok_s', 0):.1f} tok/s, SD {test.get('sd_tok_s', 0):.1f}",
            "",
        )
        for test in tests
        if not (test.get("input") and test.get("output"))
    ]
