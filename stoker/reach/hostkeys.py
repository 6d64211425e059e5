"""known_hosts files: read once, looked up by name, appended to under a lock."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_LOCK_S = 5.0
Marker = Literal["", "revoked", "cert-authority"]


@dataclass(frozen=True)
class HostKey:
    """A public host key.

    Args:
        kind: e.g. ``ssh-ed25519``.
        blob: The key in base64, as files have it.
    """

    kind: str
    blob: str

    @property
    def fingerprint(self) -> str:
        """``SHA256:…`` as OpenSSH shows it; of a broken entry, that it is broken."""
        try:
            digest = hashlib.sha256(base64.b64decode(self.blob, validate=True)).digest()
        except ValueError:
            return "not readable"
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True)
class Entry:
    """One line of a known_hosts file.

    Args:
        file: Where it is.
        line: 1-based.
        key: The key.
        marker: ``revoked``, ``cert-authority`` or empty.
        removable: Whether ``ssh-keygen -R`` finds it (it finds no pattern).
    """

    file: Path
    line: int
    key: HostKey
    marker: Marker = ""
    removable: bool = True

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class _Patterns:
    wanted: tuple[re.Pattern[str], ...]
    unwanted: tuple[re.Pattern[str], ...]

    def match(self, name: str) -> bool:
        return any(p.fullmatch(name) for p in self.wanted) and not any(
            p.fullmatch(name) for p in self.unwanted
        )


class KeyFile:
    """One file. Not for several threads at once: its owner holds the lock.

    Args:
        path: Where it is; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._lines = 0
        self._plain: dict[str, list[Entry]] = {}
        self._hashed: list[tuple[bytes, bytes, Entry]] = []
        self._patterns: list[tuple[_Patterns, Entry]] = []
        self._found: dict[str, tuple[Entry, ...]] = {}
        self.refresh()

    def refresh(self) -> bool:
        """Read the file again if it is not as it was.

        Returns:
            Whether it was read.
        """
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return False
        self._plain, self._hashed, self._patterns, self._found, self._lines = {}, [], [], {}, 0
        self._stamp = stamp
        try:
            text = self.path.read_text(errors="replace")
        except OSError:
            return True  # not there, or not ours to read: it knows nobody
        for line in text.split("\n"):
            self._lines += 1
            self._take(line, self._lines)
        self._lines -= 1 if text.endswith("\n") or not text else 0
        return True

    def find(self, name: str) -> tuple[Entry, ...]:
        """Every line that is about a name, e.g. ``[127.0.0.1]:2222``, in lower case."""
        if name not in self._found:
            self._found[name] = tuple(self._search(name))
        return self._found[name]

    def _search(self, name: str) -> Iterator[Entry]:
        yield from self._plain.get(name, ())
        text = name.encode()
        for salt, digest, entry in self._hashed:
            if hmac.compare_digest(hmac.digest(salt, text, "sha1"), digest):
                yield entry
        for patterns, entry in self._patterns:
            if patterns.match(name):
                yield entry

    def _take(self, line: str, number: int) -> None:
        fields = line.split()
        marker: Marker = ""
        if fields and fields[0] in ("@revoked", "@cert-authority"):
            marker = "revoked" if fields.pop(0) == "@revoked" else "cert-authority"
        if len(fields) < 3 or fields[0][0] in "#@":
            return
        names, key = fields[0].lower(), HostKey(fields[1], fields[2])
        if fields[0].startswith("|1|"):
            salted = _salted(fields[0])
            if salted:
                self._hashed.append((*salted, Entry(self.path, number, key, marker)))
        elif any(sign in names for sign in "*?!"):
            entry = Entry(self.path, number, key, marker, removable=False)
            self._patterns.append((_patterns(names), entry))
        else:
            for name in names.split(","):
                self._plain.setdefault(name, []).append(Entry(self.path, number, key, marker))

    def append(self, name: str, key: HostKey, hashed: bool) -> bool:
        """Write a line, unless the file has changed since it was read: then it is read, and not written.

        Args:
            name: In lower case.
            key: The key.
            hashed: Whether the name is written hashed.

        Returns:
            Whether it was written.

        Raises:
            OSError: It cannot be written, or somebody holds its lock.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = _open_locked(self.path)
        try:
            if self.refresh():
                return False
            info = os.fstat(fd)
            broken = info.st_size > 0 and os.pread(fd, 1, info.st_size - 1) != b"\n"
            line = f"{_hashed(name) if hashed else name} {key.kind} {key.blob}"
            os.write(fd, (("\n" if broken else "") + line + "\n").encode())
            self._lines += 1
            self._take(line, self._lines)
            self._found.clear()
            self._stamp = _stamp(self.path)
            return True
        finally:
            os.close(fd)

    def replace(self, name: str, keys: Sequence[HostKey], hashed: bool) -> None:
        """Make these the keys of a name, in place of those that stand there; patterns and markers stay.

        Args:
            name: In lower case.
            keys: All that it has.
            hashed: Whether the name is written hashed.

        Raises:
            OSError: It cannot be written, or somebody holds its lock.
        """
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = _open_locked(self.path)
        try:
            self.refresh()
            found = [entry for entry in self.find(name) if entry.removable and not entry.marker]
            gone = {entry.line for entry in found if entry.key not in keys}
            lines = self.path.read_text(errors="surrogateescape").split("\n")
            kept = [_without(line, name) if at in gone else line for at, line in enumerate(lines, 1)]
            kept = [line for at, line in enumerate(kept, 1) if line or (at not in gone and at < len(kept))]
            there = {entry.key for entry in found}
            kept += [
                f"{_hashed(name) if hashed else name} {key.kind} {key.blob}"
                for key in keys
                if key not in there
            ]
            _write(self.path.resolve(), "\n".join(kept) + "\n")
            self.refresh()
        finally:
            os.close(fd)


def _write(path: Path, text: str) -> None:
    """Put a whole file in the place of another, with its mode."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", errors="surrogateescape") as out:
            temporary.chmod(path.stat().st_mode & 0o777)
            out.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _without(line: str, name: str) -> str:
    """A line less one name; empty where it had no other."""
    names, _, rest = line.strip().partition(" ")
    left = [] if names.startswith("|1|") else [one for one in names.split(",") if one.lower() != name]
    return f"{','.join(left)} {rest}" if left else ""


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def _open_locked(path: Path) -> int:
    """The file, created where it is missing, and its lock.

    Raises:
        OSError: Not ours to write, or locked by somebody for longer than a moment.
    """
    end = time.monotonic() + _LOCK_S
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(fd).st_ino == path.stat().st_ino:
                return fd  # ssh-keygen -R puts another file in its place
        except BlockingIOError:
            if time.monotonic() > end:
                os.close(fd)
                raise
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(0.01)


def _salted(field: str) -> tuple[bytes, bytes] | None:
    parts = field.split("|")
    try:
        return base64.b64decode(parts[2], validate=True), base64.b64decode(parts[3], validate=True)
    except (IndexError, ValueError):
        return None


def _hashed(name: str) -> str:
    salt = secrets.token_bytes(20)
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def _patterns(names: str) -> _Patterns:
    """OpenSSH's patterns: ``*``, ``?`` and a leading ``!``; brackets are themselves (``[host]:port``)."""
    wanted: list[re.Pattern[str]] = []
    unwanted: list[re.Pattern[str]] = []
    for name in names.split(","):
        text = re.escape(name.removeprefix("!")).replace(r"\*", ".*").replace(r"\?", ".")
        (unwanted if name.startswith("!") else wanted).append(re.compile(text))
    return _Patterns(tuple(wanted), tuple(unwanted))
