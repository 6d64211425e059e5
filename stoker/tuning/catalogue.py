"""The catalogue: every variable that is known, read once from the data files beside it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

import yaml

from stoker.tuning.model import Variable


class Catalogue:
    """Variables by name.

    Args:
        variables: All of them; a name once.
        prefixes: What their names begin with: a name that does is one of ours, or misspelt.
    """

    def __init__(self, variables: Iterable[Variable], prefixes: Iterable[str]) -> None:
        self._by_name = {v.name: v for v in variables}
        self.prefixes = frozenset(prefixes)

    @staticmethod
    @cache
    def load() -> Catalogue:
        """The catalogue that is shipped, read at the first call."""
        variables: list[Variable] = []
        prefixes: list[str] = []
        folder = files("stoker.tuning") / "catalogue"
        for file in sorted(folder.iterdir(), key=lambda f: f.name):
            if not file.name.endswith(".yml"):
                continue
            data = yaml.safe_load(file.read_text(encoding="utf-8"))
            prefixes += data["prefixes"]
            variables += [Variable(family=data["family"], **entry) for entry in data["variables"]]
        return Catalogue(variables, prefixes)

    def all(self) -> tuple[Variable, ...]:
        """Every variable, by name."""
        return tuple(self._by_name[name] for name in sorted(self._by_name))

    def find(self, name: str) -> Variable | None:
        """The variable of exactly this name."""
        return self._by_name.get(name)

    def near(self, name: str) -> str:
        """The known name that this one was probably meant to be; empty where none is near."""
        close = difflib.get_close_matches(name.upper(), self._by_name, n=1, cutoff=0.8)
        return close[0] if close else ""
