"""The verbs that carry files to hosts and back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, InputError
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.session import Session
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.reach.push import Load

_SIZE = re.compile(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?(?:/s)?", re.I | re.ASCII)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MOST_SHOWN = 20
_TELL_S = 0.25


def size_of(text: str, where: str) -> int:
    """A number of bytes: ``500K``, ``10M``, ``2G``.

    Raises:
        InputError: No number of bytes, or none at all.
    """
    found = _SIZE.fullmatch(text.strip())
    size = int(found.group(1)) * _FACTORS[found.group(2).upper()] if found else 0
    if size < 1:
        raise InputError(f"{text!r} is no number of bytes", where=where, next_step="write 500K, 10M or 2G")
    return size


def _check_size(text: str, where: str) -> None:
    size_of(text, where)


LIMIT_RATE = Flag("limit_rate", "Bytes a second and host: 500K, 10M.", check=_check_size)
PUT_FLAGS = (
    Flag("src", "File or folder here."),
    Flag("dest", "Its path on the hosts; a folder to put it into ends with /."),
    LIMIT_RATE,
)
GET_FLAGS = (
    Flag("src", "File or folder on the hosts."),
    Flag("dest", "Folder here; below it each host gets one of its name (fetched)."),
    LIMIT_RATE,
    Flag(
        "max_bytes", "More than that of a host is refused before anything is written (8G).", check=_check_size
    ),
)


def putting(what: Load) -> Verb:
    """Puts what was read here on hosts; the data has ``root``, ``sent``, ``same``, ``bytes``, ``skipped``."""

    def work(job: Job) -> Outcome:
        from stoker.reach.push import push

        done = push(
            job.session.agent,
            what,
            _dest(job.args["dest"], what.source.name),
            rate=_rate(job),
            check=job.check,
            on_progress=_progress(job.session, "put"),
        )
        data = {"root": done.root, "sent": done.sent, "same": done.same, "bytes": done.size}
        verb = "would send" if job.check else "sent"
        told = f"{verb} {counts(done.sent, 'file', 'files')}, {shown(done.size)}, to {done.root}"
        told += f" ({done.same} the same already)" if done.same else ""
        return Outcome(
            told if done.sent else f"nothing to send: {done.root} is as here",
            {**data, "skipped": _listed(what.skipped)},
            changed=bool(done.sent),
            lines=_skipped(what.skipped),
        )

    return Verb("put", PUT_FLAGS, work, changes=True)


def get(job: Job) -> Outcome:
    """Brings a file or folder here; the data has ``files``, ``skipped`` and ``into``.

    Raises:
        HostFailed: ``io``: not all of it can be read; what can be is here. The detail has the data, and
            ``unreadable``.
    """
    from stoker.reach.manifest import MAX_BYTES, announced, not_all
    from stoker.reach.pull import How, fetch

    most = size_of(job.args["max_bytes"], "--max-bytes") if job.args["max_bytes"] else MAX_BYTES
    agent = job.session.agent
    manifest = announced(agent, job.args["src"], most, single=True, partly=True)
    into = job.project.root / (job.args["dest"] or "fetched") / _folder_name(job.host.name)
    if not manifest.is_file:
        into /= _folder_name(PurePosixPath(job.args["src"]).name)
    how = How(_rate(job), resume=True, sync=False)
    is_shut = bool(manifest.unreadable and not manifest.files)
    files = [] if is_shut else fetch(agent, manifest, into, _progress(job.session, "get"), how)
    data = {
        "files": [str(path) for path in files],
        "skipped": _listed(manifest.skipped),
        "into": job.project.shown(into),
    }
    size = sum(file.size for file in manifest.files)
    told = f"{counts(len(files), 'file', 'files')}, {shown(size)}, in {data['into']}"
    if manifest.unreadable:
        for line, _ in _skipped(manifest.skipped):
            job.session.emit({"type": "note", "text": line})
        raise not_all(job.host.name, manifest, told if files else "", **data)
    return Outcome(told, data, lines=_skipped(manifest.skipped))


GET = Verb("get", GET_FLAGS, get)


def _dest(text: str, name: str) -> str:
    return text + name if text.endswith("/") else text


def _rate(job: Job) -> float | None:
    text = job.args["limit_rate"]
    return float(size_of(text, "--limit-rate")) if text else None


def _progress(session: Session, verb: str) -> Callable[[str, int, int], None]:
    """Tells how far it is, not too often; Ctrl-C ends it here."""
    begun = time.monotonic()
    told = 0.0

    def progress(name: str, done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if session.stop.is_set():
            raise HostFailed(f"{verb} was interrupted", host=session.host.name, kind="cancelled")
        if now - told < _TELL_S and done < total:
            return
        told = now
        # In the order of what is wanted to know: a narrow terminal cuts the end.
        text = f"{shown(int(done / max(now - begun, 0.001)))}/s, {shown(done)} of {shown(total)}  {name}"
        stage = {"name": verb, "fraction": done / total if total else 1.0, "text": text}
        session.emit({"type": "stage", **stage, "elapsed_s": now - begun})

    return progress


def shown(size: int) -> str:
    """A number of bytes for people."""
    number, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024 or unit == "TiB":
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"


def _folder_name(name: str) -> str:
    """A name as one folder of ours, whatever somebody calls a host."""
    return re.sub(r"[^\w.@:+=-]", "_", name).lstrip(".")


def _listed(skipped: tuple[tuple[str, str], ...]) -> list[dict[str, Any]]:
    return [{"path": path, "why": why} for path, why in skipped]


def _skipped(skipped: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    lines = [(f"skipped {path}: {why}", "yellow") for path, why in skipped[:_MOST_SHOWN]]
    if len(skipped) > _MOST_SHOWN:
        lines.append((f"and {len(skipped) - _MOST_SHOWN} more are skipped", "yellow"))
    return tuple(lines)


def source(root: Path, text: str) -> Load:
    """What ``--src`` names here; a path is relative to the project.

    Raises:
        InputError: It is not there, or cannot be read.
    """
    from stoker.reach.push import load

    return load((root / Path(text).expanduser()).resolve())
