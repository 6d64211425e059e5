"""One task of a playbook on the hosts that are still there: side by side, or once for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.config.books.playbooktree import Task
from stoker.config.templating import template
from stoker.errors import HostError, HostFailed, InputError, StokerError
from stoker.fleet.books.flow import Done
from stoker.fleet.books.playlog import Journal
from stoker.fleet.books.recap import Part, PlayReport, Report, TaskReport
from stoker.fleet.books.result import Result, failed, interrupted
from stoker.fleet.books.stages import Options
from stoker.fleet.books.step import Setting, Turn
from stoker.fleet.books.verbs import by_hand, by_hand_hidden
from stoker.fleet.books.watch import Watch
from stoker.fleet.crew import Crew
from stoker.fleet.pool import HostResult, fan_out


@dataclass(frozen=True)
class Acts:
    """Does the tasks of a batch.

    Args:
        setting: Makes what the tasks of a play work with: (hosts that are there).
        report: Where results go.
        play: The play's part of it.
        options: How the book is to run.
        watch: Told what happens.
        journal: Knows what was done before, and keeps what is done.
        interrupt: Set by Ctrl-C.
        shown: The book, for advice.
        crew: Whose threads do it.
    """

    setting: Callable[[Sequence[str]], Setting]
    report: Report
    play: PlayReport
    options: Options
    watch: Watch
    journal: Journal
    interrupt: threading.Event
    shown: str
    crew: Crew
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the run."""
        return self.report.interrupted or self.interrupt.is_set()

    def do(
        self, task: Task, names: Sequence[str], outer: Mapping[str, Any], rescued: bool, active: Sequence[str]
    ) -> Done:
        """A task on hosts; see ``flow.Doer``."""
        setting = self.setting(active)
        first = self._turn(setting, task, names[0], outer)
        try:
            once, fatal = first.runs_once(), first.is_fatal()
        except InputError as error:
            return self._wrong(task, names, error)
        turns = {names[0]: first}
        if not once:
            turns |= {name: self._turn(setting, task, name, outer) for name in names[1:]}
        title = _title(task, first)
        if not self.watch.begin(task, title, commands(list(turns.values()))):
            return Done({})
        for turn in turns.values():
            turn.session.doing = task.module if turn.hidden else title
        results = self._run(task, turns, outer, rescued)
        self._keep(task, title, results)
        for other in names if once else ():
            for result in results.values():
                self.report.parts[other].facts.update(result.facts)
        return Done(results, fatal, once)

    def _wrong(self, task: Task, names: Sequence[str], error: InputError) -> Done:
        """Nobody can tell whether it runs once: it fails on each."""
        results = {name: failed(error, name, task.place) for name in names}
        self._keep(task, task.name, results)
        return Done(results)

    def _turn(self, setting: Setting, task: Task, name: str, outer: Mapping[str, Any]) -> Turn:
        part = self.report.parts[name]
        return Turn(setting, task, part.session, part.facts, outer)

    def _run(
        self, task: Task, turns: dict[str, Turn], outer: Mapping[str, Any], rescued: bool
    ) -> dict[str, Result]:
        """Each host's turn; what was done in the run before is taken from the journal."""
        found: dict[str, Result] = {}
        for name in turns:
            done = self.journal.recall(task, outer, name)
            if done is not None:
                found[name] = done
                self.watch.ended(name, task, done)
        left = {name: turn for name, turn in turns.items() if name not in found}
        for name, turn in left.items():
            self.report.parts[name].silent = turn.hidden
        found |= self._work(left)
        for name in left:
            self.report.parts[name].silent = False
            self.journal.add(task, outer, name, found[name], rescued=rescued)
        return {name: found[name] for name in turns}

    def _work(self, turns: dict[str, Turn]) -> dict[str, Result]:
        """Each host's turn, side by side; a pause in this thread, where Ctrl-C ends it."""
        if not turns:
            return {}
        if len(turns) == 1 and (self.options.free or next(iter(turns.values())).verb.book.once):
            return {name: turn.run() for name, turn in turns.items()}
        results = fan_out(
            list(turns),
            lambda name: turns[name].run(),
            forks=self.options.forks,
            stop=self.interrupt,
            crew=self.crew,
        )
        self.report.interrupted = self.report.interrupted or self.interrupt.is_set()
        found = {result.host: _result(result, turns[result.host]) for result in results}
        for one in results:
            if not isinstance(one.data, Result) and one.error is not None:  # its own thread cannot tell
                self.watch.ended(one.host, turns[one.host].task, found[one.host])
        return found

    def _keep(self, task: Task, title: str, results: Mapping[str, Result]) -> None:
        """Into the report; where no host waits for another, together with what others did of the task."""
        with self._lock:
            same = [one for one in self.play.tasks if one.task is task] if self.options.free else []
            if same:
                same[-1].results.update(results)
            else:
                self.play.tasks.append(TaskReport(task, title, dict(results)))
            if self.options.free:  # as in the book, whoever came to it first
                order = {step.key: number for number, step in enumerate(self.play.play.steps)}
                self.play.tasks.sort(key=lambda one: order.get(one.task.key, len(order)))

    # What comes of it for a host.

    def settle(self, task: Task, host: str, result: Result, rescued: bool) -> None:
        """Count a result, keep what it sets."""
        part = self.report.parts[host]
        part.facts.update(result.facts)
        if result.code is not None:
            part.code = result.code
        if result.status == "interrupted":
            part.interrupted, part.goes_on = True, bool(result.summary)
        elif result.is_bad:
            part.counts["rescued" if rescued else result.status] += 1
            part.trouble = self._located(result, task, host)
            if result.status == "unreachable":
                part.error = part.trouble
        else:
            _count(part, task, result)

    def stop(self, host: str, why: str) -> None:
        """A host that did not fail itself goes no further."""
        self.report.parts[host].trouble = HostFailed(
            f"not finished: {why}", host=host, kind="stopped", next_step=f"inv play {self.shown} --resume"
        )

    def rescue(self, host: str, task: Task, result: Result) -> None:
        """Tell the rescuing tasks what failed."""
        self.report.parts[host].facts.update(
            {
                "ansible_failed_task": {"name": task.name, "action": task.module, "args": {}},
                "ansible_failed_result": result.data,
            }
        )

    def _again(self, host: str) -> str:
        """How to go on once the reason is dealt with."""
        given = self.options
        if given.check:
            return f"inv play {self.shown} --limit {host}"
        if given.limit or given.tags or given.skip_tags or given.extra or given.start_at:
            return "the same command with --resume goes on from there"
        return f"inv play {self.shown} --resume"

    def _located(self, result: Result, task: Task, host: str) -> StokerError | None:
        """A host's failure with the task that it stopped at, and what to do next."""
        error = result.error
        if error is None:
            return None
        said = error.what if not result.hidden else "failed (not shown: no_log)"
        what, evidence = f"{task.place}: {task.name}: {said}", () if result.hidden else error.evidence
        hint = error.next_step or self._again(host)
        if isinstance(error, HostError):
            return type(error)(what, host=host, kind=error.kind, evidence=evidence, next_step=hint)
        return StokerError(what, where=host, evidence=evidence, next_step=hint)


