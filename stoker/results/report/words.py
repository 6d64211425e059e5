"""How figures, moments and names are written in a report."""

from __future__ import annotations

import datetime
import math
import re

from stoker.results import figures
from stoker.results.history import SeriesKey

BY_HAND = "(by hand)"


def pace(value: float | None, unit: str = "tok/s") -> str:
    """A speed; what no server reaches is written short, not as three hundred digits."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.1f} {unit}".rstrip() if 0.05 <= value < 1e7 else f"{value:.3g} {unit}".rstrip()


def unit(measured: str) -> str:
    """Of a benchmark's speed, by its name or by what a series measured."""
    return "all-reduces/s" if measured.startswith("allreduce") else "tok/s"


def bare(value: float | None, measured: str) -> str:
    """A speed in a column of tok/s: with its unit only where that is another."""
    own = unit(measured)
    return pace(value, "" if own == "tok/s" else own)


def percent(change: float | None) -> str:
    """A relative change; one beyond all measure is a dash."""
    if change is None or not abs(change) < 1e6:
        return "–"
    return figures.percent(change).replace("-", "−")


def moment(at: float) -> str:
    """Unix time as ``2026-01-31 08:00`` in UTC; a dash for one that no calendar has."""
    stamp = iso(at)
    return "–" if stamp is None else stamp[:16]


def iso(at: float) -> str | None:
    """Unix time as ``2026-01-31 08:00:00`` in UTC, as plotly.js reads it; None: no calendar has it."""
    try:
        return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return None


def profile(name: str) -> str:
    """A profile's name, or that there is none."""
    return name or BY_HAND


def subject(key: SeriesKey) -> str:
    """What was measured, without host and profile."""
    simulated = " · simulated" if key.simulated else ""
    return f"{key.measured} · {key.engine} · {key.model}{simulated}"


def natural(text: str) -> list[tuple[int, str]]:
    """What sorts ``concurrency 8`` before ``concurrency 16``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]{1,15})", text)]


def count(number: int, one: str, many: str = "") -> str:
    """``1 run``, ``6 runs``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
