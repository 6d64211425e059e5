"""Variables that a book names and nobody defines, found before the first connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stoker.config.books.playbooktree import Block, Entry, Task
from stoker.config.layers import Kinds, Watched, Without
from stoker.config.templating.template import BadTemplate
from stoker.errors import InputError, Problem
from stoker.fleet.books.call import arguments
from stoker.fleet.books.call import around as surroundings
from stoker.fleet.books.scope import Frame, Scope
from stoker.fleet.books.stages import Options, Stage
from stoker.fleet.books.verbs import IN_BOOKS, modules

_OF_RESCUES = frozenset(("ansible_failed_task", "ansible_failed_result"))


def found(
    stages: Sequence[Stage], options: Options, own: Mapping[str, Any], late: frozenset[str]
) -> list[Problem]:
    """Names that would surely fail a task, at the tasks' lines.

    A task is looked at where it surely runs: its conditions hold whatever the run brings, no rescue and no
    ``ignore_errors`` waits for its failure, and nothing before it may have let its host go on purpose.

    Args:
        stages: What is to run.
        options: How it is to run.
        own: The variables that Stoker sets.
        late: Names that the book itself sets while it runs.
    """
    problems: dict[tuple[str, int, str], Problem] = {}  # once, however many hosts there are
    for stage in stages:
        known = {name: value for name, value in stage.play.vars.items() if name not in late}
        frame = Frame(known, options.extra, own)
        kinds = Kinds()
        for task in _sure(stage.tasks):
            fine = kinds.of_task()
            for host in stage.hosts[:1] if _is_once(task) else stage.hosts:
                if fine.has(host):
                    continue
                seen = Watched(Without(host.vars, late.__contains__))
                wrong = _mistake(task, frame.scope(replace(host, vars=seen), {}, _vars(task, late)), late)
                if wrong is None:
                    fine.add(host, seen.asked)
                else:
                    problems.setdefault((wrong.file, wrong.line, wrong.what), wrong)
    return list(problems.values())


def _is_once(task: Task) -> bool:
    return task.run_once is not False or IN_BOOKS[task.module].book.once


def _vars(task: Task, late: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in task.vars.items() if name not in late}


def _sure(entries: Sequence[Entry]) -> Iterator[Task]:
    """The tasks that every host comes to, up to the first that may let hosts go on purpose."""
    for task, is_sure in _walk(entries):
        if is_sure and task.ignore_errors is False:
            yield task
        ends = task.module == "meta" and str(task.args.get("action")).startswith("end_")
        if ends or task.module == "fail" or "defined" in str(task.args.get("that", "")):
            return


def _walk(entries: Sequence[Entry], is_sure: bool = True) -> Iterator[tuple[Task, bool]]:
    """Every task, and whether each host that comes to its list does it, and nothing waits for its failure."""
    for entry in entries:
        if isinstance(entry, Block):
            yield from _walk(entry.tasks, is_sure and not entry.rescue)
            yield from _walk(entry.rescue, False)
            yield from _walk(entry.always, is_sure and not entry.rescue)
            continue
        yield entry, is_sure
        yield from _walk(entry.included, is_sure and not entry.when and entry.loop is None)


def _mistake(task: Task, scope: Scope, late: frozenset[str]) -> Problem | None:
    """The name that a task cannot do without; None where all are there, or only the run can tell."""
    try:
        for one in _rounds(task, scope):
            _try(task, one)
    except BadTemplate as error:
        is_sure = error.name and error.name not in late | _OF_RESCUES
        if not is_sure or f"{error.name!r} is undefined" not in error.what:
            return None
        return Problem(task.file, task.line, error.what, error.hint or "define it, or give it by --extra-var")
    except InputError:
        return None  # it is told at the task, in its own words
    return None


def _try(task: Task, scope: Scope) -> None:
    """Make ready what a task would do.

    Raises:
        InputError: It cannot be made.
    """
    verb = IN_BOOKS[task.module]
    if scope.unmet(task.when, task.place) is None:
        surroundings(task, verb, scope)
        arguments(task, modules()[task.module], verb, scope)


def _rounds(task: Task, scope: Scope) -> Iterator[Scope]:
    """The variables of each round of a task's loop; none where it is not done anyway."""
    if task.loop is None:
        yield scope
        return
    try:
        items = scope.render(task.loop, task.place)
    except InputError:
        if scope.unmet(task.when, task.place) is not None:
            return
        raise
    control = task.loop_control
    for index, item in enumerate(items if isinstance(items, list) else ()):
        named = {control.loop_var: item, "ansible_loop_var": control.loop_var}
        if control.index_var:
            named |= {control.index_var: index, "ansible_index_var": control.index_var}
        yield scope.adding(named)
