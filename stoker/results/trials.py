"""Experiments as records: ``inv spec`` leaves one a launch and batch size, of a profile ``NAME~spec``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stoker import engines
from stoker.engines.speculation import WITHOUT, steps, without
from stoker.errors import InputError
from stoker.results.records.record import Record
from stoker.results.statistics.speculation import Weighed, acceptance, weigh

SPEC = "~spec"
AGE_S = 86400.0  # an experiment goes on after an interruption within a day; what is older is another one


@dataclass(frozen=True)
class Trial:
    """One ``inv spec``, as its newest launches tell it.

    Args:
        host: The inventory's name.
        profile: Whose speculation was weighed.
        what: Engine, model and tokens of each request, for people.
        at: When its last launch was measured, Unix time.
        rows: By batch size, then by number of steps.
        simulated: Whether anything of it was pretended.
    """

    host: str
    profile: str
    what: str
    at: float
    rows: tuple[Weighed, ...]
    simulated: bool


@dataclass(frozen=True)
class _Launch:
    record: Record
    setting: str
    order: int


def trials(records: Iterable[Record]) -> tuple[Trial, ...]:
    """The newest of each profile on each host, as far as both sides of it were measured."""
    found: dict[tuple[str, ...], list[_Launch]] = {}
    for record in sorted(records, key=lambda one: -one.created):
        if not record.profile.endswith(SPEC) or record.contaminated or not record.samples:
            continue
        told = _setting(record)
        if told is None:
            continue
        setting, order, plain = told
        of: tuple[str, ...] = (
            record.host,
            record.profile,
            record.engine,
            record.model,
            str(record.bench.tokens),
            plain,
        )
        several = found.setdefault(of, [])
        if not several or several[0].record.created - record.created <= AGE_S:
            several.append(_Launch(record, setting, order))
    newest: dict[tuple[str, ...], Trial] = {}
    for of, launches in found.items():  # the newest variation of a profile comes first
        trial = _trial(launches)
        if trial.rows:
            newest.setdefault(of[:2], trial)
    return tuple(newest[of] for of in sorted(newest))


def _setting(record: Record) -> tuple[str, int, str] | None:
    """(its name, its place, the profile without speculation); None where the record does not tell."""
    try:
        how = engines.get(record.engine).speculation
        plain = without(record.resolved, how)
        same = json.dumps(_said(plain), sort_keys=True)
        number = steps(record.resolved, how)
    except (InputError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    if plain == record.resolved:
        return WITHOUT, 0, same
    return ("as it is" if number is None else f"{number} step{'s' * (number != 1)}"), number or 0, same


def _said(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is empty: a profile that says nothing of variables has none, too."""
    server = {name: value for name, value in plain["server"].items() if value}
    return {name: value for name, value in {**plain, "server": server}.items() if value}


def _trial(launches: list[_Launch]) -> Trial:
    first = launches[0].record
    rows = []
    for batch in sorted({one.record.bench.concurrency for one in launches}):
        here = [one for one in reversed(launches) if one.record.bench.concurrency == batch]
        plain = [one.record.samples[0] for one in here if one.setting == WITHOUT]
        for order, setting in sorted({(one.order, one.setting) for one in here} - {(0, WITHOUT)}):
            with_it = [one.record for one in here if (one.order, one.setting) == (order, setting)]
            if plain:
                seen = acceptance([launch.machine for one in with_it for launch in one.launches])
                rows.append(weigh(setting, batch, plain, [one.samples[0] for one in with_it], seen))
    what = f"{first.bench.tokens} tokens a request · {first.engine} · {first.model}"
    simulated = any(one.record.simulated for one in launches)
    profile = first.profile[: -len(SPEC)]
    return Trial(first.host, profile, what, first.created, tuple(rows), simulated)
