"""Bring a folder of a host here: streamed, checked, and each file here whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from stoker.errors import HostFailed, InputError
from stoker.reach.client import Agent
from stoker.reach.door import Unreachable
from stoker.reach.transport import Channel, Deadline

MAX_BYTES = 8 << 30
MAX_FILES = 20_000
_BLOCK = 1 << 20
_START_S = 30.0
_AGAIN = "look at the host, then run the command again: what was pulled before is whole"
_NEXT = "look at that folder on the host; what was pulled before is whole, and running it again goes on"

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class RemoteFile:
    """One file as the host announces it.

    Args:
        path: Relative, checked to stay inside the folder.
        size: Bytes.
        sha256: 64 hex digits.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a host announces of a folder.

    Args:
        root: The folder's path there, links followed.
        files: Every regular file in it.
        skipped: (path, why) of what the host leaves out: links, odd names, too large files.
    """

    root: str
    files: tuple[RemoteFile, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def pull(
    agent: Agent,
    remote_dir: str,
    local_dir: Path,
    *,
    on_progress: OnProgress | None = None,
    max_bytes: int = MAX_BYTES,
) -> list[Path]:
    """Bring every regular file of a folder here.

    A file that is here already with the right checksum is not brought again. Each other one is written under
    a temporary name, checked, synced and renamed, so that an interrupted pull leaves nothing half-written and
    running it again finishes it.

    Args:
        agent: The host.
        remote_dir: Its folder; ``~/`` is the login's home.
        local_dir: Ours; made where it is missing.
        on_progress: Gets (file, bytes done of all, bytes of all).
        max_bytes: More than that is refused before anything is written.

    Returns:
        Every file of the folder, here, in order.

    Raises:
        HostFailed: ``io``; ``bad-manifest`` (a name that leaves the folder, a size over the limit);
            ``checksum`` (what came is not what was announced).
        HostUnreachable: Lost on the way.
        InputError: Nothing can be written here.
    """
    return fetch(agent, announced(agent, remote_dir, max_bytes), local_dir, on_progress)


def announced(agent: Agent, remote_dir: str, max_bytes: int = MAX_BYTES) -> Manifest:
    """What there is to pull; the host looks at sizes before it reads a file.

    Raises:
        HostFailed: ``io``, ``bad-manifest``.
        HostUnreachable: Lost on the way.
    """
    answer = agent.call("manifest", {"path": remote_dir, "max_bytes": max_bytes})
    files = read_manifest(agent.host, answer, max_bytes)
    listed = answer.get("skipped")
    items = [item for item in (listed if isinstance(listed, list) else []) if isinstance(item, dict)]
    skipped = tuple((str(item.get("path")), str(item.get("why"))) for item in items[:MAX_FILES])
    return Manifest(str(answer.get("root") or remote_dir), tuple(files), skipped)


def fetch(
    agent: Agent, manifest: Manifest, local_dir: Path, on_progress: OnProgress | None = None
) -> list[Path]:
    """Bring what was announced; else as :func:`pull`.

    Raises:
        HostFailed: ``checksum``: a file is not what was announced any more.
    """
    files = manifest.files
    try:
        local_dir.mkdir(parents=True, exist_ok=True)
        places = {file: _place(agent.host, local_dir, file) for file in files}
        missing = [file for file in files if not is_here(places[file], file)]
        if missing:
            _Stream(agent, manifest.root, missing, on_progress).write(places)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(error.filename or local_dir)) from error
    return [places[file] for file in files]


def read_manifest(host: str, answer: dict[str, Any], max_bytes: int) -> list[RemoteFile]:
    """What a host announces, nothing of it believed unchecked.

    Raises:
        HostFailed: ``bad-manifest``.
    """
    files, seen, total = [], set[str](), 0
    listed = answer.get("files")
    for item in listed if isinstance(listed, list) else [None]:
        file = _announced(item)
        if file is None or file.path in seen:
            raise _bad(host, f"announces a file that is none of its folder's: {item!r:.200}")
        seen.add(file.path)
        total += file.size
        files.append(file)
    if total > max_bytes or len(files) > MAX_FILES:
        raise _bad(host, f"{len(files)} files of {total} bytes are over the limit ({max_bytes} bytes)")
    return files


def _announced(item: Any) -> RemoteFile | None:
    """A manifest's entry; None for one that is not right."""
    if not isinstance(item, dict):
        return None
    path, size, digest = item.get("path"), item.get("size"), item.get("sha256")
    if not isinstance(path, str) or not isinstance(size, int) or isinstance(size, bool) or size < 0:
        return None
    if not isinstance(digest, str) or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        return None
    parts = path.split("/")
    inside = all(part not in ("", ".", "..") for part in parts) and not PurePosixPath(path).is_absolute()
    plain = not any(ord(sign) < 32 or ord(sign) == 127 for sign in path)
    return RemoteFile(path, size, digest) if inside and plain else None


