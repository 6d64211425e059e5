"""A resolved profile with and without what makes its server decode speculatively."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from stoker.engines.base import Speculation

WITHOUT = "without speculation"


def without(resolved: Mapping[str, Any], how: Speculation) -> dict[str, Any]:
    """A resolved profile without what makes it speculate."""
    plain = copy.deepcopy(dict(resolved))
    args, env = plain["server"].get("args") or {}, plain.get("env") or {}
    for name in [name for name in args if _is_one(_flag(name), how.args)]:
        del args[name]
    for name in [name for name in env if _is_one(name, how.env)]:
        del env[name]
    return plain


def with_steps(resolved: Mapping[str, Any], how: Speculation, number: int) -> dict[str, Any]:
    """A resolved profile that drafts so many tokens in a step."""
    changed = copy.deepcopy(dict(resolved))
    args, env = changed["server"].setdefault("args", {}), changed.setdefault("env", {})
    for kind, place, more in how.steps:
        name, _, key = place.partition(".")
        if kind == "env":
            env[name] = str(number + more)
            continue
        spelled = _spelled(args, name)
        if key:
            args[spelled] = {**_mapping(args.get(spelled)), key: number + more}
        else:
            args[spelled] = number + more
    return changed


def steps(resolved: Mapping[str, Any], how: Speculation) -> int | None:
    """How many tokens a step drafts, as a resolved profile says; None where that is left to the engine."""
    args, env = resolved["server"].get("args") or {}, resolved.get("env") or {}
    for kind, place, more in how.steps:
        name, _, key = place.partition(".")
        said = env.get(name) if kind == "env" else args.get(_spelled(args, name))
        found = str(_mapping(said).get(key) if key else said)
        if found.isascii() and found.isdigit():
            return int(found) - more
    return None


def _spelled(args: Mapping[str, Any], name: str) -> str:
    """The argument as the profile writes it."""
    return next((written for written in args if _flag(written) == name), name)


def _mapping(value: Any) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    return dict(found or {})


def _flag(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


def _is_one(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
