"""The host's end of a channel that carries files: one behind the other, each checked, whole or not there.

A program of its own on a second channel, sent as its source. The controller says in one line of JSON what it
wants; then bytes follow, with nothing between them:

``{"do": "send", "root", "files": [{path, size, offset}], "silence_s", "alive_s"}``: each file's bytes from
``offset`` to ``size``, as many as were announced and no more, and behind them the 32 bytes of the sha256 of
all its bytes.
While nothing is sent, because what is there already is read for its checksum, an empty line on stderr every
``alive_s`` says that we are alive.

``{"do": "put", "root", "folders": [{path, mode}], "files": [{path, size, mode, sha256}], "check",
"silence_s"}``: answered by ``{"have": [bytes, …], "root"}`` on a line: how much of each is here: all of it,
where a file of that name is the same; the part that an interrupted one left; or -1. Unless ``check`` is set,
the bytes behind that are taken, and at the end comes ``{"put": count}``.

``{"error": {what, path}}`` may come in place of any line, and is the last. Where files are sent, the stream
ends instead, and the reason stands on stderr.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

_BLOCK = 1 << 18
_LARGE = 1 << 20
# What a pipe holds at most, and what makes a packet worth sending.
_PIECE = 1 << 16
_PACKET = 1 << 14
_FIRST_S = 60.0  # until the order has come, which says how long silence is borne


class Refused(Exception):
    """What cannot be done, and where."""

    def __init__(self, what: str, path: str) -> None:
        Exception.__init__(self, what)
        self.path = path


class _Source:
    """Our input. Whoever says nothing for too long is gone: SIGALRM ends us, as silence ends an agent."""

    def __init__(self) -> None:
        self.silence_s = _FIRST_S
        self._file: Any = os.fdopen(0, "rb", _BLOCK)

    def readline(self) -> bytes:
        """A line, with its end; empty at the end of the input."""
        with _Watch(self.silence_s):
            line: bytes = self._file.readline()
            return line

    def read1(self, size: int) -> bytes:
        """At most so many bytes; empty at the end of the input."""
        with _Watch(self.silence_s):
            data: bytes = self._file.read1(size)
            return data


class _Sink:
    """Our output, likewise: nobody takes it any more where a cable was pulled out."""

    def __init__(self) -> None:
        self.silence_s = _FIRST_S
        self._held = bytearray()

    def write(self, data: bytes) -> None:
        """All of it, with what was held, in pieces that even a slow line takes in time."""
        if self._held:
            data, self._held = bytes(self._held) + data, bytearray()
        rest = memoryview(data)
        while rest:
            with _Watch(self.silence_s):
                rest = rest[os.write(1, rest[:_PIECE]) :]

    def gather(self, data: bytes) -> None:
        """Hold small pieces until together they are worth a packet; whoever gathers flushes in the end."""
        if len(data) >= _PACKET:
            self.write(data)
            return
        self._held += data
        if len(self._held) >= _PACKET:
            self.flush()

    def flush(self) -> None:
        """Write what is held."""
        self.write(b"")


class _Watch:
    """So many seconds for what stands in its block."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main(mark: str) -> int:
    """Say that we are here, read the order, follow it."""
    source, sink = _Source(), _Sink()
    sink.write(mark.encode() + b"\n")
    line = b"\n"
    # A start-up file may have been meant to read a line, and did not.
    while not line.startswith(mark.encode()):
        line = source.readline()
        if not line:
            return 3
    order = json.loads(line[len(mark) :].decode())
    source.silence_s = sink.silence_s = float(order["silence_s"])
    try:
        if order["do"] == "send":
            _send(order, sink)
        else:
            _put(order, source, sink)
    except (Refused, OSError) as error:
        path = getattr(error, "path", None) or getattr(error, "filename", None) or order["root"]
        what = getattr(error, "strerror", None) or str(error)
        if order["do"] == "send":
            sys.stderr.write("%s: %s\n" % (os.fsdecode(path), what))
        else:
            _say(sink, {"error": {"what": what, "path": os.fsdecode(path)}})
        return 1
    return 0


def _say(sink: Any, message: Dict[str, Any]) -> None:
    sink.write(json.dumps(message).encode() + b"\n")


