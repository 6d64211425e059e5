"""One task of a playbook on one host: its conditions, its loop, its judgement."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from stoker.config.books.playbooktree import Task
from stoker.config.files.yamlfile import Vault
from stoker.errors import InputError, StokerError
from stoker.fleet import servers
from stoker.fleet.books import vaulted
from stoker.fleet.books.call import Call, Timed, arguments, around, limit, truth
from stoker.fleet.books.judgement import Judge
from stoker.fleet.books.result import Result, failed, interrupted, skipped, succeeded, together
from stoker.fleet.books.scope import Frame, Scope
from stoker.fleet.books.verbs import IN_BOOKS, by_hand, modules
from stoker.fleet.job import Job, Outcome
from stoker.fleet.session import Session

if TYPE_CHECKING:
    from stoker.fleet.project import Project


class Listener(Protocol):
    """What is told while a task runs; called from the hosts' threads."""

    def round(self, host: str, task: Task, command: str) -> None:
        """A further round of a loop begins."""

    def again(self, host: str, task: Task, left: int, result: Result) -> None:
        """It is tried again, so many times at most."""

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
        elsewhere: The session of another host, for a task that is delegated: (the play's host, that host).
        diff: Show what changes.
    """

    project: Project
    frame: Frame
    check: bool
    listener: Listener
    stop: threading.Event
    elsewhere: Callable[[str, str], Session]
    diff: bool = False


class Turn:
    """One host's turn at a task. What its first round will do is known before it runs.

    Args:
        setting: The play's.
        task: The task.
        session: The host's connection.
        facts: What was registered and set on the host.
        outer: The loop's variables of the ``include_tasks`` around it, taken literally.
    """

    def __init__(
        self,
        setting: Setting,
        task: Task,
        session: Session,
        facts: Mapping[str, Any],
        outer: Mapping[str, Any] | None = None,
    ) -> None:
        self.setting = setting
        self.task = task
        self.session = session
        self.host = session.host
        self.verb = IN_BOOKS[task.module]
        self._facts = dict(facts)
        self._outer = dict(outer or {})
        self._judge = Judge(task, self.host.name)
        self._rounds: list[dict[str, Any]] | None = None  # None where it does not loop
        self.hidden = True  # until it is known not to be
        self.first = self._begin()

    def run(self) -> Result:
        """Do the task, all rounds of it."""
        if self._rounds is None:
            result = self._make(self.first)
            self._tell(result)
        else:
            result = together(self._all(self._rounds))
        notified = result.notified if result.status == "changed" else ()
        if not self.task.register and notified == result.notified:
            return result
        registered = {self.task.register: result.data} if self.task.register else {}
        return replace(result, facts={**result.facts, **registered}, notified=notified)

    def runs_once(self) -> bool:
        """Whether it is done here for all hosts.

        Raises:
            InputError: It cannot be told.
        """
        return self.verb.book.once or truth(self.task.run_once, self._scope({}), self.task.place)

    def is_fatal(self) -> bool:
        """Whether a failure ends all hosts.

        Raises:
            InputError: It cannot be told.
        """
        scope = self._scope({})
        ignored = truth(self.task.ignore_errors, scope, self.task.place)
        return not ignored and (self.runs_once() or truth(self.task.any_errors_fatal, scope, self.task.place))

    def _begin(self) -> Call:
        """Work out the rounds, and the first of them."""
        scope = self._scope({})
        try:
            self.hidden = truth(self.task.no_log, scope, self.task.place)
            items = self._loop(scope)
        except InputError as error:
            return Call(scope, ended=failed(error, self.host.name, self.task.place))
        if items is None:
            return self._call(scope)
        if not items:
            why = "No items in the list"
            return Call(scope, ended=skipped("nothing to loop over", skipped_reason=why, results=[]))
        self._rounds = [self._round(index, item) for index, item in enumerate(items)]
        return self._call(self._scope(self._rounds[0]))

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

    def _round(self, index: int, item: Any) -> dict[str, Any]:
        """The variables of a round."""
        control = self.task.loop_control
        named = {control.loop_var: item, "ansible_loop_var": control.loop_var}
        if control.index_var:
            named |= {control.index_var: index, "ansible_index_var": control.index_var}
        return named

    def _is_unmet(self, scope: Scope) -> bool:
        """Whether the conditions fail whatever the item is."""
        try:
            return scope.unmet(self.task.when, self.task.place) is not None
        except InputError:
            return False

    def _all(self, rounds: Sequence[dict[str, Any]]) -> list[Result]:
        """Every round, in order; a lost host ends them."""
        results: list[Result] = []
        for index, variables in enumerate(rounds):
            if index:
                self._pause()
            call = self.first if index == 0 else self._call(self._scope(variables))
            if index:
                self.setting.listener.round(self.host.name, self.task, "" if self.hidden else call.command)
            result = self._make(call).of_round(variables, self._label(call.scope, variables))
            self._facts.update(result.facts)  # a round sees what the rounds before it have set
            self._tell(result)
            results.append(result)
            if result.status in ("unreachable", "interrupted"):
                break
        return results

    def _pause(self) -> None:
        """What the loop waits between two rounds."""
        if self.task.loop_control.pause:
            seconds = limit(self.task.loop_control.pause, self._scope({}), self.task.place, "pause")
            self.setting.stop.wait(seconds)

    def _label(self, scope: Scope, variables: Mapping[str, Any]) -> str:
        """What is shown of a round's item."""
        control = self.task.loop_control
        try:
            label = variables[control.loop_var] if control.label is None else scope.render(control.label, "")
        except InputError:
            label = control.label
        return str(label)

    def _tell(self, result: Result) -> None:
        self.setting.listener.ended(self.host.name, self.task, result)

    def _scope(self, loop: Mapping[str, Any]) -> Scope:
        around = {**self._outer, **loop}
        return self.setting.frame.scope(self.host, self._facts, self.task.vars, around)

    def _call(self, scope: Scope) -> Call:
        """The call of one round; nothing is connected for it."""
        place = self.task.place
        try:
            unmet = scope.unmet(self.task.when, place)
            if unmet is not None:
                why = "Conditional result was False"
                shown = str(unmet).lower() if isinstance(unmet, bool) else unmet
                return Call(scope, ended=skipped(f"when {shown}", skip_reason=why, false_condition=unmet))
            args = arguments(self.task, modules()[self.verb.name], self.verb, scope, self._opened)
            if args.get("timeout", 0) is None and self.task.timeout:
                args["timeout"] = limit(self.task.timeout, scope, place, "timeout")
            plans = servers.meant(self.setting.project, self.verb, self.host, args)
            env, user, at = around(self.task, self.verb, scope, self._opened)
            secrets = vaulted.hidden((*args.values(), *env.values()))
            hand = by_hand(self.verb.name, [at or self.host.name], {**args, "env": env, "user": user})
            return Call(scope, args, plans, hand, env=env, user=user, at=at, secrets=secrets)
        except StokerError as error:
            return Call(scope, ended=failed(error, self.host.name, place))

    def _opened(self, vault: Vault, where: str) -> vaulted.Opened:
        return vaulted.Opened(self.setting.project.open_vault(vault, where))

    def _make(self, call: Call) -> Result:
        """Run the module until it is enough, and judge what came of it."""
        begin = time.monotonic()
        result = call.ended or self._tries(call)
        result = self._judge.ignored(result, call.scope)
        result = self._judge.notified(result, call.scope)
        seconds = time.monotonic() - begin
        return replace(result, command=call.command, seconds=seconds, hidden=self.hidden)

    def _tries(self, call: Call) -> Result:
        """Once, or as often as ``until`` and ``retries`` say."""
        try:
            tries, delay = self._judge.tries(call.scope)
        except InputError as error:
            return failed(error, self.host.name, self.task.place)
        for attempt in range(1, tries + 1):
            result = self._judge.judged(self._work(call), call.scope, attempt if tries > 1 else 0)
            if tries == 1 or result.status in ("unreachable", "interrupted"):
                return result
            result, is_enough = self._judge.enough(result, call.scope)
            if is_enough:
                return result
            if attempt < tries:
                self.setting.listener.again(self.host.name, self.task, tries - attempt, result)
                if self.setting.stop.wait(delay):
                    return interrupted()
        return self._judge.exhausted(result, tries - 1)

    def _work(self, call: Call) -> Result:
        """What the module itself says."""
        if not self.verb.book.fixed:
            self.session.note(self.session.doing)
        try:
            return succeeded(self._outcomes(call))
        except StokerError as error:
            if self.setting.stop.is_set() and getattr(error, "kind", "") in ("cancelled", "lost"):
                return interrupted(error)
            return failed(error, self.host.name, self.task.place)

    def _outcomes(self, call: Call) -> list[Outcome]:
        """What the verb did, for each server that is meant."""
        session, task, scope = self.session, self.task, call.scope
        if call.at:
            session = self.setting.elsewhere(self.host.name, call.at)
        if task.timeout and "timeout" not in call.args:  # else the operation has its own deadline
            session = Timed(session, limit(task.timeout, scope, task.place, "timeout"))
        diff = self.setting.diff if task.diff is None else truth(task.diff, scope, task.place)
        args = {"host": [self.host.name], "diff": diff, **call.args} if self.verb.flags else call.args
        given = self.setting.check if task.check_mode is None else task.check_mode
        check = truth(given, scope, task.place)
        job = Job(
            self.setting.project, session, args, None, check, (), call.env, call.user, secrets=call.secrets
        )
        return self.verb.on(job, call.plans)
