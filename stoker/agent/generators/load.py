"""The load generator of ``decode``: one thread, one selector, every stream's tokens by their arrival.

A run is as many requests as the concurrency says, all at once: every connection stands before the first
request is sent. No thread a request, so that 256 streams cost little of the CPU that the engine needs.
"""

from __future__ import annotations

import selectors
import statistics
import time
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .stream import Stream, Target, prompt

WARMUP = -1
TICK_S = 0.1
LINGER_S = 0.5

Run = Dict[str, Any]
Request = Dict[str, Any]


class Limits(NamedTuple):
    """How long is waited.

    Args:
        connect_s: Until every connection stands.
        silence_s: Without a byte on a stream: the first token of a large model may take minutes.
        token_s: Allowed for each token, over the whole request.
    """

    connect_s: float = 10.0
    silence_s: float = 300.0
    token_s: float = 5.0


class Measured(NamedTuple):
    """What was measured.

    Args:
        warmup: The run that is dropped.
        runs: The others; fewer than asked for where one had no valid request at all.
        requests: Of all of them, the warm-up's too.
        client_cpu_s: CPU time of the generator itself.
        client_share: The largest share of a run's time that the generator was busy, 0..1.
        connections: Of ``serve``: how many were ``opened`` for all its requests, and how many requests were
            ``resent`` as their idle connection had ended meanwhile.
        raw: Of somebody else's load generator, what it said and left: name of a file to its text.
    """

    warmup: Run
    runs: List[Run]
    requests: List[Request]
    client_cpu_s: float
    client_share: float
    raw: Mapping[str, str] = MappingProxyType({})
    connections: Mapping[str, int] = MappingProxyType({})


def measure(
    target: Target,
    runs: int,
    tokens: int,
    concurrency: int,
    seed: str,
    check: Callable[[], None] = lambda: None,
    report: Callable[[Run], None] = lambda run: None,
    limits: Limits = Limits(),  # noqa: B008 - it cannot be changed
) -> Measured:
    """Warm up, then measure.

    Args:
        target: Where.
        runs: How many are measured.
        tokens: Of each request.
        concurrency: Requests of a run.
        seed: Of the prompts: another one each time, or a prefix cache answers.
        check: Called some ten times a second; may raise to end it.
        report: Gets each run when it ends.
        limits: How long is waited.
    """
    began = time.thread_time()
    done: List[Run] = []
    requests: List[Request] = []
    share = 0.0
    for index in range(WARMUP, runs):
        busy, at = time.thread_time(), time.perf_counter()
        streams = _run(target, tokens, concurrency, "%s/%d" % (seed, index), check, limits)
        wall = time.perf_counter() - at
        if index != WARMUP and wall > 0:
            share = max(share, (time.thread_time() - busy) / wall)
        done.append(_summary(index, streams))
        requests += [request(index, stream) for stream in streams]
        report(done[-1])
        if index != WARMUP and all(stream.error for stream in streams):
            break  # it will not get better, and each further one may take minutes to fail
    return Measured(done[0], done[1:], requests, round(time.thread_time() - began, 6), round(share, 4))


def _run(
    target: Target, tokens: int, concurrency: int, seed: str, check: Callable[[], None], limits: Limits
) -> List[Stream]:
    """All requests of one run, from connect to the last byte."""
    now = time.perf_counter()
    streams = [Stream(i, target.request(prompt(seed, i), tokens), tokens, now) for i in range(concurrency)]
    with selectors.DefaultSelector() as selector:
        try:
            _connect(selector, target, streams, check, limits)
            _send(selector, streams)
            _receive(selector, streams, check, limits)
        finally:
            for stream in streams:
                stream.close()
    return streams


def _connect(
    selector: selectors.BaseSelector,
    target: Target,
    streams: List[Stream],
    check: Callable[[], None],
    limits: Limits,
) -> None:
    deadline = time.perf_counter() + limits.connect_s
    waiting = 0
    for stream in streams:
        stream.connect(target)
        if stream.socket is not None and not stream.over:
            selector.register(stream.socket, selectors.EVENT_WRITE, stream)
            waiting += 1
    while waiting:
        check()
        for key, _ in selector.select(TICK_S):
            selector.unregister(key.fileobj)
            key.data.connected(time.perf_counter())
            waiting -= 1
        if time.perf_counter() > deadline:
            break
    for key in list(selector.get_map().values()):
        selector.unregister(key.fileobj)
        key.data.fail("timeout", "no connection within %g s" % limits.connect_s, time.perf_counter())


def _send(selector: selectors.BaseSelector, streams: List[Stream]) -> None:
    for stream in streams:
        if stream.over or stream.socket is None:
            continue
        stream.sent_at = stream.heard_at = time.perf_counter()
        whole = stream.send(stream.sent_at)
        if not stream.over:
            events = selectors.EVENT_READ if whole else selectors.EVENT_READ | selectors.EVENT_WRITE
            selector.register(stream.socket, events, stream)


