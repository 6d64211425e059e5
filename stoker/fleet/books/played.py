"""What the journals of runbooks tell a report: of each book the last run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from stoker.fleet.books.playlog import FOLDER
from stoker.results.report.played import COUNTED, Played, PlayedHost


def read(root: Path, *, since: float = 0.0, hosts: Collection[str] = ()) -> tuple[Played, ...]:
    """The last run of each runbook of a project; a journal that cannot be read is passed over.

    Args:
        root: The project's folder.
        since: Unix time: only runs begun since then.
        hosts: Only these; empty for all.
    """
    found = (_played(path, hosts) for path in sorted((root / FOLDER).glob("*.jsonl")))
    return tuple(one for one in found if one is not None and one.began >= since and (one.hosts or not hosts))


def _played(path: Path, hosts: Collection[str]) -> Played | None:
    try:
        rows = list(_rows(path))
        head, end = rows[0], rows[-1].get("end")
        steps = _steps(rows)
        return Played(
            book=str(head.get("book") or path.stem.rpartition("-")[0]),
            began=float(head["at_s"]),
            code=end if isinstance(end, int) else None,
            hosts=tuple(_host(name, done) for name, done in steps.items() if not hosts or name in hosts),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The lines; the last one may have been cut off."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        try:
            yield json.loads(line)
        except ValueError:
            if number < len(lines) - 1:
                raise


def _steps(rows: list[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """By host, what it did; what a resumed run did again counts once."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for one in rows:
        if "cut" in one:
            del found.get(str(one["host"]), [])[one["cut"] :]
        elif "step" in one:
            found.setdefault(str(one["host"]), []).append(one)
    return found


def _host(name: str, done: list[Mapping[str, Any]]) -> PlayedHost:
    last = done[-1]
    stopped = not last["finished"] and last["status"] in ("failed", "unreachable")
    told = f"{last['at']}: {last['name']}" if stopped else ""
    counts = Counter(str(one["status"]) for one in done if one["status"] in COUNTED)
    return PlayedHost(name, dict(counts), told)
