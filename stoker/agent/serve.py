"""The load generator of ``serve``: requests that come at a rate, or so many at once; one thread, one epoll.

Latencies count from the moment at which a request should have been sent. At a rate that is its drawn arrival,
also where the generator or the server's backlog delayed the sending; else the end of the request before it.
So a server that stalls is charged with every request that came meanwhile (no coordinated omission).
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import select
import time
from array import array
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from . import figures
from .load import LINGER_S, TICK_S, WARMUP, Limits, Measured, Request, Run, request
from .stream import Stream, Target
from .workload import Order, Prompts, Serve, orders

_PROBES = (4, 24)  # words of the two requests that tell how many tokens a word takes
_PROBE_TOKENS = 2
_WARMUP_REQUESTS = 8
_DESCRIPTORS = 65536
_MOST_FD = 1023  # that select(2) can look at


class _Asked(NamedTuple):
    """A stream and the words of its prompt."""

    stream: Stream
    words: int


def measure(
    target: Target,
    serve: Serve,
    seed: str,
    check: Callable[[], None] = lambda: None,
    report: Callable[[Run], None] = lambda run: None,
    limits: Limits = Limits(),  # noqa: B008 - it cannot be changed
) -> Measured:
    """Learn how long words are, warm up, then measure.

    Args:
        target: Where.
        serve: What is asked.
        seed: Of the prompts: another one each time, or a prefix cache answers.
        check: Called some ten times a second; may raise to end it.
        report: Gets each run when it ends.
        limits: How long is waited.
    """
    began = time.thread_time()
    prompts = Prompts(seed)
    requests: List[Request] = []

    def once(window: Window, index: int) -> Tuple[Run, List[_Asked]]:
        asked = window.run(check, limits)
        streams = [one.stream for one in asked]
        requests.extend(_row(index, stream, window.began) for stream in streams)
        return figures.of_run(index, streams, window.began, serve), asked

    with descriptors():
        for words in _PROBES:
            probe = Window(target, prompts, iter([Order(-1, None, words, _PROBE_TOKENS)]), 1, exact=True)
            prompts.learn(_seen(once(probe, WARMUP)[1]))
        warmup, asked = once(_warmup(target, prompts, serve), WARMUP)
        prompts.learn(_seen(asked))
        report(warmup)
        if all(one.stream.error for one in asked):
            return Measured(warmup, [{**warmup, "index": 0}], requests, time.thread_time() - began, 0.0)
        runs: List[Run] = []
        share = 0.0
        for index in range(serve.runs):
            busy, at = time.thread_time(), time.perf_counter()
            run, asked = once(Window(target, prompts, orders(serve), serve.concurrency, serve.seconds), index)
            share = max(share, (time.thread_time() - busy) / max(1e-9, time.perf_counter() - at))
            runs.append(run)
            report(run)
            if all(one.stream.error for one in asked):
                break  # it will not get better
    return Measured(warmup, runs, requests, round(time.thread_time() - began, 6), round(share, 4))


def _warmup(target: Target, prompts: Prompts, serve: Serve) -> Window:
    """A few requests of the kind that is measured, as many at once as there will be."""
    width = serve.concurrency or _WARMUP_REQUESTS
    count = max(width, _WARMUP_REQUESTS)
    some = (order._replace(at_s=None) for order in itertools.islice(orders(serve), count))
    return Window(target, prompts, some, width)


class Window:
    """One run: what is still to be sent, what is under way, what is done.

    Args:
        target: Where.
        prompts: What is asked.
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
        coming: Iterator[Order],
        width: int,
        seconds: float = 0.0,
        exact: bool = False,
    ) -> None:
        self.began = 0.0
        self._target, self._prompts, self._coming = target, prompts, coming
        self._width, self._seconds, self._exact = width, seconds, exact
        self._asked: List[_Asked] = []
        self._open: Dict[int, Stream] = {}
        self._free: List[float] = []  # since when a place of the closed loop is free
        self._pending = 0  # answers that are not whole
        self._next: Optional[Tuple[Order, int, bytes]] = None

    def run(self, check: Callable[[], None], limits: Limits) -> List[_Asked]:
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
            ready = _wait(poll, look_at if due is None else min(due, look_at))
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
        while self._next is not None:
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
        return None

    def _prepare(self) -> None:
        """The next request as it will be sent: made while there is time."""
        order = next(self._coming, None)
        if order is None:
            self._next = None
            return
        words = order.input if self._exact else self._prompts.words(order.input)
        self._next = (order, words, self._target.request(self._prompts.text(words), order.output))

    def _send(self, poll: select.epoll, due: float) -> None:
        assert self._next is not None
        order, words, request_ = self._next
        stream = Stream(order.number, request_, order.output, time.perf_counter())
        stream.due_at, stream.gaps = due, array("d")
        self._asked.append(_Asked(stream, words))
        self._pending += 1
        stream.connect(self._target)
        if not stream.over:
            whole = stream.send(stream.sent_at)  # a connection on this host stands by now
        if not stream.over and stream.socket is not None:
            fd = stream.socket.fileno()
            self._open[fd] = stream
            poll.register(fd, select.EPOLLIN if whole else select.EPOLLIN | select.EPOLLOUT)
        else:
            self._done(stream)
        self._prepare()

    def _serve(self, poll: select.epoll, fd: int, events: int, now: float) -> None:
        stream = self._open[fd]
        waited = stream.ended_at is None
        if events & select.EPOLLOUT and stream.send(now) and not stream.over:
            poll.modify(fd, select.EPOLLIN)
        if not stream.over and events & ~select.EPOLLOUT:
            stream.receive(now)
        self._settle(poll, fd, stream, waited)

    def _settle(self, poll: select.epoll, fd: int, stream: Stream, waited: bool) -> None:
        """Note what has ended."""
        if waited and stream.ended_at is not None:
            self._done(stream)
        if stream.over:
            poll.unregister(fd)
            stream.close()
            del self._open[fd]

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


def _wait(poll: select.epoll, until: float) -> List[Tuple[int, int]]:
    """What is ready by then: epoll by itself waits whole milliseconds, select(2) on it microseconds."""
    left = max(0.0, until - time.perf_counter())
    if 0 < left < TICK_S and poll.fileno() <= _MOST_FD:
        select.select([poll], [], [], left)
        left = 0.0
    return poll.poll(left)


def _seen(asked: List[_Asked]) -> List[Tuple[int, int]]:
    """Words and tokens of the prompts that the server counted."""
    counted = [(one.words, figures.prompt_tokens(one.stream)) for one in asked]
    return [(words, tokens) for words, tokens in counted if tokens]


def _row(run: int, stream: Stream, began: float) -> Request:
    """A request of the contract, with when it was due and how late it was sent."""
    row = request(run, stream)
    shift = stream.sent_at - stream.due_at
    row["due_s"], row["late_s"] = round(stream.due_at - began, 6), round(shift, 6)
    row["seconds"] = round(row["seconds"] + shift, 6)
    if row["ttft_s"] is not None:
        row["ttft_s"] = round(row["ttft_s"] + shift, 6)
    row["input"] = figures.prompt_tokens(stream)
    return row


@contextlib.contextmanager
def descriptors() -> Iterator[None]:
    """As many descriptors as the host lets us have: a queue that grows needs one for each request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        yield
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:  # what is launched later inherits what it would have had
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
