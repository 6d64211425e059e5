"""Bring a folder of a host here: streamed, checked, and each file here whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import HostFailed, InputError
from stoker.reach.carrier import Carrier, Pace
from stoker.reach.client import Agent
from stoker.reach.door import Unreachable
from stoker.reach.manifest import NEXT, Manifest, RemoteFile, refused
from stoker.reach.parts import Part, Parts

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
    with _as_ours("write", local_dir):
        local_dir.mkdir(parents=True, exist_ok=True)
        seen = {""}
        places = {file: _place(agent.host, local_dir, file, seen) for file in files}
        here = held(agent, manifest, local_dir) if here is None else here
        missing = {file: places[file] for file in files if file not in here}
        if missing:
            _Stream(agent, manifest, missing, on_progress, how or How()).write(local_dir)
    return [places[file] for file in files]


@contextlib.contextmanager
def _as_ours(verb: str, folder: Path) -> Iterator[None]:
    """What our own disk refuses is the user's to mend.

    Raises:
        InputError: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot {verb}: {error.strerror}", where=str(error.filename or folder)) from error


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
        InputError: What is here cannot be read.
    """
    with _as_ours("read", local_dir):
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
    """Many files over one channel, one behind the other.

    Args:
        agent: The host.
        manifest: What it announced.
        missing: What is to come of that, and where it goes.
        on_progress: As :func:`fetch`.
        how: How it goes.
    """

    def __init__(
        self,
        agent: Agent,
        manifest: Manifest,
        missing: dict[RemoteFile, Path],
        on_progress: OnProgress | None,
        how: How,
    ) -> None:
        self._agent = agent
        self._root = manifest.root
        self._missing = missing
        self._on_progress = on_progress
        self._how = how
        self._total = sum(file.size for file in missing)
        self._done = 0
        self._made: set[Path] = set()
        self._parts = Parts()

    def write(self, folder: Path) -> None:
        """Bring all of them.

        Args:
            folder: What the room is looked for in.

        Raises:
            HostFailed: ``checksum``: what came is not what lies there.
            HostUnreachable: Lost on the way.
            InputError: There is no room.
            OSError: It cannot be written here.
        """
        try:
            there = {file: self._there(file, place) for file, place in self._missing.items()}
            _check_room(folder, self._total - sum(there.values()))
            wanted = [{"path": f.path, "size": f.size, "offset": size} for f, size in there.items()]
            order = {"do": "send", "root": self._root, "files": wanted}
            with Carrier(self._agent, order, Pace(self._how.rate)) as carrier:
                for file, place in self._missing.items():
                    self._one(carrier, file, place)
        except Unreachable as error:
            raise error.at(self._agent.host) from error
        finally:
            self._parts.close()

    def _there(self, file: RemoteFile, place: Path) -> int:
        """How much of a file is here; its checksum is known before the host waits for us."""
        part = self._parts.find(file, place) if self._lasts(file) else None
        if part is None:
            return 0
        part.look(lambda size: self._progress(file, size))
        return part.there

    def _lasts(self, file: RemoteFile) -> bool:
        """Whether what came of it is kept for the next time; nothing is of small ones, of which there are
        thousands.
        """
        return self._how.resume and file.size >= _LARGE

    def _one(self, carrier: Carrier, file: RemoteFile, place: Path) -> None:
        """Bring one file.

        Raises:
            HostFailed, Unreachable, OSError: As :meth:`write`.
        """
        if place.parent not in self._made:
            place.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(place.parent)
        part = self._parts.take(file, place, lasts=self._lasts(file))
        is_kept = self._lasts(file)
        with part.out as out:
            try:
                self._fill(carrier, file, part)
                if b"".join(carrier.take(part.digest.digest_size)) != part.digest.digest():
                    is_kept = False
                    raise self._wrong(carrier, file)
                out.flush()
                if self._how.sync or file.size >= _LARGE:
                    os.fsync(out.fileno())
                os.replace(part.path, place)  # noqa: PTH105 - a Path of a Path, thousands of times
                is_kept = True
            finally:
                if not is_kept:
                    part.path.unlink(missing_ok=True)

    def _fill(self, carrier: Carrier, file: RemoteFile, part: Part) -> None:
        """The rest of its bytes, as far as they come."""
        if not part.there:
            self._progress(file, 0)
        for block in carrier.take(file.size - part.there):
            part.out.write(block)
            part.digest.update(block)
            self._progress(file, len(block))

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
