"""The steps of a play on one batch of hosts: who does which, who leaves, and what is run in the end.

As Ansible's linear strategy: hosts take each task together, in the order of the file. A host that fails
leaves the list of tasks that it is in; a block around that list runs its ``rescue`` there, then its
``always``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stoker.config.books.playbooktree import Block, Entry, Task
from stoker.fleet.books.result import Result
from stoker.fleet.books.stages import Stage

_NOTHING: Mapping[str, Any] = {}


class Doer(Protocol):
    """Does one task."""

    def do(
        self, task: Task, names: Sequence[str], outer: Mapping[str, Any], rescued: bool, active: Sequence[str]
    ) -> Done:
        """A task on hosts.

        Args:
            task: The task.
            names: Of the hosts that are to do it.
            outer: The loop's variables of the ``include_tasks`` around it.
            rescued: A failure would be dealt with.
            active: All of the batch that are still with the play.
        """

    def settle(self, task: Task, host: str, result: Result, rescued: bool) -> None:
        """Count a result, keep what it sets."""

    def stop(self, host: str, why: str) -> None:
        """A host that did not fail itself goes no further, or into a rescue."""

    def rescue(self, host: str, task: Task, result: Result) -> None:
        """A failure is dealt with: what failed is told to the tasks that do so."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the run."""


@dataclass(frozen=True)
class Done:
    """What came of a task, by host.

    Args:
        results: Of the hosts that did it.
        fatal: A failure ends all hosts.
        for_all: One did it for all.
    """

    results: Mapping[str, Result]
    fatal: bool = False
    for_all: bool = False


@dataclass(frozen=True)
class _Within:
    """What is around a list of tasks.

    Args:
        rescued: A block there has a rescue for what fails.
        covered: A block there has a rescue or an always that comes yet.
        outer: Variables of loops over ``include_tasks``.
    """

    rescued: bool = False
    covered: bool = False
    outer: Mapping[str, Any] = field(default_factory=dict)


