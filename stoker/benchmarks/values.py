"""The values of a benchmark's parameters: what each may be, and within which bounds."""

from __future__ import annotations

import math
from typing import Any

from stoker.benchmarks import lengths
from stoker.errors import InputError, nearest

OF_SERVER = ("decode", "serve")  # what a profile can be judged by
# Others' load generators, as stoker.benchmarks.others has them.
TOOLS = ("vllm-serve", "sglang-serving", "aiperf", "guidellm")
IN_PLACE = ("allreduce", "llama-bench")  # what is launched in place of a server
NAMES = (*OF_SERVER, *IN_PLACE, *TOOLS)
ARRIVALS = ("poisson", "fixed")
GOALS = ("ttft", "tpot", "e2e")

# Least and most of each number: one token has no pace, and one thread serves this many streams.
BOUNDS = {
    "runs": (1, 1000),
    "tokens": (2, 1_000_000),
    "concurrency": (1, 4096),
    "requests": (1, 100_000),
    "seed": (0, 999_999_999),
}
RATES = (0.001, 1e7)  # requests a second
SECONDS = (1.0, 1e7)


def read(name: str, value: object, where: str = "") -> Any:
    """A parameter's value; of ``rate`` and ``concurrency`` a tuple of them.

    Args:
        name: One of ``Bench``.
        value: As a file or a command line has it.
        where: For messages.

    Raises:
        InputError: It is none, or out of bounds.
    """
    if name == "name":
        return _one_of(value, NAMES, where, "benchmark")
    if name == "arrivals":
        return _one_of(value, ARRIVALS, where, "kind of arrivals")
    if name in ("input", "output"):
        return lengths.parse(str(value), where, least=2 if name == "output" else 1).text
    if name == "goodput":
        return goals(value, where)
    if name == "tokenizer":
        return str(value)
    if name == "seconds":
        return _real(value, where, "seconds", *SECONDS)
    if name == "rate":
        return tuple(_real(item, where, "rate", *RATES) for item in _items(value, where))
    if name == "concurrency":
        return tuple(_number(name, item, where) for item in _items(value, where))
    return _number(name, value, where)


def goals(value: object, where: str) -> str:
    """Limits of a good request, in one order: ``ttft=0.5,tpot=0.05``; an empty text is none.

    Raises:
        InputError: No such limits.
    """
    found: dict[str, float] = {}
    for part in str(value).split(",") if value != "" else ():
        name, sign, limit = part.strip().partition("=")
        if name in found:
            raise InputError(f"{name} is limited twice", where=where)
        if not sign:
            hint = "write ttft=0.5,tpot=0.05,e2e=10 (seconds)"
            raise InputError(f"{part.strip()[:40]!r} is no limit", where=where, next_step=hint)
        _one_of(name, GOALS, where, "limit of a request")
        found[name] = _real(limit, where, name, 1e-6, 1e6)
    return ",".join(f"{name}={found[name]:g}" for name in GOALS if name in found)


def _items(value: object, where: str) -> list[object]:
    items = list(value) if isinstance(value, list | tuple) else [value]
    parts = [part for item in items for part in (item.split(",") if isinstance(item, str) else [item])]
    if not parts:
        raise InputError("is empty", where=where, next_step="name one, or leave it out")
    return parts


def _one_of(value: object, known: tuple[str, ...], where: str, what: str) -> str:
    if value not in known:
        raise InputError(f"{value!r} is no {what}", where=where, next_step=nearest(str(value), known))
    return str(value)


def _real(value: object, where: str, name: str, least: float, most: float) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise InputError(f"{str(value)[:40]!r} is not a number", where=where)
    if not least <= number <= most:
        what = f"{str(value)[:20]} is out of bounds, {name} goes from {least:g} to {most:g}"
        raise InputError(what, where=where)
    return number


def _number(name: str, value: object, where: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise InputError(f"{value!r} is not a whole number", where=where)
    least, most = BOUNDS[name]
    if len(text) > 12 or not least <= int(text) <= most:
        raise InputError(f"{text[:20]} is out of bounds, {name} goes from {least} to {most}", where=where)
    return int(text)
