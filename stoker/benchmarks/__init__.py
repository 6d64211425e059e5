"""Which benchmark is meant, out of what a profile and a command line say; what it runs is the agent's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from stoker.benchmarks.bench import OF_DECODE, Bench
from stoker.benchmarks.values import (
    ARRIVALS,
    BOUNDS,
    IN_PLACE,
    NAMES,
    OF_SERVER,
    RATES,
    SECONDS,
    TOOLS,
    read,
)
from stoker.errors import InputError, nearest

__all__ = [
    "ARRIVALS",
    "BOUNDS",
    "IN_PLACE",
    "NAMES",
    "OF_SERVER",
    "RATES",
    "SECONDS",
    "SERVE_ONLY",
    "TOOLS",
    "Bench",
    "levels",
    "merge",
]

SERVE_ONLY = ("rate", "arrivals", "requests", "seconds", "input", "output", "seed", "goodput")
OF_ALLREDUCE = ("batches", "hidden", "dtype", "ranks", "tool", "deadline")
_REQUESTS = 100  # of a run; and each of those at once has at least two in turn
_INPUT, _OUTPUT = "512", "128"


def merge(profile: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> Bench:
    """The profile's benchmark with what the command line says instead.

    Args:
        profile: The profile's ``bench``; may be empty.
        overrides: Names of ``Bench``, values as typed; None stands for not given.

    Raises:
        InputError: An unknown benchmark or parameter, a value that is none or out of bounds, several loads.
    """
    found = levels(profile, overrides)
    if len(found) > 1:
        told = ", ".join(bench.level for bench in found)
        raise InputError(f"one load at a time can be measured here, not {told}", next_step="name one of them")
    return found[0]


def levels(profile: Mapping[str, Any], overrides: Mapping[str, Any] | None = None) -> tuple[Bench, ...]:
    """The profile's benchmark under each of its loads, with what the command line says instead.

    Args:
        profile: As of ``merge``; its ``rate`` may be a list.
        overrides: As of ``merge``; ``rate`` and ``concurrency`` may name several, with commas between.

    Raises:
        InputError: As ``merge``, but for several loads.
    """
    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    kept = {name: value for name, value in profile.items() if value is not None}
    named = given.get("name", kept.get("name"))
    if named == "allreduce":
        from stoker.benchmarks import allreduce

        return (allreduce.merged(kept, given),)
    if named == "llama-bench":
        from stoker.benchmarks import llamabench

        return (llamabench.merged(kept, given),)
    said = _typed(kept, "bench.{}"), _typed(given, "--{}")
    name = str((said[0] | said[1]).get("name", "decode"))
    _check_fits(name, given, "--{}", "--bench serve")
    _check_fits(name, kept, "bench.{}", "name: serve")
    if "rate" in given and "concurrency" in given:
        raise InputError("requests come at a rate, or so many at once: not both", where="--rate")
    values = said[0] | said[1]
    rates, widths = values.pop("rate", ()), values.pop("concurrency", (1,))
    if "concurrency" in given:
        rates = ()
    for one, other in (("requests", "seconds"), ("seconds", "requests")):
        if one in given:
            values.pop(other, None)
    if name == "decode":
        values = {name: value for name, value in values.items() if name in OF_DECODE}
        return tuple(Bench(**values, concurrency=width) for width in widths)
    if name in TOOLS:
        _check_tool(name, values, rates)
    if rates:
        return tuple(_serve(values, rate=rate, concurrency=0) for rate in rates)
    return tuple(_serve(values, rate=0.0, concurrency=width) for width in widths)


def _serve(values: Mapping[str, Any], *, rate: float, concurrency: int) -> Bench:
    """One level, complete: what nobody said is settled here."""
    asked = {"input": _INPUT, "output": _OUTPUT, "arrivals": ARRIVALS[0], **values, "tokens": 0}
    if not rate:
        asked["arrivals"] = ""
    if asked.get("seconds"):
        asked["requests"] = 0
    elif not asked.get("requests"):
        asked["requests"] = max(_REQUESTS, 2 * concurrency)
    return Bench(**asked, rate=rate, concurrency=concurrency)


def _check_tool(name: str, values: Mapping[str, Any], rates: tuple[float, ...]) -> None:
    """See that somebody else's load generator can be asked for it.

    Raises:
        InputError: It cannot.
    """
    odd = [field for field in ("seconds", "goodput", "arrivals") if field in values] + ["rate"] * bool(rates)
    if odd:
        hint = f"{name} keeps so many requests at once: --concurrency; the benchmark serve has a rate"
        raise InputError(f"{name} does not know it", where=f"--{odd[0]}", next_step=hint)
    for field in ("input", "output"):
        if not values.get(field, _INPUT).isdigit():
            hint = "the benchmark serve draws them from a distribution"
            raise InputError(f"{name} takes one number of tokens", where=f"--{field}", next_step=hint)


def _check_fits(name: str, given: Mapping[str, Any], place: str, hint: str) -> None:
    """See that a parameter is of this benchmark.

    Raises:
        InputError: It is of another one.
    """
    if name == "decode":
        odd = next((field for field in SERVE_ONLY if field in given), None)
        if odd:
            raise InputError(f"{place.format(odd)} is of the benchmark serve", next_step=hint)
    elif "tokens" in given and place == "--{}":
        raise InputError("--tokens is of decode", next_step="--output says how many tokens serve asks for")
    if "requests" in given and "seconds" in given:
        where = place.format("seconds")
        raise InputError("a run has so many requests, or lasts so long: not both", where=where)


def _typed(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    known = [f.name for f in fields(Bench)]
    typed: dict[str, Any] = {}
    for name, value in values.items():
        if name in OF_ALLREDUCE:
            hint = "--bench allreduce"
            raise InputError("is of the benchmark allreduce", where=place.format(name), next_step=hint)
        if name not in known:
            raise InputError(f"{place.format(name)} is not known", next_step=nearest(str(name), known))
        where = "--bench" if (name, place) == ("name", "--{}") else place.format(name)
        typed[name] = read(name, value, where)
    return typed