def _place(host: str, folder: Path, file: RemoteFile) -> Path:
    """Where a file goes; a link on the way there could lead it elsewhere.

    Raises:
        HostFailed: ``bad-manifest``.
    """
    place = folder / file.path
    for parent in place.parents:
        if parent == folder:
            break
        if parent.is_symlink():
            raise _bad(host, f"{file.path} would be written through the link {parent}")
    if place.is_symlink() or place.is_dir():
        raise _bad(host, f"{place} is in the way: a {'link' if place.is_symlink() else 'folder'}")
    return place


def is_here(place: Path, file: RemoteFile) -> bool:
    """Whether a file is here already, the same to the last byte."""
    if not place.is_file() or place.stat().st_size != file.size:
        return False
    with place.open("rb") as here:
        return hashlib.file_digest(here, "sha256").hexdigest() == file.sha256


class _Stream:
    """Many files over one channel, one behind the other."""

    def __init__(
        self, agent: Agent, root: str, files: list[RemoteFile], on_progress: OnProgress | None
    ) -> None:
        self._agent = agent
        self._root = root
        self._files = files
        self._on_progress = on_progress
        self._mark = b"stoker-" + secrets.token_hex(8).encode() + b"\n"
        self._buffer = bytearray()
        self._errors = b""
        self._done = 0

    def write(self, places: dict[RemoteFile, Path]) -> None:
        """Bring all of them.

        Raises:
            HostFailed: ``checksum``: what came is not what was announced.
            HostUnreachable: Lost on the way.
            OSError: It cannot be written here.
        """
        try:
            channel = self._agent.transport.open("exec /bin/sh -s", Deadline(_START_S))
            try:
                channel.send(self._script())
                channel.end_input()
                self._skip_to_mark(channel)
                for file in self._files:
                    self._one(channel, file, places[file])
            finally:
                channel.close()
        except Unreachable as error:
            raise error.at(self._agent.host) from error

    def _script(self) -> bytes:
        """For the input, where only ``sh`` reads it; the empty line is for a start-up file that reads one."""
        lines = [
            "",
            f"printf %s {shlex.quote(self._mark.decode())}",
            f"cd -- {shlex.quote(self._root)} || exit 1",
        ]
        # As many bytes as were announced: a log that grows meanwhile does not shift what comes behind it.
        lines += [f"head -c {file.size} -- {shlex.quote(file.path)}" for file in self._files]
        return ("\n".join(lines) + "\n").encode()

    def _one(self, channel: Channel, file: RemoteFile, place: Path) -> None:
        """Bring one file.

        Raises:
            HostFailed, Unreachable, OSError: As :meth:`write`.
        """
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
        try:
            digest = hashlib.sha256()
            with temporary.open("xb") as out:
                for block in self._take(channel, file.size):
                    out.write(block)
                    digest.update(block)
                    self._progress(file, len(block))
                out.flush()
                os.fsync(out.fileno())
            if digest.hexdigest() != file.sha256:
                raise self._wrong(file)
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)

    def _take(self, channel: Channel, size: int) -> Iterator[bytes]:
        """Exactly so many bytes of the stream, or fewer where it ends."""
        while size:
            if not self._buffer and not self._more(channel):
                return
            block = bytes(self._buffer[: min(size, _BLOCK)])
            del self._buffer[: len(block)]
            size -= len(block)
            yield block

    def _skip_to_mark(self, channel: Channel) -> None:
        """Pass over what the login shell prints."""
        while self._mark not in self._buffer:
            del self._buffer[: -len(self._mark)]
            if not self._more(channel):
                lines = self._errors.decode(errors="replace").splitlines()[-5:]
                raise self._failed("io", "the host does not send the files", lines)
        del self._buffer[: self._buffer.index(self._mark) + len(self._mark)]

    def _more(self, channel: Channel) -> bool:
        """Wait for more of the stream; False at its end.

        Raises:
            Unreachable: Lost, or silent for too long.
        """
        while True:
            said = channel.read(self._agent.silence_s)
            if said is None:
                raise _lost(f"nothing came for {self._agent.silence_s:g} s")
            stream, data = said
            if stream == "stderr":
                self._errors = (self._errors + data)[-8192:]
                continue
            self._buffer += data
            if not data and channel.exit_status(1.0) is None:
                raise _lost("the connection was lost")
            return bool(data)

    def _progress(self, file: RemoteFile, size: int) -> None:
        self._done += size
        if self._on_progress is not None:
            self._on_progress(file.path, self._done, sum(each.size for each in self._files))

    def _wrong(self, file: RemoteFile) -> HostFailed:
        lines = self._errors.decode(errors="replace").splitlines()[-5:]
        return self._failed(
            "checksum", f"{file.path} is not what the host announced: it changed on the way", lines
        )

    def _failed(self, kind: str, what: str, lines: list[str]) -> HostFailed:
        return HostFailed(what, host=self._agent.host, kind=kind, evidence=lines, next_step=_NEXT)


def _lost(why: str) -> Unreachable:
    return Unreachable("lost", f"{why} while files were pulled", next_step=_AGAIN)


def _bad(host: str, what: str) -> HostFailed:
    return HostFailed(what, host=host, kind="bad-manifest", next_step=_NEXT)
