"""A playbook's parts as typed values, and what is known of a module before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Conditions = tuple[str | bool, ...]
"""Expressions without braces, or truth values; all of them must hold."""


@dataclass(frozen=True)
class Argument:
    """What is known of a module's argument before it runs.

    Args:
        parse: Types what was written; raises ``InputError`` where it does not fit.
        exact: A text is meant, so that ``1.10`` and ``no`` are taken as they are written.
        expressions: Holds expressions without braces, which the module evaluates itself.
    """

    parse: Callable[[Any], Any]
    exact: bool = False
    expressions: bool = False


@dataclass(frozen=True)
class Module:
    """What is known of a module before it runs.

    Args:
        arguments: By name.
        free: The argument that a bare value is; empty where a mapping is demanded.
        needs: Of each of these groups, one argument must be there.
        later: Arguments that Ansible's module of this name has and this one has not.
        pairs: Arguments that Ansible would take out of a bare text where it says ``NAME=…``.
        any_name: Any other name is an argument too, the name of a variable.
    """

    arguments: Mapping[str, Argument]
    free: str = ""
    needs: tuple[tuple[str, ...], ...] = ()
    later: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    any_name: bool = False


@dataclass(frozen=True)
class Task:
    """One step of a play.

    Args:
        name: As written; the module's name where none is.
        module: The module's name.
        args: As written: templates are rendered when the task runs.
        file: The file as shown to people.
        line: 1-based line at which it begins.
        when: Runs where these hold.
        loop: A list, or a template that gives one; None for no loop.
        register: Variable that holds what came of it; empty for none.
        tags: Its own and its play's.
        vars: Variables of this task alone.
        ignore_errors: A failure does not end the host's part; truth value or template.
        failed_when: In place of the module's own judgement; None for that.
        changed_when: In place of the module's own judgement; None for that.
        timeout: Seconds, or a template that gives them; None for no limit.
        no_log: Its arguments and results are not shown; truth value or template.
    """

    name: str
    module: str
    args: Mapping[str, Any]
    file: str
    line: int
    when: Conditions = ()
    loop: Any = None
    register: str = ""
    tags: frozenset[str] = frozenset()
    vars: Mapping[str, Any] = field(default_factory=dict)
    ignore_errors: bool | str = False
    failed_when: Conditions | None = None
    changed_when: Conditions | None = None
    timeout: Any = None
    no_log: bool | str = False

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Play:
    """Tasks for hosts.

    Args:
        name: As written; the hosts where none is.
        hosts: Patterns, which may be templates over the play's and extra variables.
        tasks: In order.
        vars: The play's variables, files included.
        file: The file as shown to people.
        line: 1-based line at which it begins.
    """

    name: str
    hosts: tuple[str, ...]
    tasks: tuple[Task, ...]
    vars: Mapping[str, Any]
    file: str
    line: int

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Playbook:
    """A runbook.

    Args:
        path: The file.
        shown: The file as shown to people.
        plays: In order.
    """

    path: Path
    shown: str
    plays: tuple[Play, ...]

    @property
    def tags(self) -> frozenset[str]:
        """Every tag in it."""
        return frozenset(tag for play in self.plays for task in play.tasks for tag in task.tags)
