"""Which of the runs that came back are meant: ``--host``, ``--profile``, ``--since``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError, nearest
from stoker.fleet.flags import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoker.results.records.summary import Summary
    from stoker.tasks.run import Run


NONE = "none"  # of a run that was not judged


@dataclass(frozen=True)
class Selection:
    """What was asked for.

    Args:
        hosts: Only these; empty for every one.
        profiles: Only these; empty for every one.
        since: Unix time of the oldest.
        words: The same for people.
        verdicts: Only these; empty for every one.
    """

    hosts: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    since: float = float("-inf")
    words: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()

    def has(self, row: Summary) -> bool:
        """Whether a run is meant."""
        return (
            (not self.hosts or row.host in self.hosts)
            and (not self.profiles or row.profile in self.profiles)
            and (not self.verdicts or (row.verdict or NONE) in self.verdicts)
            and row.created >= self.since
        )


def of(run: Run) -> Selection:
    """What a command's ``--host``, ``--profile`` and ``--since`` ask for."""
    hosts, profiles = _several(run.args.get("host")), _several(run.args.get("profile"))
    since = run.args.get("since")
    words = [f"host {name}" for name in hosts] + [f"profile {name}" for name in profiles]
    words += [f"since {since}"] if since else []
    verdicts = _verdicts(run.args.get("verdict"))
    words += [f"verdict {name}" for name in verdicts]
    return Selection(hosts, profiles, _since(since), tuple(words), verdicts)


def rows(run: Run, chosen: Selection) -> tuple[Summary, ...]:
    """The runs that are meant, newest first.

    Raises:
        InputError: There is none; a name that no run has is told with the nearest.
    """
    every = run.project.store.list()
    if not every:
        raise InputError("nothing was measured yet", next_step="inv bench --host NAME")
    _check("host", chosen.hosts, [row.host for row in every])
    _check("profile", chosen.profiles, [row.profile for row in every])
    found = tuple(row for row in every if chosen.has(row))
    if not found:
        raise InputError("no run is " + ", ".join(chosen.words), next_step="see `inv results`")
    return found


def _verdicts(text: str | None) -> tuple[str, ...]:
    """Verdicts with commas between.

    Raises:
        InputError: One that there is not.
    """
    from stoker.results.statistics.stats import VERDICTS

    known = (*VERDICTS, NONE)
    found = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    for name in found:
        if name not in known:
            hint = nearest(name, known) or f"one of {', '.join(known)}"
            raise InputError(f"there is no verdict {name!r}", where="--verdict", next_step=hint)
    return found


def _several(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _since(text: str | None) -> float:
    if not text:
        return float("-inf")
    when = moment(text, "--since")
    return time.time() - when if isinstance(when, float) else when.timestamp()


def _check(flag: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(
                f"no run is of {flag} {name!r}", where=f"--{flag}", next_step=nearest(name, {*known} - {""})
            )
