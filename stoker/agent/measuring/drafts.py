"""What the server drafted and accepted while it was measured: counters before and after, not its lifetime."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional, Sequence

from ..asking.traffic import Traffic


def seen(
    names: Mapping[str, Any], before: Traffic, after: Traffic, requests: Sequence[Mapping[str, Any]]
) -> Dict[str, Any]:
    """For the result's ``machine``; nothing where the server does not speculate, or does not tell.

    Args:
        names: ``Metrics`` of the engine.
        before: The metrics before.
        after: And afterwards.
        requests: What was sent in between: some engines tell in each answer.

    Returns:
        ``{"speculation": {source, tokens, accepted, drafted}}``, of an engine that tells but an average
        ``{"speculation": {source: "gauge", length, rate}}``.
    """
    tokens = sum(request["tokens"] for request in requests)
    accepted = grown(names.get("accepted") or (), before, after)
    drafted = grown(names.get("drafted") or (), before, after)
    if accepted is not None and drafted is not None:
        found = {"source": "counters", "tokens": tokens, "accepted": accepted, "drafted": drafted}
        return {"speculation": found}
    told = [request for request in requests if request.get("drafted") is not None]
    if told and len(told) == len(requests):
        found = {"source": "answers", "tokens": tokens}
        found["accepted"] = sum(request["accepted"] for request in told)
        found["drafted"] = sum(request["drafted"] for request in told)
        return {"speculation": found}
    page = dict(after.page)
    lengths = [page[name] for name in names.get("accept_length") or () if name in page]
    rates = [page[name] for name in names.get("accept_rate") or () if name in page]
    if lengths:
        gauge = {"source": "gauge", "length": lengths[0], "rate": rates[0] if rates else None}
        return {"speculation": gauge}
    return {}


def grown(names: Iterable[str], before: Traffic, after: Traffic) -> Optional[float]:
    """By how much counters grew, summed; None where none of them is there."""
    old, new = dict(before.page), dict(after.page)
    known = [name for name in names if name in new]
    return sum(new[name] - old.get(name, 0.0) for name in known) if known else None
