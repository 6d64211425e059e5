"""Reading the values of a playbook: each is checked where it stands, and mistakes are collected."""

from __future__ import annotations

import keyword
from typing import Any

from stoker.config.books import playbookwords as words
from stoker.config.books.playbooktree import Conditions
from stoker.config.files import yamlfile
from stoker.config.files.yamlfile import Document, Secret, Vault
from stoker.config.templating import template
from stoker.errors import Problem

Path = tuple[str | int, ...]
"""Keys and indices from the root of the file."""


class Values:
    """One file's values, and what is wrong with them.

    Args:
        document: The file.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def note(self, at: Path, what: str, hint: str = "", *, key: bool = False) -> None:
        """A mistake at a value, or at its key."""
        self.problems.append(self.document.problem(at, what, hint, key=key))

    def odd_keys(self, at: Path) -> None:
        """Note the keys of a mapping that YAML did not read as text."""
        self.problems += self.document.odd_keys(at)

    def value(self, at: Path, value: Any, *, vaults: bool = False) -> Any:
        """Any value, as it is; templates that cannot be read, secrets and vaults in it are noted.

        Args:
            at: Its place.
            value: The value.
            vaults: Whether what Ansible Vault encrypted may stand there.
        """
        if isinstance(value, dict):
            for name, item in value.items():
                self.value((*at, name), item, vaults=vaults)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.value((*at, index), item, vaults=vaults)
        elif isinstance(value, Secret):
            self.note(at, "!secret cannot stand in a playbook", "it belongs into a profile's env or api_key")
        elif isinstance(value, Vault) and not vaults:
            hint = "make it a variable, and pass that by environment or stdin of a command"
            self.note(at, "!vault cannot stand here", hint)
        elif isinstance(value, str) and template.has_template(value):
            self._check(at, value)
        return value

    def exact(self, at: Path, value: Any) -> Any:
        """Scalars as they are written: ``no`` and ``1.10`` are texts where texts are meant."""
        if isinstance(value, list):
            return [self.exact((*at, index), item) for index, item in enumerate(value)]
        if value is None or isinstance(value, str | dict | Vault):
            return value
        text = self.document.text(at)
        return value if text is None else text

    def mapping(self, at: Path, value: Any, what: str) -> dict[Any, Any]:
        """A mapping; an empty one where nothing stands, or something else, which is noted."""
        if isinstance(value, dict):
            return value
        if value is not None:
            self.note(at, f"{what} is a mapping, here is {kind(value)}", "write NAME: VALUE")
        return {}

    def text(self, at: Path, value: Any) -> str:
        """A text; empty where there is none."""
        if value is None:
            return ""
        if isinstance(value, list | dict):
            self.note(at, f"{at[-1]} is a text, here is {kind(value)}")
            return ""
        return str(self.value(at, self.exact(at, value)))

    def texts(self, at: Path, value: Any) -> tuple[str, ...]:
        """One text or a list of them."""
        several = isinstance(value, list)
        found = []
        for index, item in enumerate(value if several else [value]):
            place = (*at, index) if several else at
            written = self.exact(place, item)
            if isinstance(written, str) and written.strip():
                found.append(self.value(place, written))
            else:
                self.note(place, f"{at[-1]} takes names, here is {kind(item)}")
        return tuple(found)

    def tags(self, at: Path, value: Any) -> tuple[str, ...]:
        """Tags in a list, or in a text with commas."""
        parts = (part.strip() for text in self.texts(at, value) for part in text.split(","))
        return tuple(part for part in parts if part)

    def truth(self, at: Path, value: Any) -> bool | str:
        """A truth value, or a template of one."""
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and template.has_template(value):
            return str(self.value(at, value))
        self.note(at, f"true or false is expected, here is {kind(value)}")
        return False

    def seconds(self, at: Path, value: Any, unit: str = "seconds") -> Any:
        """Seconds, or another number from 0, or a template of it; None for no limit."""
        if value is None or (isinstance(value, str) and template.has_template(value)):
            return self.value(at, value)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            self.note(at, f"{at[-1]} takes {unit}, here is {kind(value)}")
        return value

    def whole(self, at: Path, value: Any) -> Any:
        """A whole number from 0, or a template of one."""
        if isinstance(value, str) and template.has_template(value):
            return self.value(at, value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.note(at, f"{at[-1]} takes a whole number, here is {kind(value)}")
        return value

    def share(self, at: Path, value: Any) -> Any:
        """A number of hosts, a percentage of them, or a template of either."""
        if isinstance(value, str) and template.has_template(value):
            return self.value(at, value)
        if isinstance(value, str) and value.removesuffix("%").strip().isdecimal():
            return value.strip()
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            hint = "write 2, or 30%"
            self.note(at, f"serial takes a number of hosts or a percentage, here is {kind(value)}", hint)
        return value

    def variable(self, at: Path, name: Any, *, key: bool = False) -> str:
        """The name of a variable that the book sets."""
        good = (
            isinstance(name, str) and name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
        )
        if not good:
            hint = "letters, digits and _, no digit first"
            self.note(at, f"{name!r} cannot be the name of a variable", hint, key=key)
        elif name in words.OWN_NAMES:
            self.note(at, f"{name} is a variable that Stoker sets", "take another name", key=key)
        return str(name)

    def variables(self, at: Path, value: Any, what: str) -> dict[str, Any]:
        """A mapping of variables."""
        given = self.mapping(at, value, what)
        self.odd_keys(at)
        return {
            self.variable((*at, name), name, key=True): self.value((*at, name), item, vaults=True)
            for name, item in given.items()
            if isinstance(name, str)
        }

    def conditions(self, at: Path, value: Any) -> Conditions:
        """One expression or a list of them."""
        if not isinstance(value, list):
            return (value,) if self.expression(at, value) else ()
        return tuple(item for index, item in enumerate(value) if self.expression((*at, index), item))

    def expression(self, at: Path, value: Any) -> bool:
        """Whether a value is an expression or a truth value; what is wrong with it is noted."""
        if isinstance(value, bool):
            return True
        if not isinstance(value, str) or not value.strip():
            self.note(at, f"an expression is expected, here is {kind(value)}", "e.g. result.rc == 0")
            return False
        if template.has_template(value):
            bare = _without_braces(value)
            self.note(at, "an expression is written without {{ }}", f"write {bare}" if bare else "")
            return False
        return self._check(at, "{{ " + value + " }}")

    def _check(self, at: Path, text: str) -> bool:
        """Whether a text's template can be read; what is wrong with it is noted."""
        try:
            template.check(text, where=self.document.file)
        except template.BadTemplate as error:
            self.note(at, error.what, error.hint)
            return False
        return True


def kind(value: Any) -> str:
    """What a value is, for people."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "nothing" if value is None or value == "" else repr(yamlfile.in_yaml(value))[:60]


def _without_braces(text: str) -> str:
    """What stands between one pair of braces; empty where the text is more than that."""
    inner = text.strip()
    if not (inner.startswith("{{") and inner.endswith("}}")) or template.has_template(inner[2:]):
        return ""
    return inner[2:-2].strip()
