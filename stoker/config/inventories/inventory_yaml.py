"""YAML inventories → definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.config.files.yamlfile import Document, read_as
from stoker.config.inventories import names as inventory_names
from stoker.config.inventories import vars as inventory_vars
from stoker.config.inventories.model import Definitions, GroupDef, Place
from stoker.config.inventories.vars import Holder
from stoker.errors import ConfigError, InputError, nearest

_Path = tuple[str | int, ...]

_SECTIONS = ("hosts", "vars", "children")


def read(document: Document, path: Path, definitions: Definitions) -> None:
    """Add what a YAML inventory defines; mistakes go to its problems.

    Args:
        document: The file as read.
        path: The file.
        definitions: What is known so far; grows.

    Raises:
        ConfigError: It holds no groups at all.
    """
    data = document.data
    if not isinstance(data, dict):
        raise ConfigError([document.problem((), *_not_groups(data))])
    if "plugin" in data and not isinstance(data["plugin"], dict):
        what = "inventory plugins are not run"
        raise ConfigError([document.problem(("plugin",), what, "list the hosts here", key=True)])
    reader = _Reader(document, str(path.absolute()), definitions)
    for group in data:
        reader.top_level(group)


def _not_groups(data: Any) -> tuple[str, str]:
    hint = "write e.g. all: with hosts: below it"
    if data is None:
        return "the inventory is empty", hint
    if isinstance(data, str) and data.startswith("$ANSIBLE_VAULT"):
        return (
            "the file is encrypted by Ansible Vault, which is not read",
            "keep secrets apart, by !secret NAME",
        )
    kind = "a list" if isinstance(data, list) else "a single value"
    return f"groups are expected at the top level, here stands {kind}", hint


@dataclass
class _Reader:
    """Reads one YAML inventory file.

    Args:
        path: The file, absolute.
    """

    document: Document
    path: str
    into: Definitions

    def top_level(self, name: Any) -> None:
        """Read one of the groups at the top."""
        body = self.document.data[name]
        if name in _SECTIONS and not (isinstance(body, dict) and body and set(body) <= set(_SECTIONS)):
            hint = f"write all: and indent {name}: below it"
            self._note((name,), f"{name} stands at the top level, where the groups stand", hint, key=True)
        else:
            self._group(name, body, (name,))

    def _note(self, path: _Path, what: str, hint: str = "", *, key: bool = False) -> None:
        self.into.problems.append(self.document.problem(path, what, hint, key=key))

    def _place(self, path: _Path, *, key: bool = True) -> Place:
        document = self.document
        return Place(document.file, document.line(path, key=key), document.column(path, key=key))

    def _group(self, name: Any, body: Any, path: _Path) -> GroupDef | None:
        """Read a group; None where its name is of no use."""
        if not self._is_name(name, "group", path):
            return None
        if not inventory_names.is_group_name(name):
            self._note(path, f"{name!r} is no group name", _missing_colon(name), key=True)
            return None
        group = self.into.group(name, self._place(path))
        if body is not None and not isinstance(body, dict):
            self._note(path, *_not_mapping(f"group {name}", body, "hosts, vars and children"))
            return group
        for section, value in (body or {}).items():
            self._section(group, section, value, (*path, section))
        return group

    def _section(self, group: GroupDef, section: Any, value: Any, path: _Path) -> None:
        if section not in _SECTIONS:
            what = f"unknown key {section} in group {group.name}"
            self._note(path, what, nearest(str(section), _SECTIONS), key=True)
            return
        if isinstance(value, str) and section != "vars":
            value = {value: None}  # Ansible takes a single name for a mapping without values
        if value is None:
            return
        if not isinstance(value, dict):
            self._note(path, *_not_mapping(f"{section} of group {group.name}", value, _WANTED[section]))
        elif section == "vars":
            self._vars(group, value, path)
        elif section == "children":
            for name, body in value.items():
                self._child(group, name, body, (*path, name))
        else:
            for name, body in value.items():
                self._hosts(group, name, body, (*path, name))

    def _vars(self, group: GroupDef, variables: Mapping[Any, Any], path: _Path) -> None:
        self.into.problems.extend(inventory_vars.mistakes(self.document, path, Holder.GROUP))
        for name, value in variables.items():
            if name == inventory_vars.PRIORITY:
                group.priority = value if isinstance(value, int) else 1
            else:
                group.vars[name] = value

    def _child(self, group: GroupDef, name: Any, body: Any, path: _Path) -> None:
        if name == "all":
            self._note(path, "all cannot be the child of a group", "it contains every group", key=True)
        elif (child := self._group(name, body, path)) is not None:
            group.children.setdefault(child.name, self._place(path))

    def _hosts(self, group: GroupDef, name: Any, variables: Any, path: _Path) -> None:
        """Read one entry under ``hosts``, which a range may make many."""
        if not self._is_name(name, "host", path):
            return
        try:
            names, port = inventory_names.expand_host(name)
        except InputError as error:
            self._note(path, error.what, error.next_step, key=True)
            return
        if variables is not None and not isinstance(variables, dict):
            self._note(path, *_not_mapping(f"host {name}", variables, "its variables"))
            return
        if variables:
            self.into.problems.extend(inventory_vars.mistakes(self.document, path, Holder.HOST))
        place = self._place(path)
        for one in names:
            group.hosts[one] = None
            self.into.host(one, place, port, self.path)
            self.into.vars_of(one).update(variables or {})

    def _is_name(self, name: Any, kind: str, path: _Path) -> bool:
        if isinstance(name, str) and name:
            return True
        what = f"the {kind} name {read_as(self.document.text(path, key=True), name)}"
        self._note(path, what, "quote it", key=True)
        return False


_WANTED = {"hosts": "host names", "vars": "variables", "children": "group names"}


def _not_mapping(where: str, value: Any, wanted: str) -> tuple[str, str]:
    kind = "a list" if isinstance(value, Sequence) and not isinstance(value, str) else "a single value"
    hint = "write NAME: on a line of its own, without a dash" if kind == "a list" else ""
    return f"{where}: a mapping of {wanted} is expected, here stands {kind}", hint


def _missing_colon(name: str) -> str:
    words = name.split()
    return f"is a ':' missing after {words[0]}?" if len(words) > 1 else "letters, digits, dashes, underscores"
