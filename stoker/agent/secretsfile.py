"""The values that may leave the host in nothing: those of a request, and those kept for its slots."""

from __future__ import annotations

import os

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Mapping

NAME = "secrets.env"
# These ask for no server; what they tell is names of files, by which others go.
_OF_NO_SLOT = ("manifest", "unlock")


def text(secrets: Mapping[str, str]) -> str:
    """What the launch script reads: one ``export`` a secret."""
    import shlex

    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(secrets.items()))


def of_request(home: str, name: str, params: Mapping[str, Any]) -> List[str]:
    """Every secret that an operation may come across.

    Args:
        home: ``~/.stoker``.
        name: Of the operation.
        params: Its plan's secrets count, and what is kept for the slots that it touches: those it names, or
            all of them. Each launch that is kept has its own: a log goes on to say what it was given.
    """
    if name in _OF_NO_SLOT:
        return []
    plans = [params.get("plan"), *_values(params.get("plans"))]
    found = [value for plan in plans if isinstance(plan, dict) for value in _values(plan.get("secrets"))]
    found = [value for value in found if isinstance(value, str)]
    for slot in _slots(home, params):
        for folder in _folders(os.path.join(home, "slots", slot)):
            found += _kept(os.path.join(folder, NAME))
    return [value for value in dict.fromkeys(found) if isinstance(value, str) and value]


def _folders(slot: str) -> List[str]:
    """Where secrets of a slot lie: its own folder, and that of each launch."""
    launches = os.path.join(slot, "launches")
    try:
        return [slot, *(os.path.join(launches, name) for name in sorted(os.listdir(launches)))]
    except OSError:
        return [slot]


def _values(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else ()


def _slots(home: str, params: Mapping[str, Any]) -> List[str]:
    plan = params.get("plan")
    slot = params.get("slot") or (plan.get("slot") if isinstance(plan, dict) else None)
    if isinstance(slot, str) and os.path.basename(slot) == slot:
        return [slot]
    try:
        return os.listdir(os.path.join(home, "slots"))
    except OSError:
        return []


def _kept(path: str) -> List[str]:
    """The values in such a file; none where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            written = file.read()
    except OSError:
        return []
    import shlex

    try:
        words = shlex.split(written)
    except ValueError:  # somebody edited it
        return []
    pairs: Dict[str, str] = dict(word.split("=", 1) for word in words if "=" in word)
    return list(pairs.values())
