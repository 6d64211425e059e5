"""What an interrupted pull leaves of a large file, and who goes on with it: one at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from stoker.reach.manifest import RemoteFile

_BLOCK = 1 << 20
_MOST_OPEN = 64  # of them at once; an interruption leaves one
_ODD = (errno.ELOOP, errno.EISDIR, errno.ENXIO)  # a link, a folder, a socket stands there


class Part:
    """The file that becomes another once it is whole, open and locked.

    Args:
        path: Its temporary name.
        out: To be written at its end.
        there: How much is in it already.
        digest: The checksum of that.
    """

    def __init__(self, path: Path, out: BinaryIO, there: int = 0) -> None:
        self.path = path
        self.out = out
        self.there = there
        self.digest = hashlib.sha256()

    def look(self, on_block: Callable[[int], None]) -> None:
        """Reckon the checksum of what is there.

        Args:
            on_block: Gets the size of each block that was read.
        """
        self.out.seek(0)
        left = self.there
        while left and (block := self.out.read(min(left, _BLOCK))):
            self.digest.update(block)
            left -= len(block)
            on_block(len(block))
        self.out.seek(0, os.SEEK_END)


class Parts:
    """The parts below one folder of ours, for one pull.

    Another pull into the same folder may run beside us: whoever writes a part holds a lock on it, and who
    does not get it writes under a name of its own.
    """

    def __init__(self) -> None:
        self._found: dict[Path, Part] = {}
        self._listed: dict[Path, list[str]] = {}

    def find(self, file: RemoteFile, place: Path) -> Part | None:
        """The part of such a file that an interrupted pull left; those of what it was before are taken away.

        Raises:
            OSError: The folder cannot be read or written.
        """
        own = _lasting(file, place)
        for name in self._names(place.parent):
            if name.startswith(_stem(place)) and name != own.name:
                _clear(place.with_name(name))
        if own.name not in self._names(place.parent) or len(self._found) >= _MOST_OPEN:
            return None
        out = _locked(own)
        if out is None:
            return None
        there = os.fstat(out.fileno()).st_size
        if not 0 < there <= file.size:
            out.truncate(0)
            there = 0
        self._found[place] = Part(own, out, there)
        return self._found[place]

    def take(self, file: RemoteFile, place: Path, *, lasts: bool) -> Part:
        """What the file is to be written to; it is the caller's to close.

        Args:
            file: As it was announced.
            place: Where it goes in the end.
            lasts: Whether an interrupted pull is to leave it for the next.

        Raises:
            OSError: It cannot be written.
        """
        if place in self._found:
            return self._found.pop(place)
        if lasts:
            own = _lasting(file, place)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
                out = _locked(own)
                if out is not None:
                    return Part(own, out)
        own = place.with_name(f".stoker-{secrets.token_hex(8)}.part")
        return Part(own, own.open("xb"))

    def close(self) -> None:
        """Leave what was not taken to the next pull."""
        for part in self._found.values():
            part.out.close()
        self._found.clear()

    def _names(self, folder: Path) -> list[str]:
        """The parts in a folder; it is read once, however many files go there."""
        if folder not in self._listed:
            try:
                names = os.listdir(folder)  # noqa: PTH208 - only their names are wanted
            except FileNotFoundError:
                names = []
            self._listed[folder] = [name for name in names if name.startswith(".stoker-")]
        return self._listed[folder]


def _stem(place: Path) -> str:
    return f".stoker-{hashlib.sha256(place.name.encode()).hexdigest()[:16]}-"


def _lasting(file: RemoteFile, place: Path) -> Path:
    """The same as long as the file is the same on its host."""
    told = hashlib.sha256(f"{file.size}\0{file.mtime_ns}".encode()).hexdigest()[:16]
    return place.with_name(f"{_stem(place)}{told}.part")


def _clear(path: Path) -> None:
    """Take a part away that is of no use any more, unless somebody writes it."""
    out = _locked(path)
    if out is not None:
        with out:
            path.unlink(missing_ok=True)


def _locked(path: Path) -> BinaryIO | None:
    """An existing part for us alone; None where another writes it, or it is none.

    A link or a pipe of that name is taken away: it is nobody's work.

    Raises:
        OSError: It cannot be opened.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return None
    except OSError as error:
        if error.errno not in _ODD:
            raise
        if error.errno != errno.EISDIR:
            path.unlink(missing_ok=True)
        return None
    is_ours = False
    try:
        info = os.fstat(fd)
        if stat.S_ISREG(info.st_mode):
            is_ours = _lock(fd) and _is_at(path, info)
        else:
            path.unlink(missing_ok=True)
    finally:
        if not is_ours:
            os.close(fd)
    return os.fdopen(fd, "r+b") if is_ours else None


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def _is_at(path: Path, info: os.stat_result) -> bool:
    """Whether that file still has this name: another may have finished it before we had the lock."""
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) == (info.st_dev, info.st_ino)
