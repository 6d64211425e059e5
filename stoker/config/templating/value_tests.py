"""Ansible's tests for values: ``is match``, ``is version``, ``is subset``, ``is truthy``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.config.patternsafe import compiled
from stoker.config.templating.lists import Known

_OPERATORS: Mapping[str, Callable[[int], bool]] = {
    **dict.fromkeys(("==", "=", "eq"), lambda order: order == 0),
    **dict.fromkeys(("!=", "<>", "ne"), lambda order: order != 0),
    **dict.fromkeys(("<", "lt"), lambda order: order < 0),
    **dict.fromkeys(("<=", "le"), lambda order: order <= 0),
    **dict.fromkeys((">", "gt"), lambda order: order > 0),
    **dict.fromkeys((">=", "ge"), lambda order: order >= 0),
}
_TRUE, _FALSE = ("y", "yes", "on", "1", "true", "t", "1.0"), ("n", "no", "off", "0", "false", "f", "0.0")


def match(text: Any, pattern: str, ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether a text begins with a match."""
    return compiled(pattern, str(text), ignorecase, multiline).match(str(text)) is not None


def search(text: Any, pattern: str, ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether a text holds a match."""
    return compiled(pattern, str(text), ignorecase, multiline).search(str(text)) is not None


def regex(
    text: Any, pattern: str, ignorecase: bool = False, multiline: bool = False, match_type: str = "search"
) -> bool:
    """Whether a text matches: ``search``, ``match`` or ``fullmatch``."""
    if match_type not in ("search", "match", "fullmatch"):
        raise ValueError("match_type is search, match or fullmatch")
    found = compiled(pattern, str(text), ignorecase, multiline)
    return getattr(found, match_type)(str(text)) is not None


def version(value: Any, other: Any, operator: str = "eq") -> bool:
    """Whether a version is as another: ``2.10`` is above ``2.9``."""
    if operator not in _OPERATORS:
        raise ValueError(f"{operator!r} compares nothing: {', '.join(_OPERATORS)}")
    if str(value) == "" or str(other) == "":
        raise ValueError("a version cannot be empty")
    left, right = _parts(value), _parts(other)
    for one, two in zip(left, right, strict=False):
        if isinstance(one, int) != isinstance(two, int):
            raise TypeError(f"{value} and {other} cannot be compared")
    return _OPERATORS[operator]((left > right) - (left < right))


def _parts(value: Any) -> list[int | str]:
    found = re.findall(r"\d+|[a-z]+|[^\da-z.]+", str(value))
    return [int(part) if part.isdigit() else part for part in found]


def subset(left: Iterable[Any], right: Iterable[Any]) -> bool:
    """Whether all elements of the first are in the second."""
    known = Known(right)
    return all(item in known for item in left)


def superset(left: Iterable[Any], right: Iterable[Any]) -> bool:
    """Whether all elements of the second are in the first."""
    return subset(right, left)


def contains(container: Any, item: Any) -> bool:
    """Whether a list, mapping or text holds something."""
    return item in container


def truthy(value: Any, convert_bool: bool = False) -> bool:
    """Whether a value counts as true; with ``convert_bool`` yes, off and the like are what they say."""
    if convert_bool:
        text = str(value).lower()
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
    return bool(value)


def falsy(value: Any, convert_bool: bool = False) -> bool:
    """The opposite of ``truthy``."""
    return not truthy(value, convert_bool)


VALUE_TESTS: Mapping[str, Callable[..., bool]] = {
    "match": match,
    "search": search,
    "regex": regex,
    "version": version,
    "version_compare": version,
    "subset": subset,
    "issubset": subset,
    "superset": superset,
    "issuperset": superset,
    "contains": contains,
    "any": any,
    "all": all,
    "truthy": truthy,
    "falsy": falsy,
    "abs": lambda path: str(path).startswith("/"),
}
