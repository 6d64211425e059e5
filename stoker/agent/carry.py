"""The host's end of a channel that carries files: one behind the other, each checked, whole or not there.

A program of its own on a second channel, sent as its source. The controller says in one line of JSON what it
wants; then bytes follow, with nothing between them:

``{"do": "send", "root", "files": [{path, size, offset}], "silence_s", "alive_s"}``: each file's bytes from
``offset`` to ``size``, as many as were announced and no more, and behind them the 32 bytes of the sha256 of
all its bytes.

``{"do": "put", "root", "folders": [{path, mode}], "files": [{path, size, mode, sha256}], "check",
"silence_s", "alive_s"}``: answered by ``{"have": [bytes, …], "root"}`` on a line: how much of each is here:
all of it, where a file of that name is the same; the part that an interrupted one left; or -1. Unless
``check`` is set, the bytes behind that are taken, and at the end comes ``{"put": count}``.

While nothing is said, because what is there already is read for its checksum, an empty line on stderr every
``alive_s`` says that we are alive. While files are sent, whatever comes on our input says that of their
reader.

``{"error": {what, path}}`` may come in place of any line, and is the last. Where files are sent, the stream
ends instead, and the reason stands on stderr.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Tuple

_BLOCK = 1 << 18
_LARGE = 1 << 20
# What a pipe holds at most, and what makes a packet worth sending.
_PIECE = 1 << 16
_PACKET = 1 << 14
_MOST_OPEN = 64  # parts at once; an interruption leaves one
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


class _Alive:
    """Says now and then that we are, while we read what nobody waits for."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._told = time.monotonic()

    def tick(self) -> None:
        """A block was read."""
        if time.monotonic() - self._told > self._seconds:
            self._told = time.monotonic()
            sys.stderr.write("\n")


class _Watch:
    """So many seconds for what stands in its block."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds, self._seconds)

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
            signal.signal(signal.SIGALRM, _heard)
            _send(order, sink)
        else:
            _put(order, source, sink)
    except (Refused, OSError) as error:
        path = getattr(error, "path", None) or getattr(error, "filename", None)
        path = path if isinstance(path, (str, bytes)) else order["root"]  # of an open file it is a number
        what = getattr(error, "strerror", None) or str(error)
        if order["do"] == "send":
            sys.stderr.write("%s: %s\n" % (os.fsdecode(path), what))
        else:
            _say(sink, {"error": {"what": what, "path": os.fsdecode(path)}})
        return 1
    return 0


def _heard(*_: Any) -> None:
    """Whoever takes nothing but speaks is busy with what it has; whoever says nothing either is gone."""
    if not select.select([0], [], [], 0)[0] or not os.read(0, 1 << 16):
        os._exit(4)


def _say(sink: Any, message: Dict[str, Any]) -> None:
    sink.write(json.dumps(message).encode() + b"\n")


def _send(order: Dict[str, Any], sink: Any) -> None:
    """As many bytes of each file as were announced, and their checksum."""
    alive = _Alive(order["alive_s"])
    try:
        for item in order["files"]:
            path = os.path.join(order["root"], item["path"])
            # Without blocking: it may have become a pipe since it was announced.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                _send_whole(fd, item, sink, alive)
            except OSError as error:  # which knows the number of the file only
                raise Refused(error.strerror or str(error), item["path"]) from error
            finally:
                os.close(fd)
    finally:
        sink.flush()  # the files before the one that cannot be sent are whole


def _send_whole(fd: int, item: Dict[str, Any], sink: Any, alive: Any) -> None:
    """One of them, if it stays what it was."""
    before = os.fstat(fd)
    if not stat.S_ISREG(before.st_mode):
        raise Refused("is no regular file any more", item["path"])
    digest = _send_one(fd, item, sink, alive)
    after = os.fstat(fd)
    # What only grew is as it was, as far as it was announced.
    if after.st_mtime_ns != before.st_mtime_ns and after.st_size <= item["size"]:
        raise Refused("was written while it was read", item["path"])
    sink.gather(digest)


def _send_one(fd: int, item: Dict[str, Any], sink: Any, alive: Any) -> bytes:
    """The bytes of one; the checksum of all that it has, sent or not."""
    digest, at = hashlib.sha256(), 0
    while at < item["size"]:
        is_there = at < item["offset"]
        block = os.read(fd, min((item["offset"] if is_there else item["size"]) - at, _BLOCK))
        if not block:
            raise Refused("is shorter than it was announced", item["path"])
        digest.update(block)
        if not is_there:
            sink.gather(block)
        else:
            sink.flush()
            alive.tick()
        at += len(block)
    return digest.digest()


def _put(order: Dict[str, Any], source: Any, sink: Any) -> None:
    """Take files; see the module."""
    root = os.path.abspath(os.path.expanduser(order["root"]))
    files = [dict(item, place=_place(root, item["path"])) for item in order["files"]]
    alive, parts = _Alive(order["alive_s"]), 0
    for item in files:
        item["have"] = _have(item, alive, parts < _MOST_OPEN)
        parts += "part" in item
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


def _have(item: Dict[str, Any], alive: Any, may_open: bool) -> int:
    """How many bytes of a file are here; -1 for none of it. A part of it stays open and locked."""
    size, place = int(item["size"]), item["place"]
    try:
        info = os.lstat(place)
        if stat.S_ISREG(info.st_mode) and info.st_size == size:
            with open(place, "rb") as file:
                if _digest(file, alive).hexdigest() == item["sha256"]:
                    return size
    except OSError:
        pass
    part = _locked(_part(item)) if may_open else None
    if part is None:
        return -1
    there = os.fstat(part.fileno()).st_size
    item["part"], item["digest"] = part, hashlib.sha256()
    if there < size:
        item["digest"] = _digest(part, alive)
        return there
    part.truncate(0)
    return -1


def _locked(path: str) -> Any:
    """A part that an interrupted transfer left; None where there is none, or another fills it just now."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    file = open(fd, "r+b", 0)  # noqa: SIM115 - it stays open with its lock
    try:
        info = os.fstat(fd)
        # Under the same name still: who had the lock before us may have finished it.
        if stat.S_ISREG(info.st_mode) and _lock(fd) and os.path.samestat(info, os.lstat(path)):
            return file
    except OSError:
        pass
    file.close()
    return None


