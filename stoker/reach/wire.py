"""The controller's end of the wire: messages over a channel, each a 4-byte length and JSON."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

from stoker.reach.door import Unreachable
from stoker.reach.transport import Channel, Deadline

_TICK_S = 0.2
_MAX_FRAME = 16 << 20
_HEAD = struct.Struct("!I")
_ERRORS_KEPT = 8192


class Wire:
    """Messages to and from one agent: sent from any thread, read in one at a time.

    Args:
        channel: Where the agent runs.
        received: What came of its first message already.
        silence_s: Without a byte for this long the link is lost.
    """

    def __init__(self, channel: Channel, received: bytes, silence_s: float) -> None:
        self._channel = channel
        self._silence_s = silence_s
        self._sending = threading.Lock()
        self._buffer = bytearray(received)
        self._errors = b""

    @property
    def last_words(self) -> list[str]:
        """The end of what the agent's process wrote to its error stream."""
        return self._errors.decode(errors="replace").splitlines()[-5:]

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            Unreachable: The link is gone.
            ValueError: It is over the limit.
        """
        body = json.dumps(message, separators=(",", ":")).encode()
        if len(body) > _MAX_FRAME:
            raise ValueError(f"a request of {len(body)} bytes is over the limit of {_MAX_FRAME}")
        with self._sending:
            self._channel.send(_HEAD.pack(len(body)) + body)

    def messages(self) -> Iterator[dict[str, Any] | None]:
        """Every message as it comes, and None after each look, so that deadlines are noticed.

        Raises:
            Unreachable: The link is gone, or silent for too long.
        """
        heard = time.monotonic()
        while True:
            yield from self._complete()
            yield None
            said = self._channel.read(_TICK_S)
            if said is not None:
                heard = time.monotonic()
                self._take(*said)
            elif time.monotonic() - heard > self._silence_s:
                raise Unreachable("lost", f"nothing was heard for {self._silence_s:g} s")

    def await_end(self, deadline: Deadline) -> None:
        """Pass over what still comes until the agent has ended.

        Raises:
            Unreachable: The link is gone.
        """
        while not deadline.passed and self._channel.read(deadline.left_s) != ("stdout", b""):
            continue

    def _complete(self) -> Iterator[dict[str, Any]]:
        """The messages that lie complete in the buffer."""
        while len(self._buffer) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._buffer)
            if size > _MAX_FRAME:
                raise Unreachable("lost", "the agent sent what is no message")
            end = _HEAD.size + size
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield _message(body)

    def _take(self, stream: str, data: bytes) -> None:
        if stream == "stderr":
            self._errors = (self._errors + data)[-_ERRORS_KEPT:]
        elif data:
            self._buffer += data
        else:
            status = self._channel.exit_status(1.0)
            how = f" with status {status}" if status is not None and status >= 0 else ""
            raise Unreachable("lost", f"the agent ended{how}")


def _message(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except ValueError as error:
        raise Unreachable("lost", "the agent sent what is no message") from error
    return message if isinstance(message, dict) else {}
