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
from stoker.tasks.names import spelled

_LISTING = {"-l", "--list"}  # it shows what each one does


def commands(shelf: Mapping[str, tuple[str, ...]], prefix: str = "") -> Iterator[Command]:
    """The commands of some modules: whole, or, where another one is named, by name only.

    Args:
        shelf: Module to its commands.
        prefix: What stands before their names on a command line.
    """
    words = set(sys.argv[1:])
    is_named = any(words & names for names in spelled()) and not words & _LISTING
    for module, names in shelf.items():
        if not is_named or words & {prefix + name for name in names}:
            yield from import_module(f"{__package__}.{module}").COMMANDS
        else:
            for name in names:
                yield _later(module, name)


def _later(module: str, name: str) -> Command:
    """A command without flags or help, which nobody asks for here; called, it is the real one."""

    def entry(c: Context, *given: Any, **named: Any) -> Any:
        real = {task.name: task for task in import_module(f"{__package__}.{module}").COMMANDS}
        return real[name](c, *given, **named)

    return Command.of(entry, name, ())
