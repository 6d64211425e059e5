"""Ansible's filters over lists and mappings.

Where Ansible leaves the order to chance (``union``, ``difference``, …) the first list's order is kept.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any


class Known:
    """A set that takes lists and mappings too.

    Args:
        items: What is in it.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        self._quick: set[Any] = set()
        self._slow: list[Any] = []
        for item in items:
            self.add(item)

    def add(self, item: Any) -> None:
        """Put something in."""
        if isinstance(item, Hashable):
            self._quick.add(item)
        elif item not in self._slow:
            self._slow.append(item)

    def __contains__(self, item: Any) -> bool:
        return item in (self._quick if isinstance(item, Hashable) else self._slow)


def union(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in one of two lists."""
    return _once([*left, *right])


def intersect(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in both."""
    known = Known(right)
    return _once(item for item in left if item in known)


def difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in the first and not in the second."""
    known = Known(right)
    return _once(item for item in left if item not in known)


def symmetric_difference(left: Iterable[Any], right: Iterable[Any]) -> list[Any]:
    """What is in one of them and not in both."""
    first, second = list(left), list(right)
    return difference(first, second) + difference(second, first)


def _once(items: Iterable[Any]) -> list[Any]:
    known, found = Known(()), []
    for item in items:
        if item not in known:
            known.add(item)
            found.append(item)
    return found


def flatten(items: Sequence[Any], levels: int | None = None, skip_nulls: bool = True) -> list[Any]:
    """Lists in a list taken apart, so many levels deep."""
    found: list[Any] = []
    for item in items:
        if skip_nulls and item in (None, "None", "null"):
            continue
        if not isinstance(item, list | tuple) or (levels is not None and levels < 1):
            found.append(item)
        else:
            found += flatten(item, None if levels is None else levels - 1, skip_nulls)
    return found


def combine(*terms: Any, recursive: bool = False, list_merge: str = "replace") -> dict[Any, Any]:
    """Mappings in one; the last one wins."""
    if list_merge not in ("replace", "keep", "append", "prepend"):
        raise ValueError("list_merge is replace, keep, append or prepend")
    found: dict[Any, Any] = {}
    for term in flatten(terms, levels=1):
        if not isinstance(term, Mapping):
            raise TypeError("combine takes mappings")
        found = _merged(found, term, recursive, list_merge)
    return found


def _merged(low: Mapping[Any, Any], high: Mapping[Any, Any], recursive: bool, lists: str) -> dict[Any, Any]:
    if low == high:
        return dict(high)  # as Ansible has it: nothing is added to what is the same
    found = dict(low)
    for key, value in high.items():
        old = low.get(key)
        if recursive and isinstance(old, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(old, value, recursive, lists)
        elif isinstance(old, list) and isinstance(value, list):
            found[key] = {
                "replace": value,
                "keep": old,
                "append": [*old, *value],
                "prepend": [*value, *old],
            }[lists]
        else:
            found[key] = value
    return found


def dict2items(mapping: Any, key_name: str = "key", value_name: str = "value") -> list[dict[str, Any]]:
    """A mapping as a list of its entries."""
    if not isinstance(mapping, Mapping):
        raise TypeError("dict2items takes a mapping")
    return [{key_name: key, value_name: value} for key, value in mapping.items()]


def items2dict(items: Any, key_name: str = "key", value_name: str = "value") -> dict[Any, Any]:
    """A list of entries as a mapping."""
    return {item[key_name]: item[value_name] for item in items}


def subelements(items: Any, path: str | Sequence[str], skip_missing: bool = False) -> list[list[Any]]:
    """Each element with each of the elements of a list in it."""
    names = path.split(".") if isinstance(path, str) else list(path)
    found: list[list[Any]] = []
    for element in items.values() if isinstance(items, Mapping) else items:
        inner: Any = element
        for name in names:
            if skip_missing and name not in inner:
                inner = []
                break
            inner = inner[name]
        found += [[element, one] for one in inner]
    return found


def zipped(*lists: Iterable[Any]) -> list[list[Any]]:
    """Elements of several lists side by side, as many as the shortest has."""
    return [list(row) for row in zip(*lists, strict=False)]
