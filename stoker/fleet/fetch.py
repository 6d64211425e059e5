"""The verb that pulls back what runs left on a host: nothing it sends replaces what is here."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Set
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from stoker.errors import HostFailed, InputError
from stoker.fleet.flags import Flag
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.measuring.benchrun import subject_of
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.reach.manifest import Manifest, RemoteFile
    from stoker.results.records.record import Record

_RUNS = "~/.stoker/runs"
_RAW = "bench.json"
_MOST_SHOWN = 20

Skipped = tuple[str, str]  # a path, and why it is not taken


def fetch(job: Job) -> Outcome:
    """Pull back whatever runs left on the host; what is here already is not pulled again.

    The data has ``files``, ``runs`` (new records), ``skipped`` (``{path, why}``) and ``into``.

    Raises:
        HostFailed: ``bad-result``: a run that cannot be read; the others were recorded.
    """
    from stoker.reach.manifest import announced

    folder = job.args["path"]
    try:
        manifest = announced(job.session.agent, folder or _RUNS)
    except HostFailed as error:
        if folder or not _is(error, errno.ENOENT):
            raise _no_folder(job, error) from error
        nothing = {"files": [], "runs": [], "skipped": [], "into": ""}
        return Outcome("nothing to pull: nothing was measured here", nothing)
    return _folder(job, manifest) if folder else _runs(job, manifest)


def _folder(job: Job, manifest: Manifest) -> Outcome:
    """A folder that was named, as it is."""
    from stoker.reach.pull import fetch as bring

    into = job.project.settings.path("results") / f"fetched-{job.host.name}"
    return _told(job, into, bring(job.session.agent, manifest, into), [], list(manifest.skipped))


def _runs(job: Job, manifest: Manifest) -> Outcome:
    """Stoker's own runs: their files, and a record of each that has none."""
    from stoker.reach.pull import fetch as bring
    from stoker.reach.pull import held

    into = job.project.settings.path("results")
    here = held(job.session.agent, manifest, into)
    wanted, skipped = _wanted(job, manifest.files, here)
    files = bring(job.session.agent, replace(manifest, files=tuple(wanted)), into, here=here)
    run_ids = sorted({file.path.partition("/")[0] for file in wanted})
    return _told(job, into, files, _adopted(job, run_ids), [*manifest.skipped, *skipped])


def _told(job: Job, into: Path, files: list[Path], made: list[str], skipped: list[Skipped]) -> Outcome:
    data = {
        "files": [str(path) for path in files],
        "runs": made,
        "skipped": [{"path": path, "why": why} for path, why in skipped],
        "into": job.project.shown(into),
    }
    lines = [(f"skipped {path}: {why}", "yellow") for path, why in skipped[:_MOST_SHOWN]]
    if len(skipped) > _MOST_SHOWN:
        lines.append((f"and {len(skipped) - _MOST_SHOWN} more are skipped", "yellow"))
    what = f"{counts(len(files), 'file', 'files')} in {data['into']}"
    records = counts(len(made), "new record", "new records")
    return Outcome(f"{what}, {records}", data, changed=False, lines=tuple(lines))


def _wanted(
    job: Job, files: Iterable[RemoteFile], here: Set[RemoteFile]
) -> tuple[list[RemoteFile], list[Skipped]]:
    """What of a host's runs may come here or is here, and what may not."""
    from stoker.results.records.identity import is_safe_id
    from stoker.results.records.store import RECORD

    into = job.project.settings.path("results")
    recorded: dict[str, str] = {}
    wanted, skipped = [], []
    for file in files:
        run_id, _, inside = file.path.partition("/")
        if not inside or not is_safe_id(run_id):
            skipped.append((file.path, "belongs to no run" if inside else "no folder of a run"))
        elif PurePosixPath(inside).name.casefold() == RECORD:
            skipped.append((file.path, "records are made here, and taken from no host"))
        elif file in here:
            wanted.append(file)
        else:
            why = recorded.setdefault(run_id, _whose(job, run_id))
            if why or ((into / run_id / RECORD).exists() and os.path.lexists(into / file.path)):
                skipped.append((file.path, why or "is not what was recorded here; that stays"))
            else:
                wanted.append(file)
    return wanted, skipped


def _whose(job: Job, run_id: str) -> str:
    """Why nothing of a run may be added here; empty where it may."""
    from stoker.results.records.store import RECORD

    store = job.project.store
    if not os.path.lexists(store.path(run_id) / RECORD):
        return ""
    try:
        record = store.load(run_id)
    except InputError as error:
        return f"the record here cannot be read: {error.what}"
    return "" if record.host == job.host.name else f"is the record of {record.host} here"


def _adopted(job: Job, run_ids: list[str]) -> list[str]:
    """Make the records of runs that were pulled without one; the ids of those that had none.

    Raises:
        HostFailed: Of the first that cannot be read, once the others were recorded.
    """
    from stoker.results.records.store import RECORD

    store = job.project.store
    without = [name for name in run_ids if not os.path.lexists(store.path(name) / RECORD)]
    known = _launches(job) if without else set()
    made: list[str] = []
    bad: HostFailed | None = None
    for run_id in without:
        raw = store.path(run_id) / _RAW
        if not raw.is_file():
            continue
        try:
            record = _raw_record(job, raw)
        except HostFailed as error:
            bad = bad or error
            continue
        if not any((one.launch_id, one.started_at) in known for one in record.launches):
            store.save(record)
            made.append(run_id)
    if bad is not None:
        raise bad
    return made


def _launches(job: Job) -> set[tuple[str, float]]:
    """The launches of this host that records here hold: one of several launches has one record."""
    store = job.project.store
    records = (store.load(summary.run_id) for summary in store.list(host=job.host.name))
    return {(launch.launch_id, launch.started_at) for record in records for launch in record.launches}


def _raw_record(job: Job, raw: Path) -> Record:
    """The record of a result that was pulled.

    Raises:
        HostFailed: ``bad-result``.
    """
    from stoker.results.records import fromjson
    from stoker.results.records.shape import parse

    shown = f"{raw.parent.name}/{raw.name}"
    with reading(job.host.name, shown):
        result = parse(fromjson.text_of(raw), shown)
        record = fromjson.build([result], subject_of(job, result), where=shown)
        if record.run_id != raw.parent.name:
            raise InputError(f"it tells of another run, {record.run_id}")
        return record


def _is(error: HostFailed, number: int) -> bool:
    """Whether the host's system said this."""
    return error.kind == "io" and error.what.endswith(": " + os.strerror(number))


def _no_folder(job: Job, error: HostFailed) -> HostFailed:
    """A folder that is none, told as that."""
    path = job.args["path"]
    if not path or not (_is(error, errno.ENOTDIR) or _is(error, errno.ENOENT)):
        return error
    is_file = _is(error, errno.ENOTDIR)
    return HostFailed(
        f"{path} is a file, and a folder is pulled" if is_file else f"there is no folder {path}",
        host=error.host,
        kind=error.kind,
        evidence=error.evidence,
        next_step=f"--path {PurePosixPath(path).parent}" if is_file else "name a folder of that host",
    )


VERBS = (
    Verb(
        "fetch",
        (Flag("path", "A folder on the host, in place of Stoker's runs."),),
        fetch,
        in_check="skipped",
    ),
)
