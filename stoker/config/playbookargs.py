"""The arguments of a playbook's modules, each checked on its kind where it is no template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stoker.config import template
from stoker.config.playbooktree import Argument, Module
from stoker.config.playbookvalues import Path as At
from stoker.config.playbookvalues import Values, kind
from stoker.config.yamltree import Vault
from stoker.errors import InputError, nearest

_SHORTHAND = re.compile(r"(?:^|\s)([A-Za-z_]\w*)=")


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
        if not module.free or isinstance(value, list):
            hint = f"write {key}: {{NAME: VALUE}}"
            self.note(at, f"{key} takes a mapping of arguments, here is {kind(value)}", hint)
            return {}
        for name in _SHORTHAND.findall(value) if isinstance(value, str) else ():
            # To pass it on as text would be another meaning than Ansible's.
            if name in module.pairs:
                self.note(
                    at, f"{name}=… inside a text is not read as an argument", f"write args: {{{name}: …}}"
                )
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
