"""The catalogue: every variable that is known, read once from the data files beside it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from stoker.tuning.model import Family, Overwrite, Variable

# NCCL_BUFSIZE is NCCL_BUFFSIZE, and NCCL_FANCY_KNOB is nothing that is known.
_NEAR = 0.85


class Catalogue:
    """Variables by name, families by the beginnings of names.

    Args:
        families: Whose variables they are.
        variables: All of them; a name once.
    """

    def __init__(self, families: Iterable[Family], variables: Iterable[Variable]) -> None:
        self.families: Mapping[str, Family] = {f.name: f for f in families}
        self.prefixes = frozenset(p for f in self.families.values() for p in f.prefixes)
        self._by_name = {v.name: v for v in variables}

    @staticmethod
    @cache
    def load() -> Catalogue:
        """The catalogue that is shipped, read at the first call."""
        folder = files("stoker.tuning") / "catalogue"
        texts = [f.read_text(encoding="utf-8") for f in folder.iterdir() if f.name.endswith(".yml")]
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where libyaml is there
        data = [yaml.load(text, Loader=loader) for text in texts]  # noqa: S506 both are safe loaders
        return Catalogue([_family(d) for d in data], [v for d in data for v in _variables(d)])

    def all(self) -> tuple[Variable, ...]:
        """Every variable, by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def find(self, name: str) -> Variable | None:
        """The variable of exactly this name."""
        return self._by_name.get(name)

    def family_of(self, name: str) -> Family | None:
        """Whose a name would be by its beginning, in capitals or not."""
        known = self._by_name.get(name)
        if known:
            return self.families[known.family]
        upper = name.upper()
        mine = [(p, f) for f in self.families.values() for p in f.prefixes if upper.startswith(p)]
        if not mine:
            return None
        family = max(mine, key=lambda pair: len(pair[0]))[1]
        return None if upper.startswith(family.foreign) else family

    def near(self, name: str) -> str:
        """The name that this one should be: the nearest, or what took its place; empty where none is near."""
        upper = name.upper()[:200]  # no name is longer, and the search costs the square of it
        if upper in self._by_name:
            return upper
        family = self.family_of(name)
        known = [v.name for v in self._by_name.values() if family is None or v.family == family.name]
        close = difflib.get_close_matches(upper, known, n=1, cutoff=_NEAR)
        nearest = self._by_name[close[0]] if close else None
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


def _variables(data: Mapping[str, Any]) -> Iterator[Variable]:
    for entry in data["variables"]:
        yield _variable(data, **entry)
    for group in data.get("also", ()):
        shared = {key: value for key, value in group.items() if key != "names"}
        for name in group["names"].split():
            yield _variable(data, name=name, effect="", **shared)


def _variable(data: Mapping[str, Any], **entry: Any) -> Variable:
    """One entry of a file: its source is a key of the file's ``sources``."""
    entry["source"] = data["sources"][entry["source"]]
    for key in ("values", "risky"):
        entry[key] = tuple(entry.get(key, ()))
    entry["overwritten"] = tuple(Overwrite(**o) for o in entry.get("overwritten", ()))
    return Variable(family=data["family"], **entry)
