"""Bring files of ours to a host: streamed, checked there, each one in its place whole or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.errors import HostFailed, InputError
from stoker.reach.carrier import Carrier, Pace
from stoker.reach.client import Agent
from stoker.reach.door import Unreachable

MAX_FILES = 20_000

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class LocalFile:
    """One file that is to be sent.

    Args:
        path: Relative to what was named; empty where that is the file itself.
        size: Bytes.
        mode: Permissions, without set-user-id and its like.
        sha256: 64 hex digits.
    """

    path: str
    size: int
    mode: int
    sha256: str


@dataclass(frozen=True)
class Load:
    """What is sent, read once for all hosts.

    Args:
        source: File or folder of ours.
        folders: (relative path, mode) of every folder, parents first.
        files: In order.
        skipped: (path, why) of what is not sent: links and what is no file.
    """

    source: Path
    folders: tuple[tuple[str, int], ...]
    files: tuple[LocalFile, ...]
    skipped: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Pushed:
    """What became of it on one host.

    Args:
        root: The place there, absolute.
        sent: Files that were not there as they are here (under ``check``: would be sent).
        same: Files that were.
        size: Bytes that were sent, less what an interrupted transfer had left there.
    """

    root: str
    sent: int
    same: int
    size: int


def load(source: Path) -> Load:
    """Read what is to be sent: sizes, modes and checksums.

    Raises:
        InputError: It is not there, cannot be read, or is too many files.
    """
    try:
        if source.is_file():
            return Load(source, (), (_file(source, ""),))
        found = list(_walk(source, ""))
        folders = (
            ("", _mode(source)),
            *((path, _mode(source / path)) for path, kind in found if kind == "folder"),
        )
        files = [_file(source / path, path) for path, kind in found if kind == "file"]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(error.filename or source)) from error
    if len(files) > MAX_FILES:
        raise InputError(f"holds {len(files)} files, over the limit of {MAX_FILES}", where=str(source))
    return Load(
        source, folders, tuple(files), tuple((p, kind) for p, kind in found if kind not in ("folder", "file"))
    )


def push(
    agent: Agent,
    what: Load,
    place: str,
    *,
    rate: float | None = None,
    check: bool = False,
    on_progress: OnProgress | None = None,
) -> Pushed:
    """Put files in a place of a host.

    What is there already, the same to the last byte, is not sent again; each other file is written under a
    temporary name, checked, and renamed. An interrupted one is gone on with the next time.

    Args:
        agent: The host.
        what: From :func:`load`.
        place: The file's or folder's path there; ``~/`` is the login's home.
        rate: Bytes a second; None: as fast as it goes.
        check: Only say what would be sent.
        on_progress: Gets (file, bytes done of all, bytes of all).

    Raises:
        HostFailed: ``io`` (it cannot be written there, or does not fit); ``checksum`` (it changed meanwhile).
        HostUnreachable: Lost on the way.
    """
    order = {
        "do": "put",
        "root": place,
        "folders": [{"path": path, "mode": mode} for path, mode in what.folders],
        "files": [vars(file) for file in what.files],
        "check": check,
    }
    try:
        with Carrier(agent, order) as carrier:
            return _Pushing(agent.host, what, carrier, Pace(rate), on_progress).run(check)
    except Unreachable as error:
        raise error.at(agent.host) from error


@dataclass
class _Pushing:
    host: str
    what: Load
    carrier: Carrier
    pace: Pace
    on_progress: OnProgress | None

    def run(self, check: bool) -> Pushed:
        """Ask what is there, and send the rest.

        Raises:
            HostFailed, Unreachable: As :func:`push`.
        """
        answer = self.carrier.answer("have")
        have = _offsets(answer, self.what.files)
        if have is None:
            raise self.carrier.failed("bad-result", "the host does not say what it has", [repr(answer)[:200]])
        missing = [
            (file, there) for file, there in zip(self.what.files, have, strict=True) if there < file.size
        ]
        total, done = sum(file.size - max(there, 0) for file, there in missing), 0
        for file, there in missing if not check else ():
            for block in self._blocks(file, max(there, 0)):
                self.carrier.send(block)
                done += len(block)
                self.pace.passed(len(block))
                if self.on_progress is not None:
                    self.on_progress(file.path or self.what.source.name, done, total)
        if not check:
            self.carrier.answer("put")
        return Pushed(str(answer.get("root")), len(missing), len(have) - len(missing), total)

    def _blocks(self, file: LocalFile, offset: int) -> Iterator[bytes]:
        """As many bytes as were announced.

        Raises:
            HostFailed: ``checksum``: there are fewer, or it cannot be read any more.
        """
        try:
            with (self.what.source / file.path).open("rb") as source:
                source.seek(offset)
                left = file.size - offset
                while left:
                    block = source.read(min(left, self.pace.block))
                    if not block:
                        raise self._changed(file, "is shorter than it was")
                    left -= len(block)
                    yield block
        except OSError as error:
            raise self._changed(file, f"cannot be read any more: {error.strerror}") from error

    def _changed(self, file: LocalFile, why: str) -> HostFailed:
        return HostFailed(
            f"{self.what.source / file.path} {why}",
            host=self.host,
            kind="checksum",
            next_step="run the command again when nobody writes to it",
        )


def _offsets(answer: dict[str, Any], files: tuple[LocalFile, ...]) -> list[int] | None:
    """How much of each file the host says it has; None where that makes no sense."""
    have = answer["have"]
    if not isinstance(have, list) or len(have) != len(files):
        return None
    for there, file in zip(have, files, strict=True):
        if not isinstance(there, int) or isinstance(there, bool) or not -1 <= there <= file.size:
            return None
    return have


def _walk(folder: Path, inside: str) -> Iterator[tuple[str, str]]:
    """(relative path, ``folder``, ``file`` or why it is not sent) of everything below, parents first."""
    for entry in sorted(os.scandir(folder / inside), key=lambda one: one.name):
        path = f"{inside}/{entry.name}" if inside else entry.name
        if entry.is_symlink():
            yield path, "a link"
        elif entry.is_dir(follow_symlinks=False):
            yield path, "folder"
            yield from _walk(folder, path)
        else:
            yield path, "file" if entry.is_file(follow_symlinks=False) else "no regular file"


def _file(place: Path, path: str) -> LocalFile:
    with place.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return LocalFile(path, os.fstat(file.fileno()).st_size, _mode(place), digest)


def _mode(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode) & 0o777
