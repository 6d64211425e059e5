"""What a run of ``serve`` came to: latencies with their percentiles, throughput, goodput, errors by kind."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .load import Run, tpot, why
from .stream import Stream
from .workload import Serve

_PERCENTILES = ((0.50, ""), (0.90, "_p90"), (0.99, "_p99"))
_MOST_TOKENS = 1 << 40


def of_run(index: int, streams: Sequence[Stream], began: float, serve: Serve) -> Run:
    """One run; a figure only where every request is a measurement.

    Args:
        index: −1 for the warm-up.
        streams: Its requests.
        began: When it began.
        serve: What was asked.
    """
    bad = [stream for stream in streams if stream.error]
    errors: Dict[str, int] = {}
    for stream in bad:
        errors[stream.error] = errors.get(stream.error, 0) + 1
    run: Run = {
        "index": index,
        "tokens": sum(stream.tokens or 0 for stream in streams),
        "requested": sum(stream.requested for stream in streams),
        "seconds": None,
        "tok_s": None,
        "ttft_s": None,
        "tpot_s": None,
        "user_tok_s": None,
        "figures": {},
        "errors": errors,
        "valid": not bad,
        "why": why(bad, len(streams)),
    }
    ends = [stream.ended_at for stream in streams if stream.ended_at is not None]
    seconds = max(ends) - began if ends else 0.0
    if bad or seconds <= 0:
        run["valid"], run["why"] = False, run["why"] or "no request was sent"
        return run
    return _measured(run, streams, seconds, serve)


def _measured(run: Run, streams: Sequence[Stream], seconds: float, serve: Serve) -> Run:
    waits = [_after_due(stream, stream.ended_at) for stream in streams]
    firsts = [_after_due(stream, stream.first_at) for stream in streams]
    paces = [pace for pace in map(tpot, streams) if pace is not None]
    gaps = [gap for stream in streams for gap in stream.gaps or ()]
    lates = [stream.sent_at - stream.due_at for stream in streams]
    latencies = {
        **spread("ttft", firsts),
        **spread("tpot", paces),
        **spread("itl", gaps),
        **spread("e2e", waits),
    }
    found = {"req_s": len(streams) / seconds, **_inputs(streams, seconds), **latencies}
    if serve.goals:
        found["good_req_s"] = sum(_is_good(stream, serve.goals) for stream in streams) / seconds
    found["late_p99_s"] = percentile(sorted(lates), 0.99)
    run["seconds"], run["tok_s"] = round(seconds, 6), round(run["tokens"] / seconds, 4)
    run["ttft_s"], run["tpot_s"] = latencies["ttft_s"], latencies.get("tpot_s")
    run["user_tok_s"] = round(run["tokens"] / sum(waits), 4) if serve.rate else None
    run["figures"] = {name: round(value, 6) for name, value in found.items()}
    return run


def _after_due(stream: Stream, at: Optional[float]) -> float:
    return (stream.ended_at or stream.due_at if at is None else at) - stream.due_at


def _inputs(streams: Sequence[Stream], seconds: float) -> Dict[str, float]:
    """What the server says of the prompts; nothing where it does not."""
    counted = [tokens for tokens in map(prompt_tokens, streams) if tokens is not None]
    if len(counted) < len(streams) or not counted:
        return {}
    found = {"input_tokens": sum(counted) / len(counted), "input_tok_s": sum(counted) / seconds}
    cached = [tokens for tokens in map(_cached, streams) if tokens is not None]
    if len(cached) == len(streams):
        found["cached_share"] = sum(cached) / max(1, sum(counted))
    return found


def _is_good(stream: Stream, goals: Mapping[str, float]) -> bool:
    reached = {
        "ttft": _after_due(stream, stream.first_at),
        "tpot": tpot(stream) or 0.0,
        "e2e": _after_due(stream, stream.ended_at),
    }
    return all(reached[name] <= limit for name, limit in goals.items())


def prompt_tokens(stream: Stream) -> Optional[int]:
    """Tokens of the prompt by the server's own count; None: it has not said."""
    return _count(stream.usage.get("prompt_tokens"))


def _cached(stream: Stream) -> Optional[int]:
    """How many of them came out of a prefix cache; None: it has not said."""
    details = stream.usage.get("prompt_tokens_details")
    return _count(details.get("cached_tokens")) if isinstance(details, dict) else None


def _count(value: Any) -> Optional[int]:
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def spread(name: str, values: Sequence[float]) -> Dict[str, float]:
    """``NAME_s`` (the median), ``NAME_p90_s``, ``NAME_p99_s``; nothing of no values."""
    ordered: List[float] = sorted(values)
    return {name + mark + "_s": percentile(ordered, part) for part, mark in _PERCENTILES if ordered}


def percentile(ordered: Sequence[float], part: float) -> float:
    """Of sorted values, between two of them in proportion."""
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)
