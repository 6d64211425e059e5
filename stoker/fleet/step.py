"""One task of a playbook on one host: its conditions, its loop, its judgement."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from stoker.config.playbooktree import Task
from stoker.config.settings import number
from stoker.errors import HostFailed, InputError, StokerError
from stoker.fleet import servers
from stoker.fleet.call import Call, Timed, arguments, truth
from stoker.fleet.job import Job, Outcome
from stoker.fleet.result import Result, Status, failed, interrupted, skipped, succeeded, together
from stoker.fleet.scope import Frame, Scope
from stoker.fleet.session import Session
from stoker.fleet.verbs import VERBS, by_hand, modules

if TYPE_CHECKING:
    from stoker.fleet.project import Project


class Listener(Protocol):
    """What is told while a task runs; called from the hosts' threads."""

    def round(self, host: str, task: Task, command: str) -> None:
        """A further round of a loop begins."""

    def ended(self, host: str, task: Task, result: Result) -> None:
        """A task, or a round of its loop, has ended."""


@dataclass(frozen=True)
class Setting:
    """What every task of a play works with.

    Args:
        project: The wiring.
        frame: The play's variables.
        check: Touch nothing.
        listener: Told what happens.
        stop: Set by Ctrl-C.
    """

    project: Project
    frame: Frame
    check: bool
    listener: Listener
    stop: threading.Event


