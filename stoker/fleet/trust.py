"""The verb that shows hosts' keys and records those that somebody has compared."""

from __future__ import annotations

from typing import Any

from stoker.errors import HostUnreachable
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.pool import HostResult
from stoker.fleet.session import target_of
from stoker.reach.reach import Reach
from stoker.reach.trust import Shown

_SAYS = {
    "known": "its keys are known",
    "new": "nothing is known of it",
    "changed": "other keys are known",
}


def asking(reach: Reach, found: dict[str, Shown]) -> Verb:
    """Shows the keys of each host; the data has ``state``, ``keys`` (``{kind, fingerprint}``) and ``others``.

    Args:
        reach: How hosts are reached.
        found: Gets what each host shows, by its name.
    """

    def work(job: Job) -> Outcome:
        target = target_of(job.host)
        if target.connection == "local":
            return Outcome("is this machine: there is no key", {"state": "known", "keys": [], "others": []})
        shown = found[job.host.name] = reach.shown(target)
        lines = [(f"{key.kind} {key.fingerprint}", "") for key in shown.keys]
        lines += [(f"known in their place is {line}", "red") for line in shown.others]
        return Outcome(_SAYS[shown.state], data_of(shown), lines=tuple(lines))

    return Verb("trust", (), work)


def record(reach: Reach, host: str, shown: Shown) -> HostResult:
    """Record what a host showed; the data also has ``recorded`` and ``left`` (places of other keys of it)."""
    try:
        left = [entry.place for entry in reach.trust(host, shown)]
    except HostUnreachable as error:
        return HostResult(host, "unreachable", error=error)
    lines = [(f"another key of it is known at {place}: take that line out", "yellow") for place in left]
    data = {**data_of(shown), "recorded": True, "left": left}
    return HostResult(
        host, "ok", [Outcome(f"recorded in {shown.hop.known_hosts[0]}", data, lines=tuple(lines))]
    )


def data_of(shown: Shown) -> dict[str, Any]:
    """What a host shows, as JSON types."""
    keys = [{"kind": key.kind, "fingerprint": key.fingerprint} for key in shown.keys]
    return {"state": shown.state, "keys": keys, "others": list(shown.others)}
