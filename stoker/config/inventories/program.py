"""Inventories that are programs: what they print for ``--list`` and ``--host`` → definitions.

A file is run only where its owner made it executable and it is a program (``#!``, or machine code). It is run
without a shell and without input; how long it may take and how much it may print are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.config.files.yamlfile import Document
from stoker.config.inventories import names as inventory_names
from stoker.config.inventories import vars as inventory_vars
from stoker.config.inventories.model import Definitions, Place
from stoker.config.inventories.vars import Holder
from stoker.config.templating import limited
from stoker.errors import ConfigError, InputError, Problem

DEADLINE_S = 60.0
"""For everything that one inventory is asked: its list, and each host where it has no ``_meta``."""
MAX_BYTES = 32 * 1024 * 1024

_KEYS = ("hosts", "vars", "children")


def read(path: Path, name: str, definitions: Definitions, *, deadline_s: float = DEADLINE_S) -> None:
    """Add what an inventory that is a program prints; mistakes go to its problems.

    Args:
        path: The program.
        name: The program as shown to people.
        definitions: What is known so far; grows.
        deadline_s: For all that it is asked.

    Raises:
        ConfigError: It failed, took or printed too much, or printed no JSON object.
    """
    clock = limited.Clock(deadline_s)
    reader = _Reader(path, name, definitions, clock)
    reader.groups(reader.ask("--list"))
    reader.variables()


@dataclass
class _Reader:
    """Reads the answers of one program.

    Args:
        hosts: Those that it named, in order.
        meta: Each host's variables, where it gives those of all at once.
    """

    path: Path
    name: str
    into: Definitions
    clock: limited.Clock
    hosts: dict[str, None] = field(default_factory=dict)
    meta: dict[str, Any] | None = None

    def ask(self, *words: str) -> dict[str, Any]:
        """One answer: a JSON object.

        Raises:
            ConfigError: There is none.
        """
        called = " ".join((self.name, *words))
        try:
            raw = limited.output((str(self.path.absolute()), *words), self.clock, MAX_BYTES)
            text = raw.decode("utf-8")
            if not text.strip() and words[0] == "--host":
                return {}
            answer = json.loads(text)
        except limited.ProcessError as error:
            raise self._failure(f"{called} {error}", error.said) from error
        except UnicodeDecodeError as error:
            raise self._failure(f"{called} prints something that is not UTF-8") from error
        except (ValueError, RecursionError) as error:
            raise self._failure(f"{called} prints no JSON: {_short(str(error))}") from error
        if not isinstance(answer, dict):
            raise self._failure(f"{called} prints {_kind(answer)}, an object of groups is expected")
        return answer

    def groups(self, answer: dict[str, Any]) -> None:
        """Read what ``--list`` printed."""
        for name, body in answer.items():
            if name == "_meta":
                self._meta(body)
            elif not inventory_names.is_group_name(name):
                self._note(f"{name!r} is no group name")
            else:
                self._group(name, body)

    def variables(self) -> None:
        """The variables of every host: of all at once, or each asked for."""
        for host in self.hosts:
            given = self.ask("--host", host) if self.meta is None else self.meta.get(host, {})
            self._add(self.into.vars_of(host), given, f"host {host}", Holder.HOST)

    def _failure(self, what: str, hint: str = "") -> ConfigError:
        return ConfigError([Problem(self.name, 0, what, hint)])

    def _note(self, what: str, hint: str = "") -> None:
        self.into.problems.append(Problem(self.name, 0, what, hint))

    def _meta(self, body: Any) -> None:
        hostvars = body.get("hostvars") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(hostvars, dict | None):
            self._note("_meta: an object with hostvars is expected", "hostvars holds each host's variables")
            self.meta = {}  # no host is asked for: the program meant to have told all
        else:
            self.meta = hostvars

    def _group(self, name: str, body: Any) -> None:
        if isinstance(body, list):
            body = {"hosts": body}
        elif not isinstance(body, dict):
            self._note(
                f"group {name} is {_kind(body)}", "an object with hosts, vars and children is expected"
            )
            return
        elif body and not any(key in body for key in _KEYS):
            self._note(f"group {name} has neither hosts nor vars nor children", "hosts is a list of names")
            return
        group = self.into.group(name, Place(self.name))
        self._add(group.vars, body.get("vars", {}), f"vars of group {name}", Holder.GROUP)
        priority = group.vars.pop(inventory_vars.PRIORITY, group.priority)
        group.priority = priority if isinstance(priority, int) else 1
        for host in self._names(body, name, "hosts"):
            self._host(host, group.hosts)
        for child in self._names(body, name, "children"):
            if child == "all" or not inventory_names.is_group_name(child):
                self._note(f"{child!r} cannot be the child of group {name}")
            else:
                self.into.group(child, Place(self.name))
                group.children.setdefault(child, Place(self.name))

    def _names(self, body: dict[str, Any], group: str, key: str) -> Iterator[str]:
        given = body.get(key, [])
        if not isinstance(given, list):
            self._note(f"{key} of group {group}: a list of names is expected, here stands {_kind(given)}")
            return
        for name in given:
            if isinstance(name, str) and name:
                yield name
            else:
                self._note(f"{key} of group {group}: a name is expected, here stands {_kind(name)}")

    def _host(self, host: str, into: dict[str, None]) -> None:
        try:
            inventory_names.check_host(host)
        except InputError as error:
            self._note(error.what, error.next_step)
            return
        self.into.host(host, Place(self.name), None, str(self.path.absolute()))
        into[host] = None
        self.hosts[host] = None

    def _add(self, into: dict[str, Any], given: Any, whose: str, holder: Holder) -> None:
        if not isinstance(given, dict):
            self._note(f"{whose}: an object is expected, here stands {_kind(given)}")
            return
        document = Document(self.name, given)
        for problem in inventory_vars.mistakes(document, (), holder):
            self._note(f"{whose}: {problem.what}", problem.hint)
        into.update(given)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "null" if value is None else "a single value"


def _short(text: str) -> str:
    return text.splitlines()[0][:200] if text else "it is broken"
