"""What a channel has received and nobody has read yet, kept in the pieces it came in.

paramiko keeps it as one array and moves the rest of it to the front at each read: with a window of 2 MiB that
is most of what a large file costs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Protocol

import paramiko
from paramiko.buffered_pipe import PipeTimeout

_MOST = 16 << 20  # of a window of 2 MiB


class _Flag(Protocol):
    """What stands for "there is something" where a descriptor is polled."""

    def set(self) -> None: ...

    def clear(self) -> None: ...


class Chunks:
    """In place of paramiko's ``BufferedPipe``, with its promises: one thread feeds, another reads.

    Args:
        most: Bytes that may lie here unread. paramiko grants a window and does not see whether it is kept to:
            a server that sends without end would fill our memory where it is read slowly.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._changed = threading.Condition(threading.Lock())
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_closed = False
        self._flag: _Flag | None = None

    def __len__(self) -> int:
        return self._size

    def set_event(self, event: _Flag) -> None:
        """From now on this is set while there is something to read, and from the end on."""
        with self._changed:
            self._flag = event
            if self._pieces or self._is_closed:
                event.set()
            else:
                event.clear()

    def feed(self, data: bytes) -> None:
        """Take a piece.

        Raises:
            SSHException: More than what may come; in paramiko's own thread, which then ends the connection.
        """
        with self._changed:
            if self._size + len(data) > self._most:
                raise paramiko.SSHException("the server sends more than it was granted")
            if data:
                self._pieces.append(data)
                self._size += len(data)
            self._tell()

    def close(self) -> None:
        """Nothing more comes."""
        with self._changed:
            self._is_closed = True
            self._tell()

    def read_ready(self) -> bool:
        """Whether there is something."""
        return bool(self._pieces)

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:
        """At most so many bytes, whole pieces where they fit; empty at the end.

        Raises:
            PipeTimeout: Nothing came in so many seconds.
        """
        with self._changed:
            self._await(timeout)
            return self._taken(nbytes)

    def empty(self) -> bytes:
        """All of it, at once."""
        with self._changed:
            return self._taken(self._size)

    def _tell(self) -> None:
        if self._flag is not None:
            self._flag.set()
        self._changed.notify_all()

    def _await(self, timeout: float | None) -> None:
        """Wait until there is something or the end has come."""
        due = None if timeout is None else time.monotonic() + timeout
        while not self._pieces and not self._is_closed:
            left = None if due is None else due - time.monotonic()
            if left is not None and left <= 0:
                raise PipeTimeout
            self._changed.wait(left)

    def _taken(self, most: int) -> bytes:
        pieces: list[bytes] = []
        room = most
        while self._pieces and len(self._pieces[0]) <= room:
            pieces.append(self._pieces.popleft())
            room -= len(pieces[-1])
        if self._pieces and not pieces:
            first = self._pieces[0]
            pieces, self._pieces[0] = [first[:most]], first[most:]
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._size -= len(data)
        if not self._pieces and self._flag is not None and not self._is_closed:
            self._flag.clear()
        return data


def in_pieces(channel: paramiko.Channel) -> paramiko.Channel:
    """The same channel, keeping what comes in pieces; before anything was asked of it."""
    for name in ("in_buffer", "in_stderr_buffer"):
        setattr(channel, name, Chunks())
        if channel.eof_received or channel.closed:  # what had ended already stays so
            getattr(channel, name).close()
    return channel
