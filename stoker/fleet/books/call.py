"""A playbook's module with its arguments, made ready for one host before anything is connected."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stoker.config.books.playbooktree import Module, Task
from stoker.config.settings import number
from stoker.errors import HostFailed, InputError
from stoker.fleet.books import vaulted
from stoker.fleet.books.arguments import Evaluated
from stoker.fleet.books.result import Result
from stoker.fleet.books.scope import Scope, without_omitted
from stoker.fleet.flags import parse_all
from stoker.fleet.job import Verb
from stoker.fleet.session import Session

if TYPE_CHECKING:
    from stoker.plan import LaunchPlan
    from stoker.reach.client import Agent


@dataclass(frozen=True)
class Call:
    """A module with its arguments, ready to run on one host.

    Args:
        scope: The variables it was made from.
        args: Typed.
        plans: The servers that are meant.
        command: The ``inv`` command that does the same; empty where there is none.
        ended: What came of it already, where it is skipped or cannot be made.
        env: Variables added to the environment of what is run.
        user: As whom it is run; empty for the login's.
        at: The host that it is delegated to; empty for none.
        secrets: What stood in vaults, and is masked in what comes of it.
    """

    scope: Scope
    args: dict[str, Any] = field(default_factory=dict)
    plans: tuple[LaunchPlan, ...] = ()
    command: str = ""
    ended: Result | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    at: str = ""
    secrets: tuple[str, ...] = ()


def arguments(
    task: Task, module: Module, verb: Verb, scope: Scope, open_vault: vaulted.Open = vaulted.closed
) -> dict[str, Any]:
    """A task's arguments, rendered and typed.

    Raises:
        InputError: A template that cannot be rendered, or a value that does not fit.
    """
    place = task.place
    expressions = {name for name, argument in module.arguments.items() if argument.expressions}
    may_be = [name for name in task.args if name in module.arguments and module.arguments[name].vaults]
    vaults = {name: found for name in may_be if (found := vaulted.sealed(task.args[name], scope))}
    apart = expressions | vaults.keys()
    plain = {name: value for name, value in task.args.items() if name not in apart}
    rendered = without_omitted(scope.render(plain, place))
    known = {name: value for name, value in rendered.items() if name in module.arguments}
    args = parse_all(verb.flags, known, place)
    for name in expressions & task.args.keys():
        written = task.args[name]
        several = written if isinstance(written, list) else [written]
        args[name] = [_evaluated(expression, scope, place) for expression in several]
    args |= {name: open_vault(vault, place) for name, vault in vaults.items()}
    return {**args, **{name: value for name, value in rendered.items() if name not in known}}


def _evaluated(expression: str | bool, scope: Scope, place: str) -> Evaluated:
    if isinstance(expression, bool):
        return Evaluated(str(expression).lower(), expression)
    try:
        return Evaluated(expression, scope.evaluate(expression, place))
    except InputError as error:
        return Evaluated(expression, error=error.what)


def limit(value: Any, scope: Scope, place: str, name: str) -> float:
    """A number of seconds, or a template of it.

    Raises:
        InputError: The template gives something else.
    """
    given = scope.render(value, place)
    return 0.0 if given in (0, "0") else number(given, name)


def around(
    task: Task, verb: Verb, scope: Scope, open_vault: vaulted.Open = vaulted.closed
) -> tuple[dict[str, str], str, str]:
    """With what environment, as whom and where a command is run.

    Returns:
        Variables; the user and the host, empty for the login's and the play's own.

    Raises:
        InputError: A template that cannot be rendered, or gives something else.
    """
    if not verb.book.elsewhere:
        return {}, "", ""
    env: dict[str, str] = {}
    for one in task.environment:
        env.update(_variables(one, task, scope, open_vault))
    user = str(scope.render(task.become_user, task.place)) if truth(task.become, scope, task.place) else ""
    return env, user, str(scope.render(task.delegate_to, task.place))


def _variables(written: Any, task: Task, scope: Scope, open_vault: vaulted.Open) -> dict[str, str]:
    """One of the mappings of an environment, or the template of one."""
    found: dict[str, str] = {}
    if isinstance(written, Mapping):
        vaults = {name: vault for name in written if (vault := vaulted.sealed(written[name], scope))}
        found = {str(name): open_vault(vault, task.place) for name, vault in vaults.items()}
        written = {name: value for name, value in written.items() if name not in vaults}
    for one in without_omitted([scope.render(written, task.place)]):
        if not isinstance(one, dict):
            raise InputError(f"environment takes a mapping, and got {one!r:.60}", where=task.place)
        found |= {str(name): value if isinstance(value, str) else str(value) for name, value in one.items()}
    return found


def truth(value: bool | str, scope: Scope, place: str) -> bool:
    """A truth value or a template of one.

    Raises:
        InputError: The template gives something else.
    """
    given = value if isinstance(value, bool) else scope.render(value, place)
    if isinstance(given, str) and given.lower() in ("true", "yes", "false", "no"):
        return given.lower() in ("true", "yes")
    if not isinstance(given, bool):
        raise InputError(f"{value} gives neither true nor false, but {given!r:.60}", where=place)
    return given


class Timed(Session):
    """A host's session whose calls end in time.

    Args:
        session: The host's, which stays open.
        limit_s: For all calls together.
    """

    def __init__(self, session: Session, limit_s: float) -> None:
        super().__init__(session.host, lambda _: session.agent, lambda _, event: session.emit(event))
        self._session = session
        self._limit_s = limit_s
        self._end = time.monotonic() + limit_s

    @property
    def agent(self) -> Agent:
        """The agent's client, connected."""
        return self._session.agent

    def call(self, op: str, params: dict[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        """Run one operation; see ``Session.call``."""
        left = self._end - time.monotonic()
        if left <= 0:
            what = f"not done after {self._limit_s:g} s"
            raise HostFailed(what, host=self.host.name, kind="timeout", next_step="give the task more time")
        return self._session.call(op, params, timeout_s=left if timeout_s is None else min(left, timeout_s))
