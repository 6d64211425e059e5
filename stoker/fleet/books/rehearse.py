"""Everything about a playbook's steps that can be known before the first connection, tried for every host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.config.books.playbooktree import Block, Entry, Task, flat
from stoker.config.files.yamlfile import Vault
from stoker.config.inventories.inventory import Host
from stoker.config.layers import Kinds, Watched, Without
from stoker.errors import ConfigError, InputError, Problem
from stoker.fleet import servers
from stoker.fleet.books import vaulted
from stoker.fleet.books.call import arguments
from stoker.fleet.books.call import around as surroundings
from stoker.fleet.books.scope import Frame, Scope
from stoker.fleet.books.stages import Options, Stage
from stoker.fleet.books.verbs import IN_BOOKS, modules
from stoker.fleet.job import Verb
from stoker.fleet.session import target_of

if TYPE_CHECKING:
    from stoker.fleet.project import Project


def rehearse(stages: Sequence[Stage], project: Project, options: Options, own: Mapping[str, Any]) -> None:
    """Render and plan what depends on no result, for each host of each play.

    Of hosts that give the same answer to all that was looked up in one that is fine, nothing new can come.

    Args:
        stages: What is to run.
        project: The wiring.
        options: How it is to run.
        own: The variables that Stoker sets.

    Raises:
        ConfigError: Every mistake found, at the tasks' lines.
    """
    late = late_names(stages)
    templates = project.settings.path("profiles") / "templates"
    named = ("inventory_hostname",) if templates.is_dir() else ()  # to which a host's name is told
    problems: dict[Problem, None] = {}
    for stage in stages:
        known = {name: value for name, value in stage.play.vars.items() if name not in late}
        frame, kinds = Frame(known, options.extra, own), Kinds()
        for task, around in _inside((*stage.tasks, *stage.play.handlers), ()):
            if "profile" not in modules()[task.module].arguments and not _may_open(task):
                continue  # what could be wrong with it without a server, the file itself has shown
            fine = kinds.of_task()
            for host in stage.hosts:
                if fine.has(host):
                    continue
                seen = Watched(Without(host.vars, late.__contains__))
                found = list(_of_task(task, around, replace(host, vars=seen), project, frame, late))
                problems.update(dict.fromkeys(found))
                if not found:
                    fine.add(host, (*seen.asked, *named))
    if problems:
        raise ConfigError(list(problems))


def reachable(hosts: Iterable[Host]) -> None:
    """See that the connection variables of each host can be read.

    Raises:
        InputError: Those of one are wrong.
    """
    for host in {host.name: host for host in hosts}.values():
        target_of(host)


def _of_task(
    task: Task,
    around: Sequence[Task],
    host: Host,
    project: Project,
    frame: Frame,
    late: frozenset[str],
) -> Iterator[Problem]:
    """What is wrong with a task on a host, in any round of the loops around it."""
    for outer in _outer(around, host, frame):
        yield from _mistakes(task, host, project, frame, late, outer)


def _inside(entries: Sequence[Entry], around: tuple[Task, ...]) -> Iterator[tuple[Task, tuple[Task, ...]]]:
    """Every task, with the loops over ``include_tasks`` around it."""
    for entry in entries:
        if isinstance(entry, Block):
            yield from _inside((*entry.tasks, *entry.rescue, *entry.always), around)
            continue
        yield entry, around
        yield from _inside(entry.included, around if entry.loop is None else (*around, entry))


def _ready(task: Task, verb: Verb, scope: Scope, sealed: _Tried) -> dict[str, Any] | None:
    """A task's arguments as far as they are known; None where one is not."""
    try:
        surroundings(task, verb, scope, sealed.open)
        return arguments(task, modules()[task.module], verb, scope, sealed.open)
    except InputError:
        return None


class _Tried:
    """Opens vaults to see that it can be done, and tells nothing of what stands in them."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.errors: list[InputError] = []

    def open(self, vault: Vault, where: str) -> vaulted.Opened:
        """See ``vaulted.Open``; what is wrong is noted."""
        try:
            self._project.try_vault(vault, where)
        except InputError as error:
            self.errors.append(error)
        return vaulted.closed(vault, where)


def _may_open(task: Task) -> bool:
    """Whether something out of a vault may be given to it."""
    return IN_BOOKS[task.module].book.elsewhere and bool(task.environment or "stdin" in task.args)


def _outer(around: Sequence[Task], host: Host, frame: Frame) -> list[dict[str, Any]]:
    """The variables of these loops, in every combination; none where one is not known yet."""
    rounds: list[dict[str, Any]] = [{}]
    for task in around:
        rounds = [
            {**known, **one}
            for known in rounds
            for one in _rounds(task, frame.scope(host, {}, task.vars, known))
        ]
    return rounds


def late_names(stages: Sequence[Stage]) -> frozenset[str]:
    """Names of the variables that the book itself sets while it runs."""
    names = set()
    for stage in stages:
        for task in flat((*stage.tasks, *stage.play.handlers)):
            names.add(task.register)
            names.update(task.args if task.module == "set_fact" else ())
    return frozenset(names)


def _mistakes(
    task: Task,
    host: Host,
    project: Project,
    frame: Frame,
    late: frozenset[str],
    outer: Mapping[str, Any],
) -> Iterator[Problem]:
    """What is wrong with a task on a host."""
    own = {name: value for name, value in task.vars.items() if name not in late}
    for loop in _rounds(task, frame.scope(host, {}, own, outer)):
        scope = frame.scope(host, {}, own, {**outer, **loop})
        if not _may_run(task, scope):
            continue
        verb, sealed = IN_BOOKS[task.module], _Tried(project)
        args = _ready(task, verb, scope, sealed)
        yield from (Problem(task.file, task.line, one.what, one.next_step) for one in sealed.errors)
        if args is None:
            continue  # it waits for what only the run can tell, or fails there with its own message
        try:
            servers.meant(project, verb, host, args)
        except ConfigError as error:
            yield from error.problems
        except InputError as error:
            where = f"{error.where}: " if error.where not in ("", task.place) else ""
            yield Problem(task.file, task.line, where + error.what, error.next_step)


def _rounds(task: Task, scope: Scope) -> list[dict[str, Any]]:
    """The loop's variable in each round, as far as it is known; one round without where there is no loop."""
    if task.loop is None:
        return [{}]
    try:
        items = scope.render(task.loop, task.place)
    except InputError:
        return []
    name = task.loop_control.loop_var
    return [{name: item, "ansible_loop_var": name} for item in items] if isinstance(items, list) else []


def _may_run(task: Task, scope: Scope) -> bool:
    """Whether the task surely runs, or might."""
    try:
        return scope.unmet(task.when, task.place) is None
    except InputError:
        return True
