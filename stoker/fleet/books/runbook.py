"""A playbook as a page of markdown: what it does, step by step, with the command that does each by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stoker.config.books.playbooktree import Block, Entry, Play, Playbook, Task
from stoker.config.templating import template
from stoker.errors import InputError, StokerError
from stoker.fleet.books.call import arguments, around
from stoker.fleet.books.scope import Frame, HostVars, Scope, own
from stoker.fleet.books.stages import Options, Stage
from stoker.fleet.books.verbs import IN_BOOKS, by_hand, modules
from stoker.fleet.flags import command_line, quote
from stoker.fleet.job import Verb

if TYPE_CHECKING:
    from stoker.fleet.project import Project

_MOST_HOSTS = 50  # are looked at, to see whether a command is the same on all
_MOST_COMMANDS = 20  # of one step
_FIXED = {
    "assert": "Stop unless it holds: {that}",
    "fail": "Stop: {msg}",
    "pause": "Wait.",
    "debug": "Look at: {msg}",
}


def page(book: Playbook, stages: Sequence[Stage], project: Project, options: Options) -> str:
    """The page; nothing is connected for it.

    Args:
        book: The book.
        stages: What of it would run.
        project: The wiring.
        options: How it would run.
    """
    lines = [f"# {_heading(book)}", "", f"From `{book.shown}`; by itself: `inv play {book.shown}`.", ""]
    for stage in stages:
        lines += _Page(stage, project, options, str(book.path.parent)).lines()
    return "\n".join(lines).rstrip() + "\n"


def _heading(book: Playbook) -> str:
    return book.plays[0].name if len(book.plays) == 1 else book.path.stem.replace("-", " ").capitalize()


class _Page:
    """One play's part of the page."""

    def __init__(self, stage: Stage, project: Project, options: Options, folder: str) -> None:
        self._stage = stage
        self._names = [host.name for host in stage.hosts]
        everybody = HostVars(project.inventory.hosts, {})
        values = own(
            check=options.check,
            diff=options.diff,
            hosts=self._names,
            active=self._names,
            folder=folder,
            others=everybody,
        )
        self._frame = Frame(stage.play.vars, options.extra, values)
        self._number = 0

    def lines(self) -> Iterator[str]:
        """The play."""
        play = self._stage.play
        yield f"## {play.name}"
        yield ""
        yield f"Hosts: {', '.join(self._names) or 'none'}{_pace(play)}."
        yield ""
        yield from self._entries(self._stage.tasks)
        if play.handlers:
            yield "**At the end, where a step above has asked for it:**"
            yield ""
            for handler in play.handlers:
                yield from self._task(handler)

    def _entries(self, entries: Sequence[Entry]) -> Iterator[str]:
        for entry in entries:
            if isinstance(entry, Block):
                yield from self._block(entry)
            elif entry.included:
                yield from self._task(entry)
                yield from self._entries(entry.included)
            elif entry.module != "meta":
                yield from self._task(entry)

    def _block(self, block: Block) -> Iterator[str]:
        yield from self._entries(block.tasks)
        for entries, when in ((block.rescue, "If one of these fails"), (block.always, "In any case, then")):
            if entries:
                yield f"**{when}:**"
                yield ""
                yield from self._entries(entries)

    def _task(self, task: Task) -> Iterator[str]:
        self._number += 1
        yield f"{self._number}. {self._told(task.name, task)}{_conditions(task)}"
        said = self._said(task)
        if said:
            yield ""
            yield f"   {said}"
        commands = self._commands(task)
        if commands:
            yield ""
            yield "   ```sh"
            yield from (f"   {line}" for command in commands for line in command.splitlines())
            yield "   ```"
        yield ""

    def _scopes(self, task: Task) -> list[tuple[str, Scope]]:
        """The variables of a task by host, as far as hosts are looked at; of nobody's where none is left."""
        if not self._stage.hosts:
            return [("HOST", Scope({**self._frame.vars, **task.vars, **self._frame.extra}, self._frame.own))]
        hosts = self._stage.hosts[:_MOST_HOSTS]
        return [(host.name, self._frame.scope(host, {}, task.vars)) for host in hosts]

    def _told(self, text: str, task: Task) -> str:
        """A text rendered; as it is written where it is not the same for all hosts, or not known yet."""
        if not template.has_template(text):
            return text
        told = {_rendered(scope, text, task) for _, scope in self._scopes(task)}
        return told.pop() if len(told) == 1 else text

    def _said(self, task: Task) -> str:
        """What a step without a command asks of people."""
        pattern = _FIXED.get(task.module)
        if pattern is None:
            return ""
        that = task.args.get("that")
        several = that if isinstance(that, list) else [that]
        shown = " and ".join(f"`{one}`" for one in several)
        msg = task.args.get("msg") or task.args.get("var") or task.name
        return pattern.format(that=shown, msg=self._told(str(msg), task))

    def _commands(self, task: Task) -> list[str]:
        """The commands of a step; with templates in them where only the run can tell."""
        verb = IN_BOOKS[task.module]
        if not verb.typed.name:
            return []
        everybody = ",".join(self._names) or "HOST"
        if task.no_log is not False:
            return [verb.typed.hidden([everybody])]
        try:
            return self._known(task, verb, everybody)
        except StokerError:
            return [_as_written(task, everybody)]

    def _known(self, task: Task, verb: Verb, everybody: str) -> list[str]:
        """One command for each round of the loop, and for hosts whose commands are not the same.

        Raises:
            StokerError: They are not known yet.
        """
        found: dict[str, tuple[dict[str, Any], str, list[str]]] = {}
        scopes = self._scopes(task)
        willing = [(name, scope) for name, scope in scopes if _may_run(task, scope)] or scopes
        for name, scope in willing:
            for one in _rounds(task, scope):
                env, user, at = around(task, verb, one)
                args = {**arguments(task, modules()[task.module], verb, one), "env": env, "user": user}
                found.setdefault(by_hand(task.module, [at or "HOST"], args), (args, at, []))[2].append(name)
        rows = list(found.values())
        whole = {len(names) for _, _, names in rows} == {len(scopes)}  # the same on all that were looked at
        lines = [
            by_hand(task.module, [at or (everybody if whole else ",".join(dict.fromkeys(names)))], args)
            for args, at, names in rows[:_MOST_COMMANDS]
        ]
        hidden = len(rows) > _MOST_COMMANDS or (not whole and len(self._names) > len(scopes))
        return [*lines, "# … and so on, for each host its own"] if hidden else lines