class Flow:
    """One batch going through a play.

    Args:
        stage: What is to run.
        names: The batch, those that left the book earlier included.
        left: Of these, those that did.
        doer: Does the tasks.
        most: How many percent of the batch may fail; None for any number.
        force_handlers: Hosts that failed run their handlers too.
    """

    def __init__(
        self,
        stage: Stage,
        names: Sequence[str],
        left: Sequence[str],
        doer: Doer,
        most: float | None,
        force_handlers: bool,
    ) -> None:
        self.stage = stage
        self.names = names
        self.down: dict[str, None] = {}  # failed, and not rescued
        self.gone = dict.fromkeys(left)  # lost, or ended
        self.broken = False  # too many failed
        self.notified: dict[str, dict[str, None]] = {name: {} for name in names}
        self._final: set[str] = set()
        self._lost: set[str] = set()  # failed, and no rescue will change it
        self._doer = doer
        self._most = most
        self._force = force_handlers

    def run(self) -> None:
        """Every task on every host, in step."""
        self._whole(self.names)

    def run_free(self, each: Callable[[Callable[[str], None], Sequence[str]], None]) -> None:
        """Every task on every host, none waiting for another.

        Args:
            each: Does something for each of the hosts, side by side.
        """
        each(lambda name: self._whole([name]), self._there(self.names))

    def _whole(self, names: Sequence[str]) -> None:
        self._list(self.stage.tasks, names, _Within())
        if self._force:
            down = self._set_aside(names)
            self._flush(names, _Within())
            self.down.update(down)
        else:
            self._flush(names, _Within())

    def pending(self) -> dict[str, list[str]]:
        """Handlers that were asked for and have not run, by host."""
        found = {name: self._asked_for(name) for name in self.names}
        return {name: names for name, names in found.items() if names}

    def _there(self, names: Sequence[str]) -> list[str]:
        if self._doer.interrupted:
            return []
        return [name for name in names if name not in self.down and name not in self.gone]

    # The tree of tasks.

    def _list(self, entries: Sequence[Entry], names: Sequence[str], within: _Within) -> None:
        """A list of tasks, on those of the hosts that are still there."""
        for entry in entries:
            there = self._there(names)
            if not there:
                return
            if isinstance(entry, Block):
                self._block(entry, there, within)
            elif entry.module == "meta":
                self._meta(entry, there, within)
            else:
                self._task(entry, there, within)

    def _block(self, block: Block, names: Sequence[str], within: _Within) -> None:
        covered = within.covered or bool(block.rescue or block.always)
        self._list(block.tasks, names, _Within(within.rescued or bool(block.rescue), covered, within.outer))
        failed = [name for name in names if name in self.down]
        after = _Within(within.rescued, within.covered or bool(block.always), within.outer)
        if block.rescue and failed:
            self._set_aside(failed)
            self._list(block.rescue, failed, after)
        if block.always:
            down = self._set_aside(names)
            self._list(block.always, names, within)
            self.down.update(down)

    @property
    def active(self) -> list[str]:
        """The hosts of the batch that are still with the play, as Ansible counts: those to be rescued too."""
        return [one for one in self.names if one not in self.gone and one not in self._lost]

    def _set_aside(self, names: Sequence[str]) -> dict[str, None]:
        """Those of the hosts that are down; for now they are not."""
        down = {name: None for name in names if name in self.down}
        for name in down:
            del self.down[name]
        return down

    def _task(self, task: Task, names: Sequence[str], within: _Within) -> None:
        done = self._doer.do(task, names, within.outer, within.rescued, self.active)
        for name, result in done.results.items():
            self._settle(task, name, result, within)
        bad = [name for name, result in done.results.items() if result.is_bad]
        if done.fatal and bad:
            self._all_down(f"{', '.join(bad)} failed at {task.place}, which ends all hosts", within)
        self._count_failed(within)
        if task.module == "include_tasks":
            self._include(task, done, names, within)

    def _settle(self, task: Task, name: str, result: Result, within: _Within) -> None:
        rescued = result.is_bad and result.status == "failed" and within.rescued
        self._doer.settle(task, name, result, rescued)
        self.notified[name].update(dict.fromkeys(result.notified))
        if result.is_bad and result.status == "unreachable":
            self.gone[name] = None
        elif result.is_bad:
            self._fall(name, within)
        if rescued:
            self._doer.rescue(name, task, result)

    def _fall(self, name: str, within: _Within) -> None:
        self.down[name] = None
        if not within.covered:
            self._final.add(name)
        if not within.rescued:
            self._lost.add(name)

    def _all_down(self, why: str, within: _Within) -> None:
        """Everybody fails, whoever did."""
        for name in self.names:
            if name not in self.gone and name not in self.down:
                self._doer.stop(name, why)
                self._fall(name, within)

    def _count_failed(self, within: _Within) -> None:
        """End the play where more hosts of the batch failed than may."""
        if self._most is None or self.broken or 100 * len(self._final) / len(self.names) <= self._most:
            return
        self.broken = True
        self._all_down(
            f"more than {self._most:g} % of the hosts failed: {', '.join(sorted(self._final))}", within
        )

    def _include(self, task: Task, done: Done, names: Sequence[str], within: _Within) -> None:
        """The steps of the file, for each round of the loop on the hosts that had it."""
        rounds: dict[str, tuple[Mapping[str, Any], list[str]]] = {}
        for name in names:
            result = done.results.get(name) or (next(iter(done.results.values())) if done.for_all else None)
            for outer in _rounds(result) if result is not None else ():
                rounds.setdefault(repr(outer), (outer, []))[1].append(name)
        for outer, there in rounds.values():
            self._list(
                task.included, there, _Within(within.rescued, within.covered, {**within.outer, **outer})
            )

    # Handlers, and what the run itself does.

    def _meta(self, task: Task, names: Sequence[str], within: _Within) -> None:
        action = task.args["action"]
        asked = names[:1] if action == "end_play" else names
        if action == "noop":
            return
        done = Done({})
        if task.when:
            done = self._doer.do(task, asked, within.outer, within.rescued, self.active)
        willing = [name for name, result in done.results.items() if result.status == "ok"]
        if not task.when:
            willing = list(asked)
        for name, result in done.results.items():
            if result.is_bad:
                self._settle(task, name, result, within)
        if action == "flush_handlers":
            self._flush(willing, within)
        elif willing:
            ended = self.names if action == "end_play" else willing
            self.gone.update(dict.fromkeys(ended))

    def _flush(self, names: Sequence[str], within: _Within) -> None:
        """Run the handlers that were asked for, in their own order."""
        for handler in self.stage.play.handlers:
            there = [name for name in self._there(names) if self._is_asked(handler, name)]
            if there:
                self._task(handler, there, within)
        for name in self._there(names):
            self.notified[name].clear()

    def _is_asked(self, handler: Task, name: str) -> bool:
        """Whether a host asks for a handler; of those with the same name the first is meant."""
        asked = self.notified[name]
        if any(topic in asked for topic in handler.listen):
            return True
        same = [one for one in self.stage.play.handlers if one.name == handler.name]
        return handler.name in asked and same[0] is handler

    def _asked_for(self, name: str) -> list[str]:
        return [handler.name for handler in self.stage.play.handlers if self._is_asked(handler, name)]


def _rounds(result: Result) -> list[Mapping[str, Any]]:
    """The loop's variables of each round of an ``include_tasks`` that is to be done."""
    if result.status not in ("ok", "changed"):
        return []
    rounds = result.data.get("results")
    if not isinstance(rounds, list):
        return [_NOTHING]
    names = ("ansible_loop_var", "ansible_index_var")
    return [
        {one[key]: one[one[key]] for key in names if key in one}
        for one in rounds
        if not one.get("skipped") and not one.get("failed")
    ]