def _send(order: Dict[str, Any], sink: Any) -> None:
    """As many bytes of each file as were announced, and their checksum."""
    try:
        for item in order["files"]:
            path = os.path.join(order["root"], item["path"])
            # Without blocking: it may have become a pipe since it was announced.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(fd, "rb", 0) as file:
                before = os.fstat(fd)
                if not stat.S_ISREG(before.st_mode):
                    raise Refused("is no regular file any more", item["path"])
                digest = _send_one(file, item, sink, order["alive_s"])
                after = os.fstat(fd)
                # What only grew is as it was, as far as it was announced.
                if after.st_mtime_ns != before.st_mtime_ns and after.st_size <= item["size"]:
                    raise Refused("was written while it was read", item["path"])
                sink.gather(digest)
    finally:
        sink.flush()  # the files before the one that cannot be sent are whole


def _send_one(file: Any, item: Dict[str, Any], sink: Any, alive_s: float) -> bytes:
    """The bytes of one; the checksum of all that it has, sent or not."""
    digest, at, told = hashlib.sha256(), 0, time.monotonic()
    while at < item["size"]:
        is_there = at < item["offset"]
        block = file.read(min((item["offset"] if is_there else item["size"]) - at, _BLOCK))
        if not block:
            raise Refused("is shorter than it was announced", item["path"])
        digest.update(block)
        if not is_there:
            sink.gather(block)
        elif time.monotonic() - told > alive_s:
            told = time.monotonic()
            sink.flush()
            sys.stderr.write("\n")
        at += len(block)
    return digest.digest()


def _put(order: Dict[str, Any], source: Any, sink: Any) -> None:
    """Take files; see the module."""
    root = os.path.abspath(os.path.expanduser(order["root"]))
    files = [dict(item, place=_place(root, item["path"])) for item in order["files"]]
    for item in files:
        item["have"] = _have(item)
    _check_room(root, sum(item["size"] - max(item["have"], 0) for item in files))
    _say(sink, {"have": [item["have"] for item in files], "root": root})
    if order["check"]:
        return
    for folder in order["folders"]:
        place = os.path.join(root, folder["path"]) if folder["path"] else root
        if not os.path.isdir(place):
            os.makedirs(place)
            os.chmod(place, folder["mode"])
    for item in files:
        if item["have"] < item["size"]:
            _take(item, max(item["have"], 0), source)
        elif stat.S_IMODE(os.stat(item["place"]).st_mode) != item["mode"]:
            os.chmod(item["place"], item["mode"])
    _say(sink, {"put": len(files)})


def _place(root: str, path: str) -> str:
    place = os.path.join(root, path) if path else root
    if os.path.isdir(place):
        raise Refused("is a folder, and a file is to be put there", place)
    return place


def _part(item: Dict[str, Any]) -> str:
    """Its temporary name, the same for the same bytes: an interrupted transfer is gone on with."""
    folder, name = os.path.split(item["place"])
    word = hashlib.sha256((name + "\0" + item["sha256"]).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return os.path.join(folder, ".stoker-%s.part" % word)


def _have(item: Dict[str, Any]) -> int:
    """How many bytes of a file are here; -1 for none of it."""
    size = int(item["size"])
    try:
        info = os.stat(item["place"])
        same = stat.S_ISREG(info.st_mode) and info.st_size == size
        if (
            same
            and not os.path.islink(item["place"])
            and _digest(item["place"]).hexdigest() == item["sha256"]
        ):
            return size
    except OSError:
        pass
    try:
        info = os.lstat(_part(item))
    except OSError:
        return -1
    return info.st_size if stat.S_ISREG(info.st_mode) and info.st_size < size else -1


def _digest(path: str) -> Any:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            digest.update(block)
    return digest


def _check_room(root: str, size: int) -> None:
    """Say that the disk is too small before it is full."""
    folder = root
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if size > free:
        raise Refused("%d bytes do not fit: %d are free" % (size, free), folder)


def _take(item: Dict[str, Any], there: int, source: Any) -> None:
    """One file: under its temporary name, checked, synced, renamed."""
    part = _part(item)
    os.makedirs(os.path.dirname(part), exist_ok=True)
    digest = _digest(part) if there else hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_APPEND if there else os.O_TRUNC)
    with open(os.open(part, flags, 0o600), "wb", 0) as out:
        left = item["size"] - there
        while left:
            block = source.read1(min(left, _BLOCK))
            if not block:
                raise Refused("the stream ended in the middle of it", item["place"])
            _write(out, block)
            digest.update(block)
            left -= len(block)
        if digest.hexdigest() != item["sha256"]:
            os.unlink(part)
            raise Refused("what came is not what was announced: it changed on the way", item["place"])
        os.fchmod(out.fileno(), item["mode"])
        if item["size"] >= _LARGE:  # thousands of small ones would wait for the disk thousands of times
            os.fsync(out.fileno())
    os.rename(part, item["place"])


def _write(out: Any, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[out.write(rest) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
