"""The last run of a runbook, as a report has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

COUNTED = ("ok", "changed", "failed", "unreachable", "skipped")


@dataclass(frozen=True)
class PlayedHost:
    """What came of a runbook's run on a host.

    Args:
        host: Its name.
        counts: Steps by what they came to, of ``COUNTED``.
        stopped: The step that it stopped at, with its place; empty where it did not.
    """

    host: str
    counts: Mapping[str, int]
    stopped: str = ""


@dataclass(frozen=True)
class Played:
    """The last run of a runbook.

    Args:
        book: The file as shown to people.
        began: Unix time.
        code: Its exit code; None where its end is not written down.
        hosts: In the order in which they did something.
    """

    book: str
    began: float
    code: int | None
    hosts: tuple[PlayedHost, ...]
