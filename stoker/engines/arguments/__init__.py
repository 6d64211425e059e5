"""Which arguments each engine takes: read out of its own help, and stored for one known version.

A stored list is ``ENGINE.txt`` beside this: ``# key: value`` lines, then one argument a line, all its names
and what it takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from stoker.engines.arguments.help import Argument, Takes, parse
from stoker.engines.base import Engine

__all__ = ["Argument", "Arguments", "Takes", "dumps", "help_argv", "load", "loads", "parse"]

_FOLDER = Path(__file__).parent
_HELP = {"vllm": ("--help=all",)}  # plain --help names only its groups
_MARK = {"none": "-", "one": "VALUE", "optional": "[VALUE]", "many": "VALUE..."}
_TAKES: dict[str, Takes] = {"-": "none", "VALUE": "one", "[VALUE]": "optional", "VALUE...": "many"}


@dataclass(frozen=True)
class Arguments:
    """What one engine takes, at one version.

    Args:
        version: The engine's version.
        source: Where the list was read.
        reads: Habits of its parser: ``abbreviations`` (an unambiguous beginning is the whole name),
            ``underscores`` (as dashes), ``dotted`` (``--name.key`` is a key of ``--name``'s mapping).
        hidden: Names that it takes and does not list in its help.
        items: The arguments, in the order of the help.
    """

    version: str
    source: str
    reads: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()
    items: tuple[Argument, ...] = ()
    _by_name: dict[str, Argument] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_name.update((name, item) for item in self.items for name in item.names)
        self._by_name.update((name, Argument((name,), "any")) for name in self.hidden)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, with its dashes."""
        return tuple(self._by_name)

    def find(self, flag: str) -> Argument | None:
        """The argument that the engine takes a flag for; None where it would refuse it.

        Args:
            flag: With its dashes.
        """
        spelled = self._spelled(flag)
        if spelled in self._by_name:
            return self._by_name[spelled]
        if "dotted" in self.reads and "." in spelled:
            base = self._by_name.get(spelled.partition(".")[0])
            return Argument(base.names, "any") if base else None
        if "abbreviations" not in self.reads or not spelled.startswith("--"):
            return None
        begun = {id(item): item for name, item in self._by_name.items() if name.startswith(spelled)}
        return next(iter(begun.values())) if len(begun) == 1 else None

    def _spelled(self, flag: str) -> str:
        if "underscores" not in self.reads or not flag.startswith("--"):
            return flag
        base, dot, key = flag.partition(".")
        return base.replace("_", "-") + dot + key


@cache
def load(engine: str) -> Arguments | None:
    """The stored list of an engine; None for one without a command of its own."""
    path = _FOLDER / f"{engine}.txt"
    return loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def loads(text: str) -> Arguments:
    """A list out of its file's text."""
    lines = text.splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# ") and ": " in line)
    return Arguments(
        version=head["version"],
        source=head["source"],
        reads=frozenset(head.get("reads", "").split()),
        hidden=tuple(head.get("hidden", "").split()),
        items=tuple(_item(line) for line in lines if line.startswith("-")),
    )


def dumps(found: Arguments) -> str:
    """The text of a list's file."""
    head = {"version": found.version, "source": found.source, "reads": " ".join(sorted(found.reads))}
    head["hidden"] = " ".join(found.hidden)
    return (
        "\n".join([*(f"# {key}: {value}" for key, value in head.items() if value), *_lines(found.items)])
        + "\n"
    )


def help_argv(engine: Engine, python: str) -> tuple[str, ...]:
    """The command that prints an engine's help; empty where it has no command of its own.

    Args:
        engine: The engine.
        python: The interpreter that runs it, where it is a Python program.
    """
    words = tuple(python if word == "{python}" else word for word in engine.command)
    return (*words, *_HELP.get(engine.name, ("--help",))) if words else ()


def _item(line: str) -> Argument:
    names, _, rest = line.partition("  ")
    takes, _, more = rest.partition(" ")
    choices = re.match(r"\{([^}]+)\}", more)
    listed = tuple(choices.group(1).split(",")) if choices else ()
    return Argument(tuple(names.split(", ")), _TAKES[takes], listed, removed=more.endswith("removed"))


def _lines(items: Sequence[Argument]) -> Iterator[str]:
    for item in items:
        choices = " {" + ",".join(item.choices) + "}" if item.choices else ""
        yield f"{', '.join(item.names)}  {_MARK[item.takes]}{choices}{' removed' if item.removed else ''}"
