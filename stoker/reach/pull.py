"""Bring a folder of a host here: streamed, checked, and each file here whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import HostFailed, InputError
from stoker.reach.carrier import Carrier, Pace
from stoker.reach.client import Agent
from stoker.reach.door import Unreachable
from stoker.reach.manifest import NEXT, Manifest, RemoteFile, refused

_LARGE = 1 << 20

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class How:
    """How a pull goes.

    Args:
        rate: Bytes a second; None: as fast as it goes.
        resume: Keep the part of a large file that an interrupted pull leaves (beside its place, hidden), and
            go on with it.
        sync: Wait for our disk after each file, small ones too.
    """

    rate: float | None = None
    resume: bool = False
    sync: bool = True


def fetch(
    agent: Agent,
    manifest: Manifest,
    local_dir: Path,
    on_progress: OnProgress | None = None,
    how: How | None = None,
    here: Set[RemoteFile] | None = None,
) -> list[Path]:
    """Bring every file that was announced here.

    A file that is here already with the right checksum is not brought again. Each other one is written under
    a temporary name, checked against what the host read while it sent it, synced and renamed, so that an
    interrupted pull leaves nothing half-written and running it again finishes it.

    Args:
        agent: The host.
        manifest: What it announced.
        local_dir: Our folder; made where it is missing.
        on_progress: Gets (file, bytes done of all, bytes of all).
        how: How it goes; None: as fast as it can, every file synced.
        here: What :func:`held` found; None: it is asked.

    Returns:
        Every file of the manifest, here, in order.

    Raises:
        HostFailed: ``io``; ``checksum``: a file did not come as it lies there.
        HostUnreachable: Lost on the way.
        InputError: Nothing can be written here.
    """
    files = manifest.files
    try:
        local_dir.mkdir(parents=True, exist_ok=True)
        seen = {""}
        places = {file: _place(agent.host, local_dir, file, seen) for file in files}
        here = held(agent, manifest, local_dir) if here is None else here
        missing = [file for file in files if file not in here]
        if missing:
            _check_room(local_dir, sum(file.size for file in missing))
            _Stream(agent, manifest, missing, on_progress, how or How()).write(places)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(error.filename or local_dir)) from error
    return [places[file] for file in files]


def _check_room(folder: Path, size: int) -> None:
    """Say that our disk is too small before it is full.

    Raises:
        InputError: It is.
    """
    free = shutil.disk_usage(folder).free
    if size > free:
        what = f"{size} bytes do not fit: {free} are free"
        raise InputError(what, where=str(folder), next_step="name another folder, or less of the host's")


def _place(host: str, folder: Path, file: RemoteFile, seen: set[str]) -> Path:
    """Where a file goes; a link on the way there could lead it elsewhere.

    Args:
        host: The host.
        folder: Ours.
        file: What is to be brought.
        seen: The folders in it that were looked at already: thousands of files lie in a few of them.

    Raises:
        HostFailed: ``bad-manifest``.
    """
    above = file.path.rpartition("/")[0]
    while above not in seen:
        seen.add(above)
        if (folder / above).is_symlink():
            raise refused(host, f"{file.path} would be written through the link {folder / above}")
        above = above.rpartition("/")[0]
    place = folder / file.path
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return place
    if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
        kind = "link" if stat.S_ISLNK(mode) else "folder"
        raise refused(host, f"{place} is in the way: a {kind}")
    return place


def held(agent: Agent, manifest: Manifest, local_dir: Path) -> frozenset[RemoteFile]:
    """The files that are here already, the same to the last byte; only of those may the host have to read.

    Raises:
        HostFailed: ``bad-result``.
        HostUnreachable: Lost on the way.
        OSError: What is here cannot be read.
    """
    alike = [file for file in manifest.files if _size(local_dir / file.path) == file.size]
    if not alike:
        return frozenset()
    answer = agent.call("digests", {"root": manifest.root, "paths": [file.path for file in alike]})
    theirs = answer.get("sha256")
    known = theirs if isinstance(theirs, dict) else {}
    return frozenset(
        file for file in alike if _digest_of(local_dir / file.path).hexdigest() == known.get(file.path)
    )


class _Stream:
    """Many files over one channel, one behind the other."""

    def __init__(
        self,
        agent: Agent,
        manifest: Manifest,
        files: list[RemoteFile],
        on_progress: OnProgress | None,
        how: How,
    ) -> None:
        self._agent = agent
        self._root = manifest.root
        self._files = files
        self._on_progress = on_progress
        self._how = how
        self._total = sum(file.size for file in files)
        self._done = 0
        self._made: set[Path] = set()

    def write(self, places: dict[RemoteFile, Path]) -> None:
        """Bring all of them.

        Raises:
            HostFailed: ``checksum``: what came is not what lies there.
            HostUnreachable: Lost on the way.
            OSError: It cannot be written here.
        """
        parts = {file: self._part(file, places[file]) for file in self._files}
        wanted = [
            {"path": file.path, "size": file.size, "offset": there} for file, (_, there) in parts.items()
        ]
        order = {"do": "send", "root": self._root, "files": wanted}
        try:
            with Carrier(self._agent, order, Pace(self._how.rate)) as carrier:
                for file, (part, there) in parts.items():
                    self._one(carrier, file, places[file], part, there)
        except Unreachable as error:
            raise error.at(self._agent.host) from error

    def _part(self, file: RemoteFile, place: Path) -> tuple[Path, int]:
        """The temporary name, and how much is there already.

        Where the rest of a file is gone on with, the name is the same as long as the file is; nothing is
        gone on with of small ones, of which there are thousands.
        """
        if not self._is_gone_on_with(file):
            return place.with_name(f".stoker-{secrets.token_hex(8)}.part"), 0
        told = f"{place.name}\0{file.size}\0{file.mtime_ns}"
        part = place.with_name(f".stoker-{hashlib.sha256(told.encode()).hexdigest()[:16]}.part")
        there = _size(part) or 0
        if part.is_symlink() or not 0 < there < file.size:
            part.unlink(missing_ok=True)
            there = 0
        return part, there

    def _is_gone_on_with(self, file: RemoteFile) -> bool:
        return self._how.resume and file.size >= _LARGE

    def _one(self, carrier: Carrier, file: RemoteFile, place: Path, part: Path, there: int) -> None:
        """Bring one file.

        Raises:
            HostFailed, Unreachable, OSError: As :meth:`write`.
        """
        if place.parent not in self._made:
            place.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(place.parent)
        digest, is_kept = hashlib.sha256(), False
        try:
            with part.open("ab" if there else "xb") as out:
                if there:
                    digest = _digest_of(part)
                self._progress(file, there)
                is_kept = self._is_gone_on_with(file)
                for block in carrier.take(file.size - there):
                    out.write(block)
                    digest.update(block)
                    self._progress(file, len(block))
                is_kept = False
                out.flush()
                if self._how.sync or file.size >= _LARGE:
                    os.fsync(out.fileno())
            if b"".join(carrier.take(digest.digest_size)) != digest.digest():
                raise self._wrong(carrier, file)
            os.replace(part, place)  # noqa: PTH105 - a Path would be made of a Path, thousands of times
            is_kept = True
        finally:
            if not is_kept:
                part.unlink(missing_ok=True)

    def _progress(self, file: RemoteFile, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            self._on_progress(file.path, self._done, self._total)

    def _wrong(self, carrier: Carrier, file: RemoteFile) -> HostFailed:
        return HostFailed(
            f"{file.path} did not come as it lies there: it changed on the way, or cannot be read",
            host=self._agent.host,
            kind="checksum",
            evidence=carrier.last_words,
            next_step=NEXT,
        )


def _digest_of(path: Path) -> hashlib._Hash:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")


def _size(path: Path) -> int | None:
    """Of a regular file, links followed; None where there is none."""
    try:
        info = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return info.st_size if stat.S_ISREG(info.st_mode) else None
