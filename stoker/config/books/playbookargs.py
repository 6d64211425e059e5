"""The arguments of a playbook's modules, each checked on its kind where it is no template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stoker.config.books.playbooktree import Argument, Module
from stoker.config.books.playbookvalues import Path as At
from stoker.config.books.playbookvalues import Values, kind
from stoker.config.files.yamltree import Vault
from stoker.config.templating import template
from stoker.errors import InputError, nearest

# A word as Ansible splits a text: quotes and templates hold it together.
_WORD = re.compile(
    r"""(?:\{\{.*?\}\}|\{%.*?%\}|\{\#.*?\#\}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\S)+""", re.DOTALL
)
_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


class Arguments(Values):
    """Reads what stands under a module's name and under ``args``."""

    def arguments(self, path: At, task: Mapping[Any, Any], key: str, module: Module) -> dict[str, Any]:
        """The arguments as written, those under ``args`` included."""
        before = len(self.problems)
        given = self._given((*path, key), task[key], key, module)
        at = (*path, "args")
        under = self._named(at, key, self.mapping(at, task.get("args"), "args"), module)
        for name in sorted(given.keys() & under.keys()):
            self.note((*at, name), f"{name} is given twice", key=True)
        args = {**given, **under}
        for group in module.needs if len(self.problems) == before else ():
            if all(args.get(name) is None for name in group):
                self.note((*path, key), f"{key} needs {' or '.join(group)}", key=True)
        return args

    def _given(self, at: At, value: Any, key: str, module: Module) -> dict[str, Any]:
        """What stands under the module's name: a mapping, or a bare value where the module takes one."""
        if value is None or isinstance(value, dict):
            return self._named(at, key, value or {}, module)
        pairs, rest = _pairs(value, module) if isinstance(value, str) else ({}, value)
        named = self._named(at, key, pairs, module) if pairs else {}
        if pairs and (rest == "" or (module.elsewhere and module.free not in named)):
            return {
                **named,
                **({module.free: self._argument(at, rest, module.arguments[module.free])} if rest else {}),
            }
        if pairs or not module.free or isinstance(value, list):
            hint = f"write {key}: {{NAME: VALUE}}"
            self.note(at, f"{key} takes a mapping of arguments, here is {kind(value)}", hint)
            return {}
        return {module.free: self._argument(at, value, module.arguments[module.free])}

    def _named(self, at: At, key: str, given: Mapping[Any, Any], module: Module) -> dict[str, Any]:
        """The arguments of a mapping that are known; others are noted."""
        self.odd_keys(at)
        args: dict[str, Any] = {}
        for written, value in given.items():
            name, place = str(written).replace("-", "_"), (*at, written)
            if name in module.arguments:
                args[name] = self._argument(place, value, module.arguments[name])
            elif name in module.later:
                self.note(place, f"{written} of {key} is not supported yet", "take it out", key=True)
            elif module.any_name:
                args[self.variable(place, written, key=True)] = self.value(place, value)
            else:
                hint = nearest(str(written), module.arguments)
                self.note(place, f"{key} has no argument {written!r}", hint, key=True)
        return args

    def _argument(self, at: At, value: Any, argument: Argument) -> Any:
        """An argument's value as written, tried on its kind where it is no template."""
        if argument.expressions:
            self.conditions(at, value)
            return value
        if argument.exact:
            value = self.exact(at, value)
        self.value(at, value, vaults=argument.vaults)
        if isinstance(value, Vault):
            return value  # it is opened when the task runs
        if not template.has_template(value):
            try:
                argument.parse(value)
            except InputError as error:
                self.note(at, error.what, error.next_step)
        return value


def _pairs(text: str, module: Module) -> tuple[dict[str, str], str]:
    """The ``NAME=VALUE`` in a text that Ansible takes for arguments, and what is left of it."""
    found: dict[str, str] = {}
    kept, end = "", 0
    for word in _WORD.finditer(text):
        pair = _PAIR.fullmatch(word[0])
        if pair is not None and (pair[1] in module.pairs or not module.free):
            found[pair[1]] = _unquoted(pair[2])
        else:
            kept += text[end : word.end()]
        end = word.end()
    return found, (kept + text[end:]).strip() if found else text


def _unquoted(text: str) -> str:
    """A value without the quotes around it."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text
