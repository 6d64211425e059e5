"""INI inventories → definitions.

As Ansible has it: lines before a section belong to ``ungrouped``; host lines are split as a shell would,
values there and those of ``[group:vars]`` are Python's literals where they can be read so, else texts.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from stoker.config.files import textfile
from stoker.config.files.yamlfile import Document
from stoker.config.files.yamltree import Node
from stoker.config.inventories import names as inventory_names
from stoker.config.inventories import vars as inventory_vars
from stoker.config.inventories.model import Definitions, Place
from stoker.config.inventories.vars import Holder
from stoker.errors import ConfigError, InputError, Problem, nearest

_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_CHILD = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
_SHELLS = re.compile(r"""['"\\#]|[^\S \t]""")
_ADDRESS = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+[\w.]*", re.ASCII)
_KINDS = ("hosts", "children", "vars")
_MAY_BE_LITERAL = re.compile(r"[^A-Za-z_/$~]|True|False|None|set\(|[BbRrUu]{1,2}['\"]")


def read(path: Path, name: str, definitions: Definitions) -> None:
    """Add what an INI inventory defines; mistakes go to its problems.

    Args:
        path: The file.
        name: The file as shown to people.
        definitions: What is known so far; grows.

    Raises:
        ConfigError: It cannot be read, or says nothing.
    """
    reader = _Reader(name, str(path.absolute()), definitions)
    empty = True
    for number, line in enumerate(textfile.read(path, name).splitlines(), 1):
        text = line.strip()
        if text and text[0] not in "#;":
            empty = False
            reader.take(text, Place(name, number, len(line) - len(line.lstrip()) + 1))
    if empty:
        raise ConfigError([Problem(name, 1, "the inventory is empty", "write a host's name on a line")])
    reader.end()


@dataclass
class _Reader:
    """Reads one file line by line.

    Args:
        name: The file as shown to people.
        path: The file, absolute.
        group: The section's group.
        kind: ``hosts``, ``children`` or ``vars``; ``skip`` below a header that cannot be used.
        awaited: Groups that are not declared yet: the parents that name each, and where.
        unowned: Groups of a ``vars`` section that are not declared yet.
        said: Variables of a ``vars`` section, for finding one that is there twice.
    """

    name: str
    path: str
    into: Definitions
    group: str = "ungrouped"
    kind: str = "hosts"
    awaited: dict[str, dict[str, Place]] = field(default_factory=dict)
    unowned: dict[str, Place] = field(default_factory=dict)
    said: dict[str, int] = field(default_factory=dict)

    def take(self, text: str, place: Place) -> None:
        """Take the next line that says something."""
        if (header := _SECTION.fullmatch(text)) is not None:
            self._header(header[1], header[2] or "hosts", place)
        elif text.startswith("[") and text.endswith("]"):
            self._refuse_header(text, place)
        elif self.kind == "hosts":
            self._hosts(text, place)
        elif self.kind == "children":
            self._child(text, place)
        elif self.kind == "vars":
            self._variable(text, place)

    def end(self) -> None:
        """Note the groups that were named and never declared."""
        for group, place in self.unowned.items():
            what = f"[{group}:vars] is about a group that nothing declares"
            self._note(place, what, self._declared(group))
        for group, parents in self.awaited.items():
            for parent, place in parents.items():
                what = f"group {parent} has the child {group}, which nothing declares"
                self._note(place, what, self._declared(group))

    def _declared(self, group: str) -> str:
        """The mend for a group that nothing declares."""
        others = self.into.groups.keys() - self.unowned.keys() - {group, "all", "ungrouped"}
        near = get_close_matches(group, others, 1)
        return f"did you mean {near[0]!r}?" if near else f"write [{group}] with its hosts"

    def _note(self, place: Place, what: str, hint: str = "") -> None:
        self.into.problems.append(place.problem(what, hint))

    def _refuse_header(self, text: str, place: Place) -> None:
        self.kind = "skip"
        hint = "write [group], [group:vars] or [group:children], without blanks"
        self._note(place, f"{text} is no section", hint)

    def _header(self, group: str, kind: str, place: Place) -> None:
        self.group, self.kind, self.said = group, kind, {}
        if kind not in _KINDS:
            self.kind = "skip"
            self._note(place, f"[{group}:{kind}] is no section", nearest(kind, _KINDS))
            return
        if not inventory_names.is_group_name(group):
            self.kind = "skip"
            self._note(place, f"{group!r} is no group name", "letters, digits, dashes, underscores")
            return
        if kind == "vars" and group not in self.into.groups and group not in self.awaited:
            self.unowned[group] = place
        self.into.group(group, place)
        if kind != "vars":
            self.unowned.pop(group, None)
            for parent, at in self.awaited.pop(group, {}).items():
                self.into.groups[parent].children.setdefault(group, at)

    def _child(self, text: str, place: Place) -> None:
        found = _CHILD.fullmatch(text)
        if found is None or "=" in text:
            hint = "variables stand in [group:vars]" if "=" in text else "one group a line"
            self._note(place, f"{text} is no group name", hint)
        elif found[1] == "all":
            self._note(place, "all cannot be the child of a group", "it contains every group")
        elif found[1] in self.into.groups:
            self.into.groups[self.group].children.setdefault(found[1], place)
        else:
            self.awaited.setdefault(found[1], {}).setdefault(self.group, place)

    def _variable(self, text: str, place: Place) -> None:
        name, equals, written = (part.strip() for part in text.partition("="))
        if not equals or not name:
            self._note(place, "a variable is expected here", "write NAME=VALUE")
            return
        if (first := self.said.setdefault(name, place.line)) != place.line:
            self._note(place, f"the variable {name} is here twice, first on line {first}")
            return
        variables = self._checked({name: written}, place, Holder.GROUP)
        group = self.into.groups[self.group]
        if inventory_vars.PRIORITY in variables:
            priority = variables.pop(inventory_vars.PRIORITY)
            group.priority = priority if isinstance(priority, int) else 1
        group.vars.update(variables)

    def _hosts(self, text: str, place: Place) -> None:
        """Read a line with a host, or a range of hosts, and variables."""
        try:
            # shlex reads sign by sign; most lines hold nothing that only it understands.
            entry, *words = shlex.split(text, comments=True) if _SHELLS.search(text) else text.split()
        except ValueError as error:
            self._note(place, f"the line cannot be split into words: {str(error).lower()}", "pair the quotes")
            return
        try:
            names, port = inventory_names.expand_host(entry)
        except InputError as error:
            self._note(place, error.what, error.next_step)
            return
        variables = self._checked(self._assignments(words, place), place, Holder.HOST)
        group = self.into.groups[self.group]
        for one in names:
            group.hosts[one] = None
            self.into.host(one, place, port, self.path)
            self.into.vars_of(one).update(variables)

    def _assignments(self, words: list[str], place: Place) -> dict[str, str]:
        written: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or not name:
                what = "behind a host stand variables" if equals else f"{_cut(word)} is no variable"
                self._note(place, what, "write NAME=VALUE, one host a line, without blanks around =")
            elif name in written:
                self._note(place, f"the variable {name} is here twice")
            else:
                written[name] = value
        return written

    def _checked(self, written: dict[str, str], place: Place, holder: Holder) -> dict[str, Any]:
        """The variables' values; what is wrong with them is noted."""
        entries: dict[Hashable, tuple[Node, Node]] = {}
        for name, text in written.items():
            try:
                value = literal(text)
            except ValueError as error:
                self._note(place, f"{name}: {error}")
                continue
            key = Node(name, place.line, place.column, name)
            entries[name] = (key, Node(value, place.line, place.column, text))
        values = {str(name): value.value for name, (_, value) in entries.items()}
        document = Document(self.name, values, Node(values, 0, 0, entries=entries))
        for problem in inventory_vars.mistakes(document, (), holder):
            hint = _QUOTED[holder] if problem.hint == "quote it" else problem.hint
            self.into.problems.append(replace(problem, hint=hint))
        return values


_QUOTED = {
    Holder.GROUP: "quote it: NAME='VALUE'",
    Holder.HOST: "quote it twice, as the line is split like a shell's: NAME=\"'VALUE'\"",
}


def literal(text: str) -> Any:
    """What a value in an INI inventory means: a literal of Python where it is one, else the text itself.

    Sets and tuples become lists, bytes texts, as in Ansible; but sets in an order that is always the same.

    Raises:
        ValueError: It is nested too deeply, or not a text that could be written anywhere.
    """
    value: Any = text
    if _MAY_BE_LITERAL.match(text) and not _ADDRESS.fullmatch(text):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        except (RecursionError, MemoryError, TypeError) as error:  # TypeError: {[]: 1}, a list as a key
            raise ValueError("the value is no literal: it cannot be read") from error
    return _plain(value)


def _plain(value: Any) -> Any:
    """A literal's value as one that YAML could give."""
    if isinstance(value, str | bytes):
        value = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
        value.encode()  # UnicodeEncodeError is a ValueError
        return value
    if isinstance(value, set):
        return [_plain(item) for item in sorted(value, key=repr)]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if any(isinstance(key, tuple | complex) or key is ... for key in value):
            raise ValueError("a key of a mapping is a word or a number")
        return {_plain(key): _plain(item) for key, item in value.items()}
    if value is ...:
        return "..."
    return str(value) if isinstance(value, complex) else value


def _cut(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
