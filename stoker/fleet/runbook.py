"""A playbook as a page of markdown: what it does, step by step, with the command that does each by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stoker.config import template
from stoker.config.playbooktree import Block, Entry, Play, Playbook, Task
from stoker.errors import StokerError
from stoker.fleet.call import arguments, around
from stoker.fleet.flags import command_line
from stoker.fleet.scope import Frame, HostVars, Scope, own
from stoker.fleet.stages import Options, Stage
from stoker.fleet.verbs import IN_BOOKS, by_hand, modules

if TYPE_CHECKING:
    from stoker.fleet.project import Project

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
        scope = self._scope(task)
        yield f"{self._number}. {_rendered(scope, task.name, task)}{_conditions(task)}"
        said = self._said(task, scope)
        if said:
            yield ""
            yield f"   {said}"
        command = self._command(task, scope)
        if command:
            yield ""
            yield "   ```sh"
            yield from (f"   {line}" for line in command.splitlines())
            yield "   ```"
        yield ""

    def _scope(self, task: Task) -> Scope:
        host = self._stage.hosts[0] if self._stage.hosts else None
        if host is None:
            return Scope({**self._frame.vars, **task.vars, **self._frame.extra}, self._frame.own)
        return self._frame.scope(host, {}, task.vars)

    def _said(self, task: Task, scope: Scope) -> str:
        """What a step without a command asks of people."""
        pattern = _FIXED.get(task.module)
        if pattern is None:
            return ""
        that = task.args.get("that")
        several = that if isinstance(that, list) else [that]
        shown = " and ".join(f"`{one}`" for one in several)
        msg = task.args.get("msg") or task.args.get("var") or task.name
        return pattern.format(that=shown, msg=_rendered(scope, str(msg), task))

    def _command(self, task: Task, scope: Scope) -> str:
        """The command, on all hosts; with templates in it where only the run can tell."""
        verb = IN_BOOKS[task.module]
        if not verb.typed.name:
            return ""
        hosts = ",".join(self._names) or "HOST"
        if task.no_log is not False:
            return verb.typed.hidden([hosts])
        try:
            env, user, at = around(task, verb, scope)
            args = arguments(task, modules()[task.module], verb, scope)
            return by_hand(task.module, [at or hosts], {**args, "env": env, "user": user})
        except StokerError:
            return _as_written(task, hosts)


def _as_written(task: Task, hosts: str) -> str:
    verb = IN_BOOKS[task.module]
    if verb.book.elsewhere:
        return f"inv exec --host {hosts} --cmd '{task.args.get('cmd') or task.args.get('argv')}'"
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
        parts.append(f"for each of `{task.loop}`")
    if task.until is not None:
        parts.append("again until " + " and ".join(f"`{one}`" for one in task.until))
    if task.run_once is not False:
        parts.append("once for all hosts")
    if task.ignore_errors is not False:
        parts.append("go on where it fails")
    return f" ({'; '.join(parts)})" if parts else ""


def _rendered(scope: Scope, text: str, task: Task) -> str:
    try:
        return str(scope.render(text, task.place))
    except template.BadTemplate:
        return text
