"""A playbook running: play by play, task by task, the hosts of a play side by side and in step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from stoker.config import template
from stoker.config.inventory import Host
from stoker.config.playbooktree import Play, Playbook, Task
from stoker.errors import HostError, StokerError
from stoker.fleet import step
from stoker.fleet.pool import HostResult, fan_out
from stoker.fleet.recap import Part, PlayReport, Report, TaskReport
from stoker.fleet.rehearse import rehearse
from stoker.fleet.result import Result, failed, interrupted
from stoker.fleet.scope import Frame, HostVars, own
from stoker.fleet.session import Session
from stoker.fleet.stages import Options, Stage
from stoker.fleet.step import Setting, Turn
from stoker.fleet.verbs import VERBS, by_hand, by_hand_hidden

if TYPE_CHECKING:
    from stoker.fleet.project import Project
    from stoker.reach.client import Agent


class Watch(step.Listener, Protocol):
    """Told what happens while a book runs."""

    def play(self, play: Play, hosts: Sequence[str]) -> None:
        """A play begins."""

    def task(self, task: Task, title: str, commands: Sequence[str]) -> None:
        """A task begins; with the ``inv`` commands that do the same."""

    def event(self, host: str, event: dict[str, Any]) -> None:
        """A host tells how far it is; from any thread."""


def run(
    book: Playbook,
    stages: Sequence[Stage],
    project: Project,
    options: Options,
    connect: Callable[[Host], Agent],
    watch: Watch,
    stop: threading.Event | None = None,
) -> Report:
    """Run a playbook.

    Args:
        book: The book.
        stages: What of it is to run.
        project: The wiring.
        options: How.
        connect: Opens a host's agent; called once a host at most.
        watch: Told what happens.
        stop: Set by Ctrl-C; what ``connect`` opens ends its calls by it.

    Returns:
        What came of it; a failed host is a value in it.

    Raises:
        InputError: What can be found wrong before the first connection.
    """
    return _Run(book, project, options, connect, watch, stop or threading.Event()).all(stages)


class _Run:
    """One run of a book."""

    def __init__(
        self,
        book: Playbook,
        project: Project,
        options: Options,
        connect: Callable[[Host], Agent],
        watch: Watch,
        stop: threading.Event,
    ) -> None:
        self.book = book
        self.project = project
        self.options = options
        self.connect = connect
        self.watch = watch
        self.stop = stop
        self.report = Report()
        self._facts: dict[str, dict[str, Any]] = {}

    def all(self, stages: Sequence[Stage]) -> Report:
        """Every play; sessions are closed however it ends."""
        rehearse(stages, self.project, self.options, self._own((), ()))
        try:
            for stage in stages:
                if not self._play(stage):
                    self.report.ended_at = stage.play
                if self.report.ended_at or self.report.interrupted:
                    break
        except KeyboardInterrupt:
            self.report.interrupted = True
        finally:
            for part in self.report.parts.values():
                part.session.close()
        return self.report

    def _play(self, stage: Stage) -> bool:
        """One play; False where it lost all of its hosts, which ends the book as it does in Ansible."""
        for host in stage.hosts:
            self._join(host)
        parts = {host.name: self.report.parts[host.name] for host in stage.hosts}
        before = sum(part.error is not None for part in parts.values())
        report = PlayReport(stage.play, tuple(parts))
        self.report.plays.append(report)
        self.watch.play(stage.play, self._active(parts))
        for task in stage.tasks:
            active = self._active(parts)
            if not active or self.report.interrupted:
                break
            report.tasks.append(self._task(task, stage, active))
        lost = sum(part.error is not None for part in parts.values()) - before
        return not parts or lost < len(parts)

    def _join(self, host: Host) -> None:
        if host.name not in self.report.parts:
            part = Part(Session(host, self.connect, self._pass_on))
            self.report.parts[host.name] = part
            self._facts[host.name] = part.facts

    def _active(self, parts: dict[str, Part]) -> list[str]:
        return [name for name, part in parts.items() if part.error is None]

    def _pass_on(self, host: str, event: dict[str, Any]) -> None:
        if not self.report.parts[host].silent:
            self.watch.event(host, event)

    def _task(self, task: Task, stage: Stage, active: Sequence[str]) -> TaskReport:
        """One task on every host that is still there."""
        setting = self._setting(stage, active)
        once = VERBS[task.module].book.once
        names = active[:1] if once else active
        turns = {name: self._turn(setting, task, name) for name in names}
        title = _title(task, turns[names[0]])
        self.watch.task(task, title, commands(list(turns.values())))
        for name, turn in turns.items():
            self.report.parts[name].silent = turn.hidden
        done = self._work(turns)
        for name, result in done.items():
            self._settle(self.report.parts[name], task, result)
            for other in active if once else ():
                self.report.parts[other].facts.update(result.facts)
        return TaskReport(task, title, done)

    def _turn(self, setting: Setting, task: Task, name: str) -> Turn:
        part = self.report.parts[name]
        return Turn(setting, task, part.session, part.facts)

    def _setting(self, stage: Stage, active: Sequence[str]) -> Setting:
        values = self._own([host.name for host in stage.hosts], active)
        frame = Frame(stage.play.vars, self.options.extra, values)
        return Setting(self.project, frame, self.options.check, self.watch, self.stop)

    def _own(self, hosts: Sequence[str], active: Sequence[str]) -> dict[str, Any]:
        everybody = HostVars(self.project.inventory.hosts, self._facts)
        folder = str(self.book.path.parent)
        return own(check=self.options.check, hosts=hosts, active=active, folder=folder, others=everybody)

    def _work(self, turns: dict[str, Turn]) -> dict[str, Result]:
        """Each host's turn, side by side; a pause in this thread, where Ctrl-C ends it."""
        if next(iter(turns.values())).verb.book.once:
            return {name: turn.run() for name, turn in turns.items()}
        results = fan_out(
            list(turns), lambda name: turns[name].run(), forks=self.options.forks, stop=self.stop
        )
        self.report.interrupted = self.stop.is_set()
        return {result.host: _result(result, turns[result.host]) for result in results}

    def _settle(self, part: Part, task: Task, result: Result) -> None:
        """Count a result, keep what it sets, and let a host go that failed."""
        part.facts.update(result.facts)
        part.silent = False
        if result.code is not None:
            part.code = result.code
        if result.is_bad:
            part.counts[result.status] += 1
            part.error = self._located(result, task, part.session.host.name)
            return
        if result.status == "interrupted":
            part.interrupted = True
            return
        part.counts["skipped" if result.status == "skipped" else "ok"] += 1
        part.counts["changed"] += result.status == "changed" or (
            result.ignored and bool(result.data["changed"])
        )
        part.counts["ignored"] += result.ignored

    def _located(self, result: Result, task: Task, host: str) -> StokerError | None:
        """A host's failure with the task that it stopped at, and what to do next."""
        error = result.error
        if error is None:
            return None
        said = error.what if not result.hidden else "failed (not shown: no_log)"
        what, evidence = f"{task.place}: {task.name}: {said}", () if result.hidden else error.evidence
        hint = error.next_step or f"inv play {self.book.shown} --limit {host}"
        if isinstance(error, HostError):
            return type(error)(what, host=host, kind=error.kind, evidence=evidence, next_step=hint)
        return StokerError(what, where=host, evidence=evidence, next_step=hint)


