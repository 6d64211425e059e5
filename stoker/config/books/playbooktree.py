"""A playbook's parts as typed values, and what is known of a module before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
        vaults: What Ansible Vault encrypted may stand there: it goes to no command line and is not shown.
    """

    parse: Callable[[Any], Any]
    exact: bool = False
    expressions: bool = False
    vaults: bool = False


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
        elsewhere: It can be done as another user, on another host, and with an environment of its own.
        fixed: It neither looks at nor changes a host: where and as whom it runs makes no difference.
    """

    arguments: Mapping[str, Argument]
    free: str = ""
    needs: tuple[tuple[str, ...], ...] = ()
    later: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    any_name: bool = False
    elsewhere: bool = False
    fixed: bool = False


@dataclass(frozen=True)
class LoopControl:
    """How a loop names its rounds.

    Args:
        loop_var: The variable that is the item.
        index_var: The variable that counts from 0; empty for none.
        label: What is shown of an item, a template; None: the item itself.
        pause: Seconds between rounds, or a template of them.
    """

    loop_var: str = "item"
    index_var: str = ""
    label: Any = None
    pause: Any = 0


@dataclass(frozen=True)
class Task:
    """One step of a play.

    Args:
        name: As written; the module's name where none is.
        module: The module's name.
        args: As written: templates are rendered when the task runs.
        file: The file as shown to people.
        line: 1-based line at which it begins.
        when: Runs where these hold; those of its blocks first.
        loop: A list, or a template that gives one; None for no loop.
        register: Variable that holds what came of it; empty for none.
        tags: Its own, its blocks' and its play's.
        vars: Variables of this task and of its blocks.
        ignore_errors: A failure does not end the host's part; truth value or template.
        failed_when: In place of the module's own judgement; None for that.
        changed_when: In place of the module's own judgement; None for that.
        timeout: Seconds, or a template that gives them; None for no limit.
        no_log: Its arguments and results are not shown; truth value or template.
        key: Its place in the book: the same as long as nothing before it is changed.
        loop_control: How the loop names its rounds.
        until: Tried again until these hold; None: until it does not fail, where ``retries`` is given.
        retries: How often it is tried again; None: 3 with ``until``, else never.
        delay: Seconds between two tries.
        ignore_unreachable: A lost host goes on with the next task; truth value or template.
        run_once: Runs on the first host for all of them; truth value or template.
        any_errors_fatal: A failure on one host ends it for all; truth value or template.
        delegate_to: The host that does it in place of the play's; empty for none.
        environment: Mappings of variables, or templates of them; later ones win.
        become: Truth value or template: done as ``become_user``.
        become_user: User, or a template; ``root`` where none is named.
        check_mode: In place of ``--check``; None for that.
        diff: In place of ``--diff``; None for that.
        notify: Handlers to run at the end where it changes something.
        listen: Of a handler: what it is notified by, besides its name.
        included: Of ``include_tasks``: the steps of the file.
        implied: Nobody wrote it: handlers that run between the sections of a play.
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
    key: str = ""
    loop_control: LoopControl = LoopControl()
    until: Conditions | None = None
    retries: Any = None
    delay: Any = 5
    ignore_unreachable: bool | str = False
    run_once: bool | str = False
    any_errors_fatal: bool | str = False
    delegate_to: str = ""
    environment: tuple[Any, ...] = ()
    become: bool | str = False
    become_user: str = "root"
    check_mode: bool | str | None = None
    diff: bool | str | None = None
    notify: tuple[str, ...] = ()
    listen: tuple[str, ...] = ()
    included: tuple[Entry, ...] = ()
    implied: bool = False

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Block:
    """Steps that belong together; their keywords have been handed on to each of them.

    Args:
        tasks: In order.
        rescue: Run on a host where one of the tasks fails.
        always: Run on every host in the end.
        file: The file as shown to people.
        line: 1-based line at which it begins.
        name: As written; empty where none is.
    """

    tasks: tuple[Entry, ...]
    rescue: tuple[Entry, ...]
    always: tuple[Entry, ...]
    file: str
    line: int
    name: str = ""


Entry = Task | Block
"""What stands in a list of tasks."""


def flat(entries: tuple[Entry, ...], *, included: bool = True) -> Iterator[Task]:
    """Every task, in the order of the file: those in blocks too.

    Args:
        entries: A list of tasks.
        included: Also those of the files that ``include_tasks`` names.
    """
    for entry in entries:
        if isinstance(entry, Block):
            for part in (entry.tasks, entry.rescue, entry.always):
                yield from flat(part, included=included)
            continue
        yield entry
        if included:
            yield from flat(entry.included)


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
        handlers: Run at the end where a task that changed something has notified them, in this order.
        serial: Sizes of the batches of hosts, numbers or percentages (``"30%"``); empty for all at once.
        max_fail_percentage: The play ends where more of a batch fail; None for no such end.
        strategy: ``linear``: hosts wait for each other at each task; ``free``: none waits.
        force_handlers: Hosts that fail run their handlers too.
    """

    name: str
    hosts: tuple[str, ...]
    tasks: tuple[Entry, ...]
    vars: Mapping[str, Any]
    file: str
    line: int
    handlers: tuple[Task, ...] = ()
    serial: tuple[Any, ...] = ()
    max_fail_percentage: Any = None
    strategy: str = "linear"
    force_handlers: bool | str = False

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"

    @property
    def steps(self) -> Iterator[Task]:
        """Every task, those in blocks, in included files and the handlers among them."""
        yield from flat(self.tasks)
        yield from flat(self.handlers)


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
        return frozenset(tag for play in self.plays for task in flat(play.tasks) for tag in task.tags)
