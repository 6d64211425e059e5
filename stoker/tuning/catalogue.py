"""The catalogue: every variable that is known, read once from the data files beside it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from stoker.tuning import compiled
from stoker.tuning.model import Family, Overwrite, Variable

# NCCL_BUFSIZE is NCCL_BUFFSIZE, and NCCL_FANCY_KNOB is nothing that is known.
_NEAR = 0.85


class Catalogue:
    """Variables by name, families by the beginnings of names.

    Args:
        data: What the data files hold.
    """

    def __init__(self, data: Sequence[Mapping[str, Any]]) -> None:
        self.families: Mapping[str, Family] = {d["family"]: _family(d) for d in data}
        self.prefixes = frozenset(p for f in self.families.values() for p in f.prefixes)
        self._entries = {name: (d, entry) for d in data for name, entry in _entries(d)}
        self._known: dict[str, Variable] = {}  # made when they are asked for: there are thousands

    @staticmethod
    @cache
    def load() -> Catalogue:
        """The catalogue that is shipped, read at the first call."""
        return Catalogue(compiled.load())

    def all(self) -> tuple[Variable, ...]:
        """Every variable, by name."""
        return tuple(self._variable(name) for name in sorted(self._entries))

    def find(self, name: str) -> Variable | None:
        """The variable of exactly this name."""
        return self._variable(name) if name in self._entries else None

    def _variable(self, name: str) -> Variable:
        if name not in self._known:
            data, entry = self._entries[name]
            self._known[name] = _variable(data, {**entry, "name": name})
        return self._known[name]

    def family_of(self, name: str) -> Family | None:
        """Whose a name would be by its beginning, in capitals or not."""
        if name in self._entries:
            return self.families[self._entries[name][0]["family"]]
        upper = name.upper()
        mine = [(p, f) for f in self.families.values() for p in f.prefixes if upper.startswith(p)]
        if not mine:
            return None
        family = max(mine, key=lambda pair: len(pair[0]))[1]
        return None if upper.startswith(family.foreign) else family

    def near(self, name: str) -> str:
        """The name that this one should be: the nearest, or what took its place; empty where none is near."""
        upper = name.upper()[:200]  # no name is longer, and the search costs the square of it
        if upper in self._entries:
            return upper
        family = self.family_of(name)
        known = [n for n, (d, _) in self._entries.items() if family is None or d["family"] == family.name]
        close = difflib.get_close_matches(upper, known, n=1, cutoff=_NEAR)
        nearest = self._variable(close[0]) if close else None
        gone = nearest is not None and (nearest.until or nearest.kind == "refused")
        return "" if nearest is None else nearest.renamed_to if gone else nearest.name


def _family(data: Mapping[str, Any]) -> Family:
    return Family(
        name=data["family"],
        title=data["title"],
        prefixes=tuple(data["prefixes"]),
        complete=data["complete"],
        foreign=tuple(data["foreign"]),
        ignored=data["ignored"],
        illegal=data["illegal"],
        old_prefixes=data.get("old_prefixes", {}),
        engine=data.get("engine", ""),
    )


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each name of a file with what is said of it."""
    for entry in data["variables"]:
        yield entry["name"], entry
    for group in data.get("also", ()):
        shared = {"effect": "", **{key: value for key, value in group.items() if key != "names"}}
        for name in group["names"].split():
            yield name, shared


def _variable(data: Mapping[str, Any], entry: dict[str, Any]) -> Variable:
    """One entry of a file: its source is a key of the file's ``sources``."""
    entry["source"] = data["sources"][entry["source"]]
    for key in ("values", "risky"):
        entry[key] = tuple(entry.get(key, ()))
    entry["overwritten"] = tuple(Overwrite(**o) for o in entry.get("overwritten", ()))
    return Variable(family=data["family"], **entry)