class Turn:
    """One host's turn at a task. What its first round will do is known before it runs.

    Args:
        setting: The play's.
        task: The task.
        session: The host's connection.
        facts: What was registered and set on the host.
    """

    def __init__(self, setting: Setting, task: Task, session: Session, facts: Mapping[str, Any]) -> None:
        self.setting = setting
        self.task = task
        self.session = session
        self.host = session.host
        self.verb = VERBS[task.module]
        self._facts = dict(facts)
        self._items: list[Any] | None = None  # None where it does not loop
        self.hidden = True  # until it is known not to be
        self.first = self._begin()

    def run(self) -> Result:
        """Do the task, all rounds of it."""
        if self._items is None:
            result = self._make(self.first)
            self._tell(result)
        else:
            result = together(self._rounds(self._items))
        registered = {self.task.register: result.data} if self.task.register else {}
        return replace(result, facts={**result.facts, **registered})

    def _begin(self) -> Call:
        """Work out the rounds, and the first of them."""
        scope = self._scope({})
        try:
            self.hidden = truth(self.task.no_log, scope, self.task.place)
            self._items = self._loop(scope)
        except InputError as error:
            return Call(scope, ended=failed(error, self.host.name, self.task.place))
        if self._items is None:
            return self._call(scope)
        if not self._items:
            self._items = None
            why = "No items in the list"
            return Call(scope, ended=skipped("nothing to loop over", skipped_reason=why, results=[]))
        return self._call(self._scope(_loop_vars(self._items[0])))

    def _loop(self, scope: Scope) -> list[Any] | None:
        """What the loop goes over; None where there is none, or where it will be skipped anyway.

        Raises:
            InputError: It is no list, or cannot be rendered though the conditions hold.
        """
        if self.task.loop is None:
            return None
        try:
            items = scope.render(self.task.loop, self.task.place)
        except InputError:
            if self._is_unmet(scope):
                return None
            raise
        if not isinstance(items, list):
            raise InputError(f"loop takes a list, and got {items!r:.60}", where=self.task.place)
        return items

    def _is_unmet(self, scope: Scope) -> bool:
        """Whether the conditions fail whatever the item is."""
        try:
            return scope.unmet(self.task.when, self.task.place) is not None
        except InputError:
            return False

    def _rounds(self, items: Sequence[Any]) -> list[Result]:
        """Every round, in order; a lost host ends them."""
        results: list[Result] = []
        for index, item in enumerate(items):
            call = self.first if index == 0 else self._call(self._scope(_loop_vars(item)))
            if index:
                self.setting.listener.round(self.host.name, self.task, "" if self.hidden else call.command)
            result = self._make(call).of_round(item)
            self._facts.update(result.facts)  # a round sees what the rounds before it have set
            self._tell(result)
            results.append(result)
            if result.status in ("unreachable", "interrupted"):
                break
        return results

    def _tell(self, result: Result) -> None:
        self.setting.listener.ended(self.host.name, self.task, result)

    def _scope(self, loop: Mapping[str, Any]) -> Scope:
        return self.setting.frame.scope(self.host, self._facts, self.task.vars, loop)

    def _call(self, scope: Scope) -> Call:
        """The call of one round; nothing is connected for it."""
        place = self.task.place
        try:
            unmet = scope.unmet(self.task.when, place)
            if unmet is not None:
                why = "Conditional result was False"
                shown = str(unmet).lower() if isinstance(unmet, bool) else unmet
                return Call(scope, ended=skipped(f"when {shown}", skip_reason=why, false_condition=unmet))
            args = arguments(self.task, modules()[self.verb.name], self.verb, scope)
            if args.get("timeout", 0) is None and self.task.timeout:
                args["timeout"] = self._limit(scope)
            plans = servers.meant(self.setting.project, self.verb, self.host, args)
            return Call(scope, args, plans, by_hand(self.verb.name, [self.host.name], args))
        except StokerError as error:
            return Call(scope, ended=failed(error, self.host.name, place))

    def _limit(self, scope: Scope) -> float:
        """The task's ``timeout`` in seconds."""
        return number(scope.render(self.task.timeout, self.task.place), "timeout")

    def _make(self, call: Call) -> Result:
        """Run the module once, and judge what came of it."""
        begin = time.monotonic()
        result = call.ended or self._work(call)
        if call.ended is None and result.status in ("ok", "changed", "failed"):
            result = self._judged(call, result)
        if result.status == "failed":
            result = replace(result, ignored=self._is_ignored(call.scope))
        seconds = time.monotonic() - begin
        return replace(result, command=call.command, seconds=seconds, hidden=self.hidden)

    def _work(self, call: Call) -> Result:
        """What the module itself says."""
        try:
            return succeeded(self._outcomes(call))
        except StokerError as error:
            if self.setting.stop.is_set() and getattr(error, "kind", "") == "cancelled":
                return interrupted(error)
            return failed(error, self.host.name, self.task.place)

    def _outcomes(self, call: Call) -> list[Outcome]:
        """What the verb did, for each server that is meant."""
        session = self.session
        if self.task.timeout and "timeout" not in call.args:  # else the operation has its own deadline
            session = Timed(session, self._limit(call.scope))
        args = {"host": [self.host.name], **call.args} if self.verb.flags else call.args
        job = Job(self.setting.project, session, args, check=self.setting.check)
        return self.verb.on(job, call.plans)

    def _judged(self, call: Call, result: Result) -> Result:
        """The result as the task's own conditions see it."""
        task, data, error = self.task, dict(result.data), result.error
        try:
            if task.changed_when is not None:
                data["changed"] = self._view(call, data).unmet(task.changed_when, task.place) is None
            if task.failed_when is not None:
                has_failed = self._view(call, data).unmet(task.failed_when, task.place) is None
                data["failed"] = data["failed_when_result"] = has_failed
                error = (error or self._failed_when()) if has_failed else None
        except InputError as mistake:
            data["failed"] = True
            error = failed(mistake, self.host.name, task.place).error
        return replace(result, status=_status(error, data), data=data, error=error)

    def _view(self, call: Call, data: dict[str, Any]) -> Scope:
        """The variables with the result among them."""
        return call.scope.adding({self.task.register: data} if self.task.register else {})

    def _failed_when(self) -> HostFailed:
        shown = " and ".join(str(condition) for condition in self.task.failed_when or ())
        return HostFailed(f"failed_when: {shown}", host=self.host.name, kind="failed-when")

    def _is_ignored(self, scope: Scope) -> bool:
        try:
            return truth(self.task.ignore_errors, scope, self.task.place)
        except InputError:
            return False


def _loop_vars(item: Any) -> dict[str, Any]:
    return {"item": item, "ansible_loop_var": "item"}


def _status(error: StokerError | None, data: Mapping[str, Any]) -> Status:
    if error is not None:
        return "failed"
    return "changed" if data["changed"] else "ok"
