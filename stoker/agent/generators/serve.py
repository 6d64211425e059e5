"""The load generator of ``serve``: requests that come at a rate, or so many at once; one thread, one epoll.

Latencies count from the moment at which a request should have been sent. At a rate that is its drawn arrival,
also where the generator or the server's backlog delayed the sending; else the end of the request before it.
So a server that stalls is charged with every request that came meanwhile (no coordinated omission).
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import time
from typing import Callable, Iterator, List, Tuple

from . import figures
from .load import WARMUP, Limits, Measured, Request, Run, request
from .pool import Pool
from .stream import Stream, Target
from .window import Asked, Window
from .workload import Order, Prompts, Serve, orders

_PROBES = (4, 24)  # words of the two requests that tell how many tokens a word takes
_PROBE_TOKENS = 2
_WARMUP_REQUESTS = 8
_DESCRIPTORS = 65536


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
    asked = _Asking(target, serve, Prompts(seed), check, limits)
    with descriptors(), contextlib.closing(asked.pool):
        asked.learn()
        warmup, useful = asked.run(asked.warmup(), WARMUP)
        report(warmup)
        if not useful:  # as many as are wanted would not get better, and take long
            return asked.measured(began, warmup, [{**warmup, "index": 0}], 0.0)
        runs: List[Run] = []
        share = 0.0
        while useful and len(runs) < serve.runs:
            busy, at = time.thread_time(), time.perf_counter()
            run, useful = asked.run(asked.window(), len(runs))
            share = max(share, (time.thread_time() - busy) / max(1e-9, time.perf_counter() - at))
            runs.append(run)
            report(run)
    return asked.measured(began, warmup, runs, share)


class _Asking:
    """Windows one after the other over the same connections, and what is kept of them."""

    def __init__(
        self, target: Target, serve: Serve, prompts: Prompts, check: Callable[[], None], limits: Limits
    ) -> None:
        self.pool = Pool()
        self.prompts = prompts
        self.requests: List[Request] = []
        self._target, self._serve, self._check, self._limits = target, serve, check, limits

    def learn(self) -> None:
        """How many tokens a word takes, from two prompts of different length."""
        for words in _PROBES:
            order = Order(-1, None, words, _PROBE_TOKENS)
            self.run(Window(self._target, self.prompts, self.pool, iter([order]), 1, exact=True), WARMUP)

    def warmup(self) -> Window:
        """A few requests of the kind that is measured, as many at once as there will be."""
        width = self._serve.concurrency or _WARMUP_REQUESTS
        count = max(width, _WARMUP_REQUESTS)
        some = (order._replace(at_s=None) for order in itertools.islice(orders(self._serve), count))
        return Window(self._target, self.prompts, self.pool, some, width)

    def window(self) -> Window:
        """What is measured."""
        serve = self._serve
        coming = orders(serve)
        return Window(self._target, self.prompts, self.pool, coming, serve.concurrency, serve.seconds)

    def run(self, window: Window, index: int) -> Tuple[Run, bool]:
        """A run, and whether any of its requests is a measurement."""
        asked = window.run(self._check, self._limits)
        streams = [one.stream for one in asked]
        self.requests += [_row(index, stream, window.began) for stream in streams]
        if index == WARMUP:
            self.prompts.learn(_seen(asked))
        useful = any(not stream.error for stream in streams)
        return figures.of_run(index, streams, window.began, self._serve), useful

    def measured(self, began: float, warmup: Run, runs: List[Run], share: float) -> Measured:
        """All of it, with the CPU time of this thread since then."""
        cpu_s, used = round(time.thread_time() - began, 6), {"opened": self.pool.opened}
        used["resent"] = self.pool.resent
        return Measured(warmup, runs, self.requests, cpu_s, round(share, 4), connections=used)


def _seen(asked: List[Asked]) -> List[Tuple[int, int]]:
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