def _count(part: Part, task: Task, result: Result) -> None:
    """A result that lets the host go on."""
    rounds = result.data.get("results")
    if task.module == "include_tasks" and result.status != "skipped" and isinstance(rounds, list):
        part.counts["ok"] += sum(not one.get("skipped") for one in rounds)  # each round is one file
        return
    if task.module == "meta":
        return
    part.counts["skipped" if result.status == "skipped" else "ok"] += 1
    part.counts["changed"] += result.status == "changed" or (
        result.ignored and bool(result.data.get("changed"))
    )
    part.counts["ignored"] += result.ignored


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
            key = "" if turn.hidden else _by_hand(turn, ())
            groups.setdefault(key, []).append(turn)
    found = []
    for key, same in groups.items():
        names = [turn.first.at or turn.host.name for turn in same]
        if key:
            found.append(_as_the_play_does(same[0], list(dict.fromkeys(names))))
        else:
            found.append(by_hand_hidden(same[0].verb.name, names))
    return found


def _by_hand(turn: Turn, names: Sequence[str]) -> str:
    call = turn.first
    return by_hand(turn.verb.name, names, {**call.args, "env": call.env, "user": call.user})


def _as_the_play_does(turn: Turn, names: Sequence[str]) -> str:
    """The command of a task for several hosts: a play does them all at once, a changing command rolls."""
    line = _by_hand(turn, names)
    return f"{line} --serial all" if turn.verb.changes and len(names) > 1 else line
