"""What all measuring has in common: what is asked for, what it is of, and the files that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker import benchmarks
from stoker.errors import HostFailed, HostInterrupted, InputError
from stoker.fleet import servers
from stoker.fleet.measuring.benchflags import BENCH

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.fleet.job import Job
    from stoker.plan import LaunchPlan
    from stoker.results.records.record import Record, Subject

_PARAMETERS = tuple(flag.name for flag in BENCH if flag.name != "bench")


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


def profiles(job: Job) -> list[str]:
    """The profiles that are meant.

    Raises:
        InputError: None is, or a server by its port.
    """
    if job.args.get("port") is not None:
        raise InputError("a probe starts processes of its own", where="--port", next_step="leave it out")
    found = list(job.args["profile"] or servers.desired(job.host))
    slot = job.args.get("slot")
    if slot:
        found = [name for name in found if job.project.plan(name, job.host, secrets=False).slot == slot]
    if not found:
        raise InputError("no profile is named", where=job.host.name, next_step="name it: --profile NAME")
    return found


def asked(job: Job, bench: Bench) -> dict[str, Any]:
    """What the host is told of every measurement, whatever is measured."""
    from stoker.results.records.identity import new_run_id

    salt, salt_id = job.project.salt
    return {
        "engines": job.project.engines,
        "bench": bench.to_wire(),
        "run_id": new_run_id(job.host.name),
        "force": job.args["force"],
        "salt": salt,
        "salt_id": salt_id,
        "owner": job.project.owner,
    }


def in_place(job: Job, op: str, params: dict[str, Any], what: str) -> dict[str, Any]:
    """Measure something that takes a server's place, and is gone with whoever asked for it.

    Args:
        job: Of the host.
        op: The agent's operation.
        params: Its own.
        what: What it is, for messages: ``the probe of tuned``.

    Raises:
        HostInterrupted: It was cancelled.
        HostFailed: As the host says.
    """
    try:
        return job.session.call(op, params)
    except HostFailed as error:
        if error.kind != "cancelled":
            raise
        told = f"{what} was ended, and nothing of it is left there"
        raise HostInterrupted(told, host=error.host, kind=error.kind) from error


def subject_of(job: Job, result: dict[str, Any]) -> Subject:
    """What was measured: the launch that really runs, not what was asked for."""
    from stoker.results.records.record import Subject

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


def pull(job: Job, record: Record, results: Sequence[Mapping[str, Any]]) -> None:
    """Bring the raw files beside the record, those of the first launch into its folder."""
    from stoker.reach.manifest import announced
    from stoker.reach.pull import fetch
    from stoker.results.records.store import RECORD

    job.session.note("pulling")
    for index, result in enumerate(results):
        if not result.get("path"):
            continue  # its disk was full: all that there is has come with the result
        folder = job.project.store.path(record.run_id)
        manifest = announced(job.session.agent, str(result["path"]))
        files = tuple(file for file in manifest.files if file.path.casefold() != RECORD)
        into = folder if index == 0 else folder / f"launch-{index + 1}"
        fetch(job.session.agent, replace(manifest, files=files), into)
