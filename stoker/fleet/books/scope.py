"""The variables that a task of a playbook sees on one host, in Ansible's order of precedence.

Low to high: the host's from the inventory, the play's, the task's, registered results and set facts,
``--extra-var``, and above all what Stoker sets itself. What people wrote may be templates; what hosts said
never is.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.config.books.playbooktree import Conditions
from stoker.config.inventories.inventory import Host
from stoker.config.layers import Layers
from stoker.config.templating import template


@dataclass(frozen=True)
class Scope:
    """Variables.

    Args:
        variables: May be templates.
        data: Taken literally; they win.
    """

    variables: Mapping[str, Any]
    data: Mapping[str, Any]

    def render(self, value: Any, where: str) -> Any:
        """A value with its templates rendered.

        Raises:
            BadTemplate: With the place.
        """
        return template.render(value, self.variables, where=where, data=self.data)

    def evaluate(self, expression: str, where: str) -> Any:
        """What an expression without braces gives.

        Raises:
            BadTemplate: With the place.
        """
        return template.evaluate(expression, self.variables, where=where, data=self.data)

    def unmet(self, conditions: Conditions, where: str) -> str | bool | None:
        """The first condition that does not hold; None where all hold.

        Raises:
            BadTemplate: One cannot be evaluated, or gives neither true nor false.
        """
        for condition in conditions:
            value = condition if isinstance(condition, bool) else self.evaluate(condition, where)
            if not isinstance(value, bool):
                what = f"{condition} gives {value!r:.60}, which is neither true nor false"
                raise template.BadTemplate(what, where=where, hint="compare it with something")
            if not value:
                return condition
        return None

    def adding(self, data: Mapping[str, Any]) -> Scope:
        """The same with more data."""
        return Scope(self.variables, {**self.data, **data})


@dataclass(frozen=True)
class Frame:
    """What the tasks of a play have in common.

    Args:
        vars: The play's variables.
        extra: Those of ``--extra-var``.
        own: Those that Stoker sets.
    """

    vars: Mapping[str, Any]
    extra: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Any] = field(default_factory=dict)

    def scope(
        self,
        host: Host,
        facts: Mapping[str, Any],
        task_vars: Mapping[str, Any],
        loop: Mapping[str, Any] | None = None,
    ) -> Scope:
        """The variables of one task on one host.

        Args:
            host: The host.
            facts: What was registered and set there.
            task_vars: The task's own.
            loop: The loop's variable.
        """
        variables = Layers(self.extra, task_vars, self.vars, host.vars)
        shown = {name: value for name, value in facts.items() if name not in self.extra}
        return Scope(variables, {**shown, **self.own, **(loop or {})})


def own(
    *,
    check: bool,
    diff: bool,
    hosts: Sequence[str],
    active: Sequence[str],
    folder: str,
    others: HostVars,
    left: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The variables that Stoker sets.

    Args:
        check: Whether nothing may be touched.
        diff: Whether what changes is to be shown.
        hosts: The play's.
        active: Of these, those of the batch that are still with it.
        left: Of these, all that are still with it, of whichever batch; None: ``active``.
        folder: The playbook's.
        others: Every host's variables.
    """
    return {
        "ansible_check_mode": check,
        "ansible_diff_mode": diff,
        "ansible_play_batch": list(active),
        "ansible_play_hosts": list(active if left is None else left),
        "ansible_play_hosts_all": list(hosts),
        "hostvars": others,
        "omit": OMIT,
        "playbook_dir": folder,
    }


OMIT = f"(omitted {secrets.token_hex(8)})"
"""What ``omit`` stands for: an argument with this value is not given."""


def without_omitted(value: Any) -> Any:
    """A value without what ``omit`` stands for."""
    if isinstance(value, dict):
        return {name: without_omitted(item) for name, item in value.items() if item != OMIT}
    return [without_omitted(item) for item in value if item != OMIT] if isinstance(value, list) else value


class HostVars(Mapping[str, Any]):
    """``hostvars``: the variables of every host by name, rendered when they are looked at.

    Args:
        hosts: Every host.
        facts: What was registered and set, by host.
    """

    def __init__(self, hosts: Mapping[str, Host], facts: Mapping[str, Mapping[str, Any]]) -> None:
        self._hosts = hosts
        self._facts = facts

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        return _OneHost(self._hosts[name], self._facts.get(name, {}))

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)


class _OneHost(Mapping[str, Any]):
    """One host's variables."""

    def __init__(self, host: Host, facts: Mapping[str, Any]) -> None:
        self._host = host
        self._facts = facts

    def __getitem__(self, name: str) -> Any:
        if name in self._facts:
            return self._facts[name]
        where = f"hostvars of {self._host.name}"
        return template.render(self._host.vars[name], self._host.vars, where=where, data=self._facts)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._host.vars, **self._facts})

    def __len__(self) -> int:
        return len({**self._host.vars, **self._facts})