def _lock(fd: int) -> bool:
    """Whether the file is ours; it is where its file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EINTR)
    return True


def _digest(file: Any, alive: Any) -> Any:
    digest = hashlib.sha256()
    for block in iter(lambda: file.read(_BLOCK), b""):
        digest.update(block)
        alive.tick()
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
    os.makedirs(os.path.dirname(item["place"]), exist_ok=True)
    path, part, lasts = _opened(item)
    digest, is_kept = item.get("digest") or hashlib.sha256(), lasts
    with part:
        try:
            _fill(item, there, source, part, digest)
            if digest.hexdigest() != item["sha256"]:
                is_kept = False
                raise Refused("what came is not what was announced: it changed on the way", item["place"])
            os.fchmod(part.fileno(), item["mode"])
            if item["size"] >= _LARGE:  # thousands of small ones would wait for the disk thousands of times
                os.fsync(part.fileno())
            os.rename(path, item["place"])
            is_kept = True
        finally:
            if not is_kept:
                os.unlink(path)


def _opened(item: Dict[str, Any]) -> Tuple[str, Any, bool]:
    """(path, file, whether the next transfer can go on with it) of what a file is written to."""
    path = _part(item)
    if "part" in item:
        return path, item["part"], True
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
        if _lock(fd):
            return path, open(fd, "wb", 0), True
        os.close(fd)
    except FileExistsError:
        pass
    # Another transfer of the same file is at it.
    path = os.path.join(os.path.dirname(path), ".stoker-%s.part" % os.urandom(8).hex())
    return path, open(os.open(path, flags, 0o600), "wb", 0), False


def _fill(item: Dict[str, Any], there: int, source: Any, part: Any, digest: Any) -> None:
    """The rest of its bytes."""
    left = item["size"] - there
    while left:
        block = source.read1(min(left, _BLOCK))
        if not block:
            raise Refused("the stream ended in the middle of it", item["place"])
        _write(part, block)
        digest.update(block)
        left -= len(block)


def _write(out: Any, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[out.write(rest) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
