"""Every command by name, with its module loaded where the command line names one of its commands.

Loading all of them takes as long as reaching several hosts. What a command line does not name can still be
called (a project's own tasks may), and is loaded then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from invoke.context import Context

from stoker.tasks.command import Command

# Module of this package -> its commands, in the order of its COMMANDS.
SHELF = {
    "project": ("hosts", "ping", "render", "unlock", "init"),
    "execute": ("exec",),
    "lint": ("lint",),
    "trust": ("trust",),
    "transfer": ("put", "get"),
    "profiles": ("profiles",),
    "doctor": ("doctor",),
    "life": ("restart", "start", "wait", "stop", "kill"),
    "persist": ("persist",),
    "capture": ("capture",),
    "look": ("status", "logs"),
    "measure": ("bench", "bench-all", "fetch", "compare", "baseline", "explain"),
    "results": ("results", "show"),
    "experiments": ("bisect", "spec", "sweep"),
    "report": ("report",),
    "play": ("play",),
    "demo": ("demo",),
}
LAB = {"lab": ("up", "down", "status", "reboot")}
_LISTING = {"-l", "--list"}  # it shows what each one does
OWN = {"own": ("check", "test", "fuzz", "docs", "picture")}


def commands(shelf: Mapping[str, tuple[str, ...]], prefix: str = "") -> Iterator[Command]:
    """The commands of some modules: whole, or, where another one is named, by name only.

    Args:
        shelf: Module to its commands.
        prefix: What stands before their names on a command line.
    """
    words = set(sys.argv[1:])
    is_named = any(words & names for names in _spelled()) and not words & _LISTING
    for module, names in shelf.items():
        if not is_named or words & {prefix + name for name in names}:
            yield from import_module(f"{__package__}.{module}").COMMANDS
        else:
            for name in names:
                yield _later(module, name)


def names() -> Iterator[str]:
    """Every command as it is typed."""
    for spelled in _spelled():
        yield from spelled


def _spelled() -> Iterator[set[str]]:
    for shelf, prefix in ((SHELF, ""), (LAB, "lab."), (OWN, "dev.")):
        yield {prefix + name for names in shelf.values() for name in names}


def _later(module: str, name: str) -> Command:
    """A command without flags or help, which nobody asks for here; called, it is the real one."""

    def entry(c: Context, *given: Any, **named: Any) -> Any:
        real = {task.name: task for task in import_module(f"{__package__}.{module}").COMMANDS}
        return real[name](c, *given, **named)

    return Command.of(entry, name, ())
