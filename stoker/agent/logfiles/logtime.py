"""When a line of a log was written, by the time that the engine put before it."""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from typing import Iterator, Match, Optional

_HEAD = 60  # a date further on belongs to the message
# 2025-10-16 09:06:10 (SGLang, Python's logging), with a T, a fraction and a zone where there are some.
_FULL = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\s?(Z\b|[+-]\d\d:?\d\d\b)?"
)
# INFO 11-29 11:35:00 (vLLM): no year.
_SHORT = re.compile(r"\b[A-Z]{4,8} (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\b")
# 0.01.234.567 I (llama.cpp): minutes, seconds, milli- and microseconds since its start.
_SINCE_START = re.compile(r"(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) [A-Z]\b")
_DAY_S = 86_400.0


class Clock:
    """Reads the times of one log; local ones by the process's zone.

    Args:
        started_at: Unix time of the launch.
        now: Unix time.
    """

    def __init__(self, started_at: float, now: float) -> None:
        self.started_at = started_at
        self._now = now

    def of(self, line: str) -> Optional[float]:
        """Unix time of a line; None for one that does not say."""
        head = line[:_HEAD]
        full = _FULL.search(head)
        if full is not None:
            return _full(full)
        short = _SHORT.search(head)
        if short is not None:
            return self._short(short)
        relative = _SINCE_START.match(head)
        if relative is not None:
            minutes, seconds, milli, micro = map(int, relative.groups())
            return self.started_at + 60 * minutes + seconds + milli / 1e3 + micro / 1e6
        return None

    def _short(self, found: Match[str]) -> Optional[float]:
        month, day, hour, minute, second = map(int, found.groups())
        year = time.localtime(self._now).tm_year
        stamp = _local(year, month, day, hour, minute, second)
        if stamp is not None and stamp > self._now + _DAY_S:  # of December, read in January
            return _local(year - 1, month, day, hour, minute, second)
        return stamp


def _full(found: Match[str]) -> Optional[float]:
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, zone = found.group(7), found.group(8)
    stamp = _local(year, month, day, hour, minute, second)
    if stamp is None:
        return None
    if zone:
        import calendar

        stamp = calendar.timegm((year, month, day, hour, minute, second)) - _offset_s(zone)
    return stamp + (float("0." + fraction) if fraction else 0.0)


def _offset_s(zone: str) -> int:
    if zone == "Z":
        return 0
    seconds = 3600 * int(zone[1:3]) + 60 * int(zone[-2:])
    return -seconds if zone[0] == "-" else seconds


def _local(year: int, month: int, day: int, hour: int, minute: int, second: int) -> Optional[float]:
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    try:
        return time.mktime((year, month, day, hour, minute, second, 0, 0, -1))
    except (OverflowError, ValueError):
        return None


@contextmanager
def zone(name: Optional[str]) -> Iterator[None]:
    """Read local times as a server does that got this ``TZ``; None: the host's own zone, not the login's."""
    before = os.environ.get("TZ")
    if before == name:
        yield
        return
    _set(name)
    try:
        yield
    finally:
        _set(before)


def _set(name: Optional[str]) -> None:
    if name is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = name
    time.tzset()
