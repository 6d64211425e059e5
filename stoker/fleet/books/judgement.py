"""What a task's own keywords make of what its module said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stoker.config.books.playbooktree import Task
from stoker.config.settings import whole
from stoker.errors import HostFailed, InputError, StokerError
from stoker.fleet.books.call import limit, truth
from stoker.fleet.books.result import Result, Status, failed
from stoker.fleet.books.scope import Scope

_RETRIES = 3


class Judge:
    """Judges what came of a task on one host.

    Args:
        task: The task.
        host: The host's name.
    """

    def __init__(self, task: Task, host: str) -> None:
        self._task = task
        self._host = host

    def tries(self, scope: Scope) -> tuple[int, float]:
        """How often it may be tried, and the seconds between.

        Raises:
            InputError: A template gives something else.
        """
        task = self._task
        if task.retries is None:
            retries = _RETRIES if task.until is not None else 0
        else:
            retries = whole(scope.render(task.retries, task.place), "retries")
        return 1 + retries, limit(task.delay, scope, task.place, "delay") if retries else 0.0

    def judged(self, result: Result, scope: Scope, attempt: int) -> Result:
        """The result as ``changed_when`` and ``failed_when`` see it.

        Args:
            result: What the module said.
            scope: The round's variables.
            attempt: Which one it was, from 1; 0 where there is only one.
        """
        if result.status not in ("ok", "changed", "failed"):
            return result
        task, error = self._task, result.error
        if task.changed_when is None and task.failed_when is None and not attempt:
            return result
        data = {**result.data, "attempts": attempt} if attempt else dict(result.data)
        try:
            if task.changed_when is not None:
                data["changed"] = self._view(scope, data).unmet(task.changed_when, task.place) is None
            if task.failed_when is not None:
                has_failed = self._view(scope, data).unmet(task.failed_when, task.place) is None
                data["failed"] = data["failed_when_result"] = has_failed
                error = (error or self._failed_when()) if has_failed else None
        except InputError as mistake:
            data["failed"] = True
            error = failed(mistake, self._host, task.place).error
        return replace(result, status=_status(error, data), data=data, error=error)

    def enough(self, result: Result, scope: Scope) -> tuple[Result, bool]:
        """The result, and whether it need not be tried again."""
        task = self._task
        if task.until is None:
            return result, not result.data["failed"]
        try:
            return result, self._view(scope, result.data).unmet(task.until, task.place) is None
        except InputError as mistake:  # it will not hold the next time either
            return failed(mistake, self._host, task.place), True

    def exhausted(self, result: Result, retries: int) -> Result:
        """The last result, as a failure."""
        wanted = " and ".join(str(condition) for condition in self._task.until or ())
        error = result.error or HostFailed(
            f"not so after {retries} tries more: {wanted}", host=self._host, kind="until"
        )
        return replace(
            result, status="failed", data={**result.data, "attempts": retries, "failed": True}, error=error
        )

    def ignored(self, result: Result, scope: Scope) -> Result:
        """The result with whether the host goes on in spite of it."""
        task = self._task
        given = {"failed": task.ignore_errors, "unreachable": task.ignore_unreachable}.get(result.status)
        if given is None:
            return result
        try:
            return replace(result, ignored=truth(given, scope, task.place))
        except InputError:
            return result

    def notified(self, result: Result, scope: Scope) -> Result:
        """The result with the handlers that it asks for, where it changed something in any round."""
        task = self._task
        if not task.notify or result.status not in ("ok", "changed"):
            return result
        try:
            rendered = scope.adding(self._registered(result.data)).render(list(task.notify), task.place)
        except InputError as mistake:
            return failed(mistake, self._host, task.place)
        names = [str(x) for one in rendered for x in (one if isinstance(one, list) else [one])]
        return replace(result, notified=tuple(names))

    def _view(self, scope: Scope, data: dict[str, Any]) -> Scope:
        """The variables with the result among them."""
        return scope.adding(self._registered(data))

    def _registered(self, data: dict[str, Any]) -> dict[str, Any]:
        facts = data.get("ansible_facts")
        set_now = facts if self._task.module == "set_fact" and isinstance(facts, dict) else {}
        return {**set_now, **({self._task.register: data} if self._task.register else {})}

    def _failed_when(self) -> HostFailed:
        shown = " and ".join(str(condition) for condition in self._task.failed_when or ())
        return HostFailed(f"failed_when: {shown}", host=self._host, kind="failed-when")


def _status(error: StokerError | None, data: Mapping[str, Any]) -> Status:
    if error is not None:
        return "failed"
    return "changed" if data["changed"] else "ok"