def _result(host: HostResult, turn: Turn) -> Result:
    """A host's result; what a turn did not turn into one is a fault or an interruption."""
    if isinstance(host.data, Result):
        return host.data
    if host.status == "interrupted":
        return interrupted(host.error)
    error = host.error or StokerError(f"the step ended as {host.status}")
    return failed(error, host.host, turn.task.place)


def _title(task: Task, turn: Turn) -> str:
    """A task's name for people; rendered for the first host, as far as it can be."""
    try:
        return str(turn.first.scope.render(task.name, task.place))
    except template.BadTemplate:
        return task.name


def commands(turns: Sequence[Turn]) -> list[str]:
    """The ``inv`` commands of a task, hosts with equal arguments together; hidden arguments left out."""
    groups: dict[str, list[Turn]] = {}
    for turn in turns:
        if turn.first.command:
            key = "" if turn.hidden else by_hand(turn.verb.name, (), turn.first.args)
            groups.setdefault(key, []).append(turn)
    found = []
    for key, same in groups.items():
        names = [turn.host.name for turn in same]
        if key:
            found.append(_as_the_play_does(same[0], names))
        else:
            found.append(by_hand_hidden(same[0].verb.name, names))
    return found


def _as_the_play_does(turn: Turn, names: Sequence[str]) -> str:
    """The command of a task for several hosts: a play does them all at once, a changing command rolls."""
    line = by_hand(turn.verb.name, names, turn.first.args)
    return f"{line} --serial all" if turn.verb.changes and len(names) > 1 else line
