"""A launch as one point of a history: when, how fast, on how many runs."""

from __future__ import annotations

import json
import math
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.benchmarks import Bench
    from stoker.results.records.record import Record


@dataclass(frozen=True)
class Point:
    """One launch.

    Args:
        at: When measuring began, Unix time.
        tok_s: Its location, by the rule of the verdicts.
        runs: How many valid runs it rests on.
        spread: Standard deviation within the launch, relative; 0 where fewer than three runs tell none.
    """

    at: float
    tok_s: float
    runs: int
    spread: float


def of(record: Record) -> tuple[Point, ...]:
    """A point for each launch that has a valid run, in order."""
    from stoker.results.statistics import noise

    found = []
    for launch in record.launches:
        if launch.samples:
            y = [math.log(x) for x in launch.samples]
            spread = noise.within([y])[1]
            found.append(Point(launch.started_at, math.exp(noise.location(y, max)), len(y), spread))
    return tuple(found)


def measured(bench: Bench) -> str:
    """What a benchmark measures, for people and to tell series apart: ``decode: tokens 500, concurrency 1``.

    Args:
        bench: How many runs there are is left out: that is evidence, not what is measured.
    """
    parameters = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in bench.to_wire().items()
        if name not in ("name", "runs", "deadline")  # how often, and for how long at most
    ]
    unit = " (all-reduces/s)" if bench.name == "allreduce" else ""
    return f"{bench.name}{unit}: {', '.join(parameters)}"


def dumps(points: tuple[Point, ...]) -> str:
    """As one text, for the index."""
    return json.dumps([astuple(point) for point in points])


def loads(texts: Sequence[str]) -> list[tuple[Point, ...]]:
    """What ``dumps`` wrote, of many records at once.

    Raises:
        ValueError, TypeError: It is not that.
    """
    every = json.loads(f"[{','.join(texts)}]")
    if len(every) != len(texts):
        raise ValueError("not what we wrote")
    return [tuple([_point(*item) for item in items]) for items in every]


def _point(at: float, tok_s: float, runs: int, spread: float) -> Point:
    if not (math.isfinite(at) and math.isfinite(spread) and tok_s > 0 and runs > 0):
        raise ValueError("not what we wrote")
    return Point(at, tok_s, runs, spread)
