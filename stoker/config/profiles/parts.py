"""Profile files as trees whose values know where they were written: merged, and still told as file:line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.config.files.yamlfile import Document, Secret, Vault
from stoker.config.profiles.kinds import SecretRef
from stoker.config.secrecy.vault import BY_VARIABLE
from stoker.config.templating import template
from stoker.errors import Problem

Path = tuple[str | int, ...]

_ONE_VARIABLE = re.compile(r"\s*\{\{\s*([A-Za-z_]\w*)\s*\}\}\s*")


@dataclass(frozen=True)
class Part:
    """A value, and where it was written.

    Args:
        document: The file.
        at: Keys and indices from the file's root.
        value: What YAML makes of a scalar; None for null and for what follows.
        entries: Of a mapping, its values.
        items: Of a list, its values.
        over: What it replaced in a file that this one extends; None where nothing.
    """

    document: Document
    at: Path
    value: Any = None
    entries: Mapping[str, Part] | None = None
    items: tuple[Part, ...] | None = None
    over: Part | None = None

    @property
    def is_null(self) -> bool:
        """Whether ``null`` is written here."""
        return self.value is None and self.entries is None and self.items is None

    @property
    def written(self) -> str:
        """A scalar exactly as it was written."""
        return self.document.text(self.at) or ""

    @property
    def place(self) -> str:
        """``file:line``."""
        return f"{self.document.file}:{self.document.line(self.at)}"


def of(document: Document, at: Path = (), value: Any = None) -> Part:
    """The tree of a document, or of a value in it."""
    value = document.data if not at else value
    if isinstance(value, dict):
        return Part(
            document, at, entries={str(key): of(document, (*at, key), item) for key, item in value.items()}
        )
    if isinstance(value, list):
        return Part(document, at, items=tuple(of(document, (*at, i), item) for i, item in enumerate(value)))
    return Part(document, at, value)


def odd_keys(document: Document, at: Path = (), value: Any = None) -> Iterator[Problem]:
    """A problem for each key that YAML did not read as text (``NO`` is False)."""
    value = document.data if not at else value
    if isinstance(value, dict):
        yield from document.odd_keys(at)
        for key, item in value.items():
            yield from odd_keys(document, (*at, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from odd_keys(document, (*at, index), item)


def merge(below: Part, above: Part) -> Part:
    """``above`` over ``below``: mappings key by key, anything else replaces, also ``null``."""
    if below.entries is None or above.entries is None:
        return replace(above, over=below)
    merged = dict(below.entries)
    for key, part in above.entries.items():
        merged[key] = merge(merged[key], part) if key in merged else part
    return Part(above.document, above.at, entries=merged)


def find(root: Part, path: Path) -> Part:
    """The part at a path; where there is none, its nearest ancestor."""
    part = root
    for step in path:
        if part.entries is not None and step in part.entries:
            part = part.entries[str(step)]
        elif part.items is not None and isinstance(step, int) and step < len(part.items):
            part = part.items[step]
        else:
            break
    return part


@dataclass
class Reader:
    """Renders a merged tree on one host and makes plain data of it, noting what cannot be rendered.

    Args:
        variables: The host's.
        host: Its name, for the messages; empty where they are told without it.
        somewhere: The profile is read for no host: what is not defined here may be defined on one.
        problems: What was wrong.
        failed: Where it was wrong: nothing more can be said about these.
        undefined: Where ``somewhere``, the values that need a variable, with its name.
    """

    variables: Mapping[str, Any]
    host: str
    somewhere: bool = False
    problems: list[Problem] = field(default_factory=list)
    failed: list[Path] = field(default_factory=list)
    undefined: list[tuple[Part, str]] = field(default_factory=list)

    def read(self, part: Part, path: Path = ()) -> Any:
        """Plain data: without what is ``null``, scalars as the text that was written."""
        if part.entries is not None:
            entries = part.entries.items()
            return {key: self.read(item, (*path, key)) for key, item in entries if not item.is_null}
        if part.items is not None:
            return [self.read(item, (*path, index)) for index, item in enumerate(part.items)]
        return self._scalar(part, path)

    def _scalar(self, part: Part, path: Path) -> Any:
        if part.value is None:
            return None
        if isinstance(part.value, Secret):
            return SecretRef(part.value.name, part.place)
        if isinstance(part.value, Vault):
            hint = "write it as a variable of the inventory, and here '{{ NAME }}'"
            return self._note(part, path, "!vault cannot stand in a profile", hint)
        try:
            return self._rendered(part, path)
        except template.BadTemplate as error:
            if not error.name:
                return self._note(part, path, error.what, error.hint)
            if self.somewhere:
                self.undefined.append((part, error.name))
                self.failed.append(path)
                return None
            hint = error.hint if "did you mean" in error.hint else "define it in the inventory"
            told = f" for host {self.host}" if self.host else ""
            return self._note(part, path, f"{error.what}{told}", hint)

    def _rendered(self, part: Part, path: Path) -> Any:
        if (path[0] == "env" or path == ("server", "api_key")) and (found := self._secret(part)) is not None:
            return found
        if path[0] in ("env", "expect"):
            return template.render_exact(part.written, self.variables, where=part.place)
        if path[:2] == ("server", "args"):
            return self._argument(part, path)
        return template.render(part.written, self.variables, where=part.place)

    def _secret(self, part: Part) -> SecretRef | None:
        """The secret that a value is which names one variable and nothing else; None where it is none."""
        text, seen = part.written, set[str]()
        while (match := _ONE_VARIABLE.fullmatch(text)) is not None and match[1] not in seen:
            seen.add(match[1])
            value = self.variables.get(match[1])
            if isinstance(value, Secret):
                return SecretRef(value.name, part.place)
            if isinstance(value, Vault):
                return SecretRef(BY_VARIABLE + match[1], part.place)
            text = value if isinstance(value, str) else ""
        return None

    def _argument(self, part: Part, path: Path) -> Any:
        """A flag is written ``true`` or ``false``: ``on`` and ``NO`` are values like any other."""
        in_mapping = any(isinstance(step, str) for step in path[3:])
        is_flag = (
            isinstance(part.value, bool) and part.written.lower() in ("true", "false") and len(path) == 3
        )
        if is_flag or (in_mapping and isinstance(part.value, bool | int | float)):
            return part.value
        return template.render(part.written, self.variables, where=part.place)

    def _note(self, part: Part, path: Path, what: str, hint: str) -> None:
        self.problems.append(part.document.problem(part.at, what, hint))
        self.failed.append(path)
