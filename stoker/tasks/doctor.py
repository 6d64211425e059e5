"""The command ``doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.fleet import doctor as verbs
from stoker.tasks.command import READING, command

if TYPE_CHECKING:
    from stoker.fleet.pool import HostResult
    from stoker.tasks.run import Run

_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "cyan"}


@command(*READING, *verbs.VERBS[0].flags)
def doctor(run: Run) -> int:
    """Is each host fit to serve: driver, GPUs, links, memory, disk, limits, logins, and its profiles."""
    results = run.on_hosts(verbs.VERBS[0])
    for result in results:
        checks = _checks(result)
        if checks:
            rows = [row for check in checks for row in _rows(check)]
            run.screen.table(("", "check", "what was found"), rows, title=result.host)
    return run.end(results)


def _checks(result: HostResult) -> list[dict[str, Any]]:
    """What the doctor found, also where a check failed."""
    if result.data is not None:
        return list(result.data[0].data["checks"])
    detail = getattr(result.error, "detail", {})
    return list(detail.get("checks", ()))


def _rows(check: dict[str, Any]) -> list[tuple[Any, ...]]:
    """A check: what was found, and below it what to do."""
    found = (check["evidence"], "dim" if check["state"] == "ok" else "")
    rows: list[tuple[Any, ...]] = [((check["state"], _STYLE.get(check["state"], "")), check["name"], found)]
    return rows + ([("", "", (f"→ {check['remedy']}", "cyan"))] if check["remedy"] else [])


COMMANDS = (doctor,)
