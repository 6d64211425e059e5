"""What differs between the arguments of two servers, as they report them or as their command lines say."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from stoker import engines
from stoker.results import names
from stoker.results.explaining.causes import (
    ARGUMENTS,
    LIKELY,
    POSSIBLE,
    UNLIKELY,
    Cause,
    Findings,
    Side,
    Unknown,
    count,
    why_unread,
)

# A figure that the engine computes from free memory moves a little from launch to launch; one that somebody
# typed is what it says.
_SAME = 0.02
_LARGE = 10000
_NO_ALIASES: Mapping[str, str] = MappingProxyType({})


def look(new: Side, base: Side) -> Findings:
    """Compare arguments: what the servers report, and what only their command lines tell."""
    was, now = dict(_flat(base.fingerprint.args)), dict(_flat(new.fingerprint.args))
    aliases = engines.get(new.engine).aliases if new.engine in engines.names() else {}
    said_was, said_now = flags(base.fingerprint.argv, aliases), flags(new.fingerprint.argv, aliases)
    unknown = []
    if not (was and now):
        missing = base if not was else new
        if not (_is_probe(base) and _is_probe(new)):
            why = why_unread(missing, "argument", "info")
            unknown.append(Unknown("arguments as the server reports them", why))
        was, now = {}, {}
    if not (base.fingerprint.argv and new.fingerprint.argv):
        missing = base if not base.fingerprint.argv else new
        unknown.append(Unknown("command line", why_unread(missing, "command line")))
        said_was, said_now = {}, {}
    reported = {_plain(name) for name in (*was, *now)}
    unreported = [n for n in (*said_was, *said_now) if _plain(n) not in reported]
    both = {*said_was, *said_now}
    typed = {_plain(name) for name in both if said_was.get(name) != said_now.get(name)} if both else None
    causes = [
        *_compared(was, now, "", typed),
        *_compared(_only(said_was, unreported), _only(said_now, unreported), "--", None),
    ]
    same = sum(name in now and _alike(name, was[name], now[name], typed) for name in was)
    same += sum(said_was.get(n) == said_now.get(n) for n in set(unreported))
    return Findings(tuple(causes), (count(same, "engine argument"),) if same else (), tuple(unknown))


def _is_probe(side: Side) -> bool:
    """Whether it is a probe of all-reduces: no server, so there is nobody to report arguments."""
    return any("/probe/probe.py" in word for word in side.fingerprint.argv)


def flags(argv: Sequence[str], aliases: Mapping[str, str] = _NO_ALIASES) -> dict[str, str]:
    """The flags of a command line: ``--name value``, ``--name=value``; a bare one is ``true``.

    What precedes the first flag (the program and where it lies) is left out: the versions tell about it.

    Args:
        argv: The command line.
        aliases: Other spellings of flags, each with the one that counts.
    """
    found: dict[str, str] = {}
    name = ""
    for word in argv[1:]:
        if word.startswith("-") and not _is_number(word):
            spelled, equals, value = word.partition("=")
            name = aliases.get(spelled, spelled).lstrip("-")
            found[name] = value if equals else "true"
            name = "" if equals else name
        elif name:
            # A list has several values: `--gpus 0 1`.
            found[name] = word if found[name] == "true" else f"{found[name]} {word}"
    return {key: _spaced(value) for key, value in found.items() if key and key != "m"}


def _spaced(value: str) -> str:
    """JSON is the same however it is spaced."""
    if not value.startswith("{"):
        return value
    try:
        return json.dumps(json.loads(value))
    except ValueError:
        return value


def _is_number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _plain(name: str) -> str:
    return name.rpartition(".")[2].replace("-", "_").lower()


def _only(values: Mapping[str, str], chosen: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name in chosen}


def _compared(
    was: Mapping[str, Any], now: Mapping[str, Any], dashes: str, typed: set[str] | None
) -> Iterator[Cause]:
    """A cause for each argument that differs.

    Args:
        was: Before.
        now: After.
        dashes: What a flag is written with.
        typed: Plain names of the flags that the command lines write otherwise; None where that is not known.
            An argument that nobody wrote otherwise follows from something else: a variable, a version, free
            memory.
    """
    for name in sorted({*was, *now}):
        if name in was and name in now and _alike(name, was[name], now[name], typed):
            continue
        kind = "is new" if name not in was else "is gone" if name not in now else "is another"
        confidence, reason = LIKELY, "the engine runs with another setting"
        if names.is_volatile_argument(name.replace("-", "_")):
            confidence, reason = UNLIKELY, "it differs from launch to launch"
        elif typed is not None and _plain(name) not in typed:
            confidence, reason = (
                POSSIBLE,
                "both command lines are equal there: it follows from something else",
            )
        title = f"argument {dashes}{name} {kind}"
        detail = f"{_shown(was, name)} → {_shown(now, name)}"
        yield Cause(ARGUMENTS, title, detail, confidence, reason, name=name)


def _alike(name: str, one: object, other: object, typed: set[str] | None) -> bool:
    numbers = [v for v in (one, other) if isinstance(v, int | float) and not isinstance(v, bool)]
    computed = typed is not None and _plain(name) not in typed and not names.is_volatile_argument(name)
    real = any(isinstance(v, float) for v in numbers)
    if len(numbers) == 2 and (real or (computed and max(map(abs, numbers)) > _LARGE)):
        return math.isclose(*numbers, rel_tol=_SAME if computed else 1e-6, abs_tol=1e-9)
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _shown(values: Mapping[str, Any], name: str) -> str:
    text = str(values[name]) if name in values else "not given"
    return text if len(text) <= 80 else text[:79] + "…"