def _may_run(task: Task, scope: Scope) -> bool:
    """Whether the conditions hold, or only the run can tell."""
    try:
        return scope.unmet(task.when, task.place) is None
    except InputError:
        return True


def _rounds(task: Task, scope: Scope) -> list[Scope]:
    """The variables of each round of a task's loop.

    Raises:
        InputError: It is not known yet, or no list.
    """
    if task.loop is None:
        return [scope]
    items = scope.render(task.loop, task.place)
    if not isinstance(items, list):
        raise InputError("loop takes a list", where=task.place)
    control = task.loop_control
    index = [control.index_var] if control.index_var else []
    return [
        scope.adding({control.loop_var: item, **dict.fromkeys(index, number)})
        for number, item in enumerate(items)
    ]


def _as_written(task: Task, hosts: str) -> str:
    verb = IN_BOOKS[task.module]
    if verb.book.elsewhere:
        argv = task.args.get("argv")
        text = " ".join(map(str, argv)) if isinstance(argv, list) else str(task.args.get("cmd") or argv)
        return f"inv exec --host {task.delegate_to or hosts} --cmd {quote(text)}"
    lists = {flag.name for flag in verb.typed.flags if flag.kind == "list"}
    args = {
        name: [value] if name in lists and isinstance(value, str) else value
        for name, value in task.args.items()
    }
    return command_line(verb.typed.name, hosts if verb.typed.on_hosts else "", verb.typed.flags, args)


def _pace(play: Play) -> str:
    told = f", {' then '.join(map(str, play.serial))} at a time" if play.serial else ""
    if play.max_fail_percentage is not None:
        told += f"; stop where more than {play.max_fail_percentage} % of them fail"
    return told


def _conditions(task: Task) -> str:
    """When, how often and with what consequences, in words."""
    parts = []
    if task.when:
        parts.append("only if " + " and ".join(f"`{one}`" for one in task.when))
    if task.loop is not None:
        parts.append(f"for each of {_items(task.loop)}")
    if task.until is not None:
        parts.append("again until " + " and ".join(f"`{one}`" for one in task.until))
    if task.run_once is not False:
        parts.append("once for all hosts")
    if task.ignore_errors is not False:
        parts.append("go on where it fails")
    return f" ({'; '.join(parts)})" if parts else ""


def _items(loop: Any) -> str:
    """What a loop goes over, as it is written."""
    items = loop if isinstance(loop, list) else [loop]
    return ", ".join(f"`{one if isinstance(one, str) else json.dumps(one, default=str)}`" for one in items)


def _rendered(scope: Scope, text: str, task: Task) -> str:
    try:
        return str(scope.render(text, task.place))
    except template.BadTemplate:
        return text
