"""The wire: frames of a 4-byte big-endian length and that many bytes of UTF-8 JSON, at most 16 MiB."""

from __future__ import annotations

import _thread
import math
import os
import select
import struct

from . import quickjson

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, Optional

MAX_FRAME = 16 << 20
# A pipe that poll() calls writable takes this much without blocking.
_CHUNK = select.PIPE_BUF
_HEAD = struct.Struct("!I")


class FrameError(Exception):
    """The peer sent what is no frame: the two sides have lost step, nothing after it can be trusted."""


class OversizeError(ValueError):
    """A message of ours exceeds the limit; nothing of it was sent."""


def encode(message: Dict[str, Any]) -> bytes:
    """One message as a frame.

    Text that is not valid Unicode (file names and process titles carry any byte) has U+FFFD in place of what
    cannot be encoded; numbers that JSON does not know (NaN, infinities) become null.

    Raises:
        OversizeError: Over 16 MiB.
        TypeError: A value is no JSON type.
    """
    try:
        text = quickjson.dumps(message)
    except ValueError:
        text = quickjson.dumps(_finite(message))
    try:
        body = text.encode("utf-8")
    except UnicodeEncodeError:
        body = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode("utf-8")
    if len(body) > MAX_FRAME:
        raise OversizeError("%d bytes in one message, the limit is %d" % (len(body), MAX_FRAME))
    return _HEAD.pack(len(body)) + body


def _finite(value: Any) -> Any:
    """The same value with null for each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


class Frames:
    """Bytes in, messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Dict[str, Any]]:
        """Every message that is complete once ``data`` has arrived.

        Raises:
            FrameError: A length over the limit, or no JSON object.
        """
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._buffer)
            if size > MAX_FRAME:
                raise FrameError("a frame of %d bytes, the limit is %d" % (size, MAX_FRAME))
            end = _HEAD.size + size
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield _message(body)


def _message(body: bytes) -> Dict[str, Any]:
    try:
        message = quickjson.loads(body.decode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise FrameError("a frame that is no JSON: %s" % error) from error
    if not isinstance(message, dict):
        raise FrameError("a frame that is no JSON object")
    return message


class Wire:
    """The agent's way out: whole frames, from any thread.

    Args:
        fd: Where frames go.
        is_lost: Asked while the peer does not read. True drops what is left: a step that must finish is
            never held up by a controller that is gone.
    """

    def __init__(self, fd: int, is_lost: Callable[[], bool] = lambda: False) -> None:
        self._fd = fd
        self._is_lost = is_lost
        self._lock = _thread.allocate_lock()  # `threading` would cost every connection four milliseconds
        self._dead = False
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def send(self, message: Dict[str, Any], patience_s: Optional[float] = None) -> bool:
        """Send one message, whole or not at all.

        Args:
            message: JSON types.
            patience_s: How long another thread may hold the wire; None: as long as it takes.

        Returns:
            False when it was dropped: the peer is gone, or the wire was busy for longer than ``patience_s``.
        """
        frame = memoryview(encode(message))
        if not self._lock.acquire(timeout=-1 if patience_s is None else patience_s):
            return False
        try:
            return self._write(frame)
        finally:
            self._lock.release()

    def _write(self, rest: memoryview) -> bool:
        while rest and not self._dead:
            if not self._poll.poll(500):
                # Half a frame cannot be taken back: after a drop nothing more is sent.
                self._dead = self._is_lost()
                continue
            try:
                rest = rest[os.write(self._fd, rest[:_CHUNK]) :]
            except OSError:
                self._dead = True
        return not self._dead
