"""One run of ``serve``: requests are sent when they are due, and answers taken in; one thread, one epoll."""

from __future__ import annotations

import select
import time
from array import array
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .load import LINGER_S, TICK_S, Limits
from .pool import Pool
from .stream import Stream, Target
from .workload import Order, Prompts

_BURST = 16  # requests that are sent in one go
_MOST_FD = 1023  # that select(2) can look at


class Asked(NamedTuple):
    """A stream and the words of its prompt."""

    stream: Stream
    words: int


class Window:
    """One run: what is still to be sent, what is under way, what is done.

    Args:
        target: Where.
        prompts: What is asked.
        pool: Connections, of earlier windows too.
        coming: The requests; those without a time come when another one is done.
        width: How many of those at once.
        seconds: None of those comes later; 0: they are counted.
        exact: Whether an order's input is in words.

    Attributes:
        began: When it began, ``time.perf_counter``.
    """

    def __init__(
        self,
        target: Target,
        prompts: Prompts,
        pool: Pool,
        coming: Iterator[Order],
        width: int,
        seconds: float = 0.0,
        exact: bool = False,
    ) -> None:
        self.began = 0.0
        self._target, self._prompts, self._pool, self._coming = target, prompts, pool, coming
        self._width, self._seconds, self._exact = width, seconds, exact
        self._asked: List[Asked] = []
        self._open: Dict[int, Stream] = {}
        self._free: List[float] = []  # since when a place of the closed loop is free
        self._pending = 0  # answers that are not whole
        self._next: Optional[Tuple[Order, int, bytes]] = None

    def run(self, check: Callable[[], None], limits: Limits) -> List[Asked]:
        """Send all of it and take in every answer."""
        self._prepare()
        self.began = time.perf_counter()
        self._free = [self.began] * self._width
        with select.epoll() as poll:
            try:
                self._turn(poll, check, limits)
            finally:
                for stream in self._open.values():
                    stream.close()
        return self._asked

    def _turn(self, poll: select.epoll, check: Callable[[], None], limits: Limits) -> None:
        look_at, quiet_since = self.began + TICK_S, 0.0
        while True:
            now = time.perf_counter()
            due = self._send_due(poll, now)
            if due is None and not self._pending:
                quiet_since = quiet_since or now
                if not self._open or now - quiet_since > LINGER_S:
                    return  # every answer is whole; a server that does not hang up is not waited for
            ready = _wait(poll, due if due is not None and due < look_at else None, look_at)
            # What is readable now had arrived by now, however long it takes to get through all of it.
            now = time.perf_counter()
            for fd, events in ready:
                self._serve(poll, fd, events, now)
            if now >= look_at:
                look_at = now + TICK_S
                check()
                self._expire(poll, now, limits)

    def _send_due(self, poll: select.epoll, now: float) -> Optional[float]:
        """Send what should have been sent by now; when the next one is due, if that is known."""
        for _ in range(_BURST):  # and then look at what has come, however many are late
            if self._next is None:
                return None
            order = self._next[0]
            if order.at_s is not None:
                due = self.began + order.at_s
                if due > now:
                    return due
            elif not self._free:
                return None
            else:
                due = self._free.pop(0)
                if self._seconds and due - self.began >= self._seconds:
                    self._next = None
                    return None
            self._send(poll, due)
            now = time.perf_counter()
        return now

    def _prepare(self) -> None:
        """The next request as it will be sent: made while there is time."""
        order = next(self._coming, None)
        if order is None:
            self._next = None
            return
        words = order.input if self._exact else self._prompts.words(order.input)
        asked = self._target.request(self._prompts.text(words), order.output, keep=True)
        self._next = (order, words, asked)

    def _send(self, poll: select.epoll, due: float) -> None:
        assert self._next is not None
        order, words, request_ = self._next
        stream = Stream(order.number, request_, order.output, time.perf_counter(), keep=True)
        stream.due_at, stream.gaps = due, array("d")
        self._asked.append(Asked(stream, words))
        self._pending += 1
        self._follow(poll, stream, self._pool.send(stream, self._target))
        self._prepare()

    def _follow(self, poll: select.epoll, stream: Stream, whole: bool) -> None:
        """Wait for its answer, and for room for what of it has not gone."""
        if not stream.over and stream.socket is not None:
            fd = stream.socket.fileno()
            self._open[fd] = stream
            poll.register(fd, select.EPOLLIN if whole else select.EPOLLIN | select.EPOLLOUT)
        else:
            self._done(stream)

    def _serve(self, poll: select.epoll, fd: int, events: int, now: float) -> None:
        stream = self._open[fd]
        waited = stream.ended_at is None
        if events & select.EPOLLOUT and stream.send(now) and not stream.over:
            poll.modify(fd, select.EPOLLIN)
        if not stream.over and events & ~select.EPOLLOUT:
            stream.receive(now)
        self._settle(poll, fd, stream, waited)

    def _settle(self, poll: select.epoll, fd: int, stream: Stream, waited: bool) -> None:
        """Note what has ended; send anew what met the end of an idle connection."""
        if waited and stream.ended_at is not None:
            self._done(stream)
        if stream.over or stream.stale:
            poll.unregister(fd)
            del self._open[fd]
        if stream.over:
            self._pool.put(stream)
        elif stream.stale:
            self._follow(poll, stream, self._pool.again(stream, self._target))

    def _done(self, stream: Stream) -> None:
        self._pending -= 1
        if self._width and stream.ended_at is not None:
            self._free.append(stream.ended_at)

    def _expire(self, poll: select.epoll, now: float, limits: Limits) -> None:
        """End the streams that are silent, or take longer than any server that is worth measuring."""
        for fd, stream in list(self._open.items()):
            waited = stream.ended_at is None
            longest = limits.silence_s + limits.token_s * stream.requested
            if stream.ended_at is not None:
                stream.over = now - stream.ended_at > LINGER_S
            elif now - stream.heard_at > limits.silence_s:
                stream.fail("timeout", "nothing came for %g s" % limits.silence_s, now)
            elif now - stream.sent_at > longest:
                stream.fail("timeout", "not complete within %g s" % longest, now)
            self._settle(poll, fd, stream, waited)


def _wait(poll: select.epoll, due: Optional[float], look_at: float) -> List[Tuple[int, int]]:
    """What is ready before the next request is due, or by the next look around.

    epoll by itself waits whole milliseconds, select(2) on it microseconds.
    """
    left = max(0.0, (look_at if due is None else due) - time.perf_counter())
    if due is not None and left and poll.fileno() <= _MOST_FD:
        select.select([poll], [], [], left)
        left = 0.0
    return poll.poll(left)
