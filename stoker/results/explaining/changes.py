"""What to change in one server to have what another one had: differences that a restart can restore."""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stoker.results.baselines.baseline import Baseline
from stoker.results.explaining.causes import ARGUMENTS, LIKELY, TUNING, UNLIKELY
from stoker.results.explaining.explain import explain
from stoker.results.records.record import Record

# Arguments of which another value makes another server, and no other speed of the same one.
_NOT_TUNING = frozenset(("served-model-name", "alias", "api-key", "host", "port"))


@dataclass(frozen=True)
class Change:
    """One variable or argument, and the value that it gets.

    Args:
        kind: ``env`` or ``args``.
        name: As a profile has it.
        value: Its new value, as a profile has it; None: not set at all.
        likely: Whether an explanation takes it for a likely cause.
    """

    kind: Literal["env", "args"]
    name: str
    value: Any
    likely: bool = True

    def __str__(self) -> str:
        shown = f"--{self.name}" if self.kind == "args" else self.name
        if self.value is None:
            return f"no {shown}"
        if self.value is True:
            return shown
        value = shlex.quote(str(self.value))
        return f"{shown} {value}" if self.kind == "args" else f"{shown}={value}"

    @property
    def key(self) -> str:
        """What no other change of the same server has."""
        return f"{self.kind}:{self.name}"


def between(new: Record, base: Record | Baseline, resolved: Mapping[str, Any] | None) -> tuple[Change, ...]:
    """What has to change in a run's server for it to have what the other had; likely causes first.

    Only what can be given back: variables whose value is known, and arguments of the profile.

    Args:
        new: The run to change.
        base: What it is to become.
        resolved: The profile that the other ran with; None where nobody knows.
    """
    found = explain(new, base)
    named = {cause.name: cause for cause in found.causes if cause.category == TUNING}
    changes = [
        Change("env", name, base.fingerprint.env.get(name), cause.confidence == LIKELY)
        for name, cause in named.items()
        if cause.confidence != UNLIKELY and _restorable(name, new, base)
    ]
    if resolved:
        likely = {c.name for c in found.causes if c.category == ARGUMENTS and c.confidence == LIKELY}
        changes += _arguments(new.resolved, resolved, likely)
    return tuple(sorted(changes, key=lambda change: not change.likely))


def _restorable(name: str, new: Record, base: Record | Baseline) -> bool:
    """Whether its value is known on both sides, and no worker has another one than the rest."""
    sides = (new.fingerprint, base.fingerprint)
    known = any(name in side.env for side in sides)
    return known and not any(name in side.env_differs or name in side.env_hashed for side in sides)


def _arguments(mine: Mapping[str, Any], theirs: Mapping[str, Any], likely: set[str]) -> list[Change]:
    was, now = (dict((one.get("server") or {}).get("args") or {}) for one in (theirs, mine))
    return [
        Change("args", name, was.get(name), name in likely or name.replace("-", "_") in likely)
        for name in sorted({*was, *now} - _NOT_TUNING)
        if was.get(name) != now.get(name)
    ]


def applied(resolved: Mapping[str, Any], changes: Iterable[Change]) -> dict[str, Any]:
    """A resolved profile with changes; what it was made of stays as it is.

    Args:
        resolved: As plain data.
        changes: In any order.
    """
    made = copy.deepcopy(dict(resolved))
    server = made.setdefault("server", {})
    rooms = {"env": made.setdefault("env", {}), "args": server.setdefault("args", {})}
    for change in changes:
        rooms[change.kind].pop(change.name, None)
        if change.value is not None:
            rooms[change.kind][change.name] = change.value
        elif change.kind == "env" and server.get("inherit"):
            server["inherit"] = [name for name in server["inherit"] if name != change.name]
    return made


def told(changes: Iterable[Change]) -> str:
    """Changes on one line: ``NCCL_PROTO=LL, no NCCL_DEBUG``."""
    return ", ".join(str(change) for change in changes)
