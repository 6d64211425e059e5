"""The shortest end of an id by which a run can still be named: a whole one is wide for a narrow terminal."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence


def ends(ids: Sequence[str], wanted: Iterable[str]) -> dict[str, str]:
    """The shortest ends, between dashes, that name one run only.

    Args:
        ids: Every one, sorted.
        wanted: Those of them that are asked for.

    Returns:
        By id; the id itself where no end of it is unique.
    """
    asked, found, parts = set(wanted), {}, 1
    while asked:
        known = Counter(_end(run_id, parts) for run_id in ids)
        for run_id in list(asked):
            end = _end(run_id, parts)
            if end == run_id or (known[end] == 1 and not _begins(ids, end)):
                found[run_id] = end
                asked.discard(run_id)
        parts += 1
    return found


def _end(run_id: str, parts: int) -> str:
    return "-".join(run_id.rsplit("-", parts)[-parts:])


def _begins(ids: Sequence[str], text: str) -> bool:
    """Whether an id begins so: that names it, too."""
    at = bisect_left(ids, text)
    return at < len(ids) and ids[at].startswith(text)