def _receive(
    selector: selectors.BaseSelector, streams: List[Stream], check: Callable[[], None], limits: Limits
) -> None:
    next_look = time.perf_counter() + TICK_S
    linger_until: Optional[float] = None
    while selector.get_map():
        ready = selector.select(TICK_S)
        # What is readable now had arrived by now, however long it takes to get through all of it.
        now = time.perf_counter()
        for key, events in ready:
            _serve(selector, key.data, events, now)
        if now < next_look:
            continue
        next_look = now + TICK_S
        check()
        _expire(selector, now, limits)
        if linger_until is None and all(stream.ended_at for stream in streams):
            linger_until = now + LINGER_S
        if linger_until is not None and now > linger_until:
            return  # every answer is complete; a server that does not hang up is not waited for


def _serve(selector: selectors.BaseSelector, stream: Stream, events: int, now: float) -> None:
    if events & selectors.EVENT_WRITE and stream.send(now) and stream.socket is not None:
        selector.modify(stream.socket, selectors.EVENT_READ, stream)
    if events & selectors.EVENT_READ:
        stream.receive(now)
    if stream.over and stream.socket is not None:
        selector.unregister(stream.socket)


def _expire(selector: selectors.BaseSelector, now: float, limits: Limits) -> None:
    """End the streams that are silent, or take longer than any server that is worth measuring."""
    for key in list(selector.get_map().values()):
        stream = key.data
        longest = limits.silence_s + limits.token_s * stream.requested
        if now - stream.heard_at > limits.silence_s:
            stream.fail("timeout", "nothing came for %g s" % limits.silence_s, now)
        elif now - stream.sent_at > longest:
            stream.fail("timeout", "not complete within %g s" % longest, now)
        if stream.over:
            selector.unregister(key.fileobj)


def request(run: int, stream: Stream) -> Request:
    """A request of the contract."""
    ended = stream.ended_at if stream.ended_at is not None else stream.heard_at
    return {
        "run": run,
        "index": stream.index,
        "tokens": stream.tokens or 0,
        "requested": stream.requested,
        "chunks": stream.chunks,
        "ttft_s": None if stream.first_at is None else round(stream.first_at - stream.sent_at, 6),
        "tpot_s": tpot(stream),
        "seconds": round(ended - stream.sent_at, 6),
        "error": stream.error or None,
        "why": stream.why,
        **_drafts(stream),
    }


def _drafts(stream: Stream) -> Dict[str, int]:
    """What was drafted and accepted, where the answer tells it."""
    drafted, accepted = stream.timings.get("draft_n"), stream.timings.get("draft_n_accepted")
    if type(drafted) is not int or type(accepted) is not int or not 0 <= accepted <= drafted <= 1 << 40:
        return {}
    return {"drafted": drafted, "accepted": accepted}


def tpot(stream: Stream) -> Optional[float]:
    """Seconds per token after the first chunk; None where there is only one."""
    if stream.error or stream.first_at is None or stream.last_at is None or not stream.tokens:
        return None
    gaps = stream.tokens - 1
    return round((stream.last_at - stream.first_at) / gaps, 9) if gaps and stream.chunks > 1 else None


def _summary(index: int, streams: List[Stream]) -> Run:
    """One run; a figure only where every request is a measurement."""
    bad = [stream for stream in streams if stream.error]
    run: Run = {
        "index": index,
        "tokens": sum(stream.tokens or 0 for stream in streams),
        "requested": sum(stream.requested for stream in streams),
        "seconds": None,
        "tok_s": None,
        "ttft_s": None,
        "tpot_s": None,
        "valid": not bad,
        "why": why(bad, len(streams)),
    }
    ends = [stream.ended_at for stream in streams if stream.ended_at is not None]
    seconds = max(ends) - min(stream.sent_at for stream in streams) if ends else 0.0
    if bad or seconds <= 0:
        run["valid"] = False
        run["why"] = run["why"] or "it took no time"
        return run
    tpots = [pace for pace in map(tpot, streams) if pace is not None]
    run["seconds"] = round(seconds, 6)
    run["tok_s"] = round(run["tokens"] / seconds, 4)
    ttfts = [stream.first_at - stream.sent_at for stream in streams if stream.first_at is not None]
    run["ttft_s"] = round(statistics.median(ttfts), 6)
    run["tpot_s"] = round(statistics.median(tpots), 9) if tpots else None
    return run


def why(bad: Sequence[Stream], count: int) -> str:
    """``2 of 8 requests failed: short (487 of 500 tokens came)``; the client's own failures say so."""
    if not bad:
        return ""
    kinds: Dict[str, List[Stream]] = {}
    for stream in bad:
        kinds.setdefault(stream.error, []).append(stream)
    told = ["%s × %d (%s)" % (kind, len(found), found[0].why) for kind, found in kinds.items()]
    whose = " on our side" if set(kinds) == {"client"} else ""
    return "%d of %d requests failed%s: %s" % (len(bad), count, whose, "; ".join(told))
