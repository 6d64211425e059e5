"""Connections to the server that stand and have nothing under way: a request takes one before it opens one.

What opens a connection for each request measures the accepting of connections as well, and no client that a
server meets in service does so.
"""

from __future__ import annotations

import socket
from typing import List, Optional

from .stream import Stream, Target


class Pool:
    """The idle connections.

    Attributes:
        opened: How many connections were begun.
        resent: How many requests were sent again: their idle connection had ended meanwhile.
    """

    def __init__(self) -> None:
        self.opened = self.resent = 0
        self._idle: List[socket.socket] = []

    def send(self, stream: Stream, target: Target) -> bool:
        """Begin to send a request; whether all of it has gone."""
        idle = self._take()
        if idle is None:
            self.opened += 1
            stream.connect(target)
        else:
            stream.take(idle)
        whole = not stream.over and stream.send(stream.sent_at)  # a new connection on this host stands by now
        return self.again(stream, target) if stream.stale else whole

    def again(self, stream: Stream, target: Target) -> bool:
        """Send a request anew that came too late to an idle connection; whether all of it has gone."""
        self.opened, self.resent = self.opened + 1, self.resent + 1
        stream.close()
        stream.connect(target)
        return not stream.over and stream.send(stream.sent_at)

    def put(self, stream: Stream) -> None:
        """Take back the connection of an answer that is over, or hang up."""
        if stream.socket is None:
            return
        if stream.reusable:
            self._idle.append(stream.socket)
        else:
            stream.close()

    def close(self) -> None:
        """Hang up all of them."""
        while self._idle:
            self._idle.pop().close()

    def _take(self) -> Optional[socket.socket]:
        """The one that was used last: servers hang up what is idle for long."""
        while self._idle:
            found = self._idle.pop()
            try:
                found.recv(1, socket.MSG_PEEK)  # an end, or what nobody asked for
            except BlockingIOError:
                return found
            except OSError:
                pass
            found.close()
        return None
