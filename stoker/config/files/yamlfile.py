"""YAML files: plain Python values, and for each of them where it stands and how it was written."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from stoker.config.files import textfile
from stoker.config.files.textfile import MAX_BYTES
from stoker.config.files.yamltree import Node, Secret, Vault, build
from stoker.errors import ConfigError, Problem

__all__ = ["MAX_BYTES", "Document", "Secret", "Vault", "in_yaml", "load", "loads", "read_as"]

_Path = Sequence[str | int]
# Of YAML's flow style; no text that people write comes near.
_BRACKETS = 600


@dataclass(frozen=True)
class Document:
    """One YAML document.

    Args:
        file: The file as shown to people.
        data: Dicts, lists, strings, numbers, booleans, None, dates, bytes, ``Secret`` and ``Vault``; None
            where the file holds nothing. Aliases share their value: do not change it.
    """

    file: str
    data: Any
    _root: Node | None = field(default=None, repr=False, compare=False)

    def line(self, path: _Path, *, key: bool = False) -> int:
        """The 1-based line of a value.

        Args:
            path: Keys and indices from the root; where it leads nowhere, its nearest ancestor is meant.
            key: Of the value's key instead.
        """
        return self._place(path, key)[0]

    def column(self, path: _Path, *, key: bool = False) -> int:
        """The 1-based column of a value, or of its key."""
        return self._place(path, key)[1]

    def text(self, path: _Path, *, key: bool = False) -> str | None:
        """A scalar exactly as written (``NO``, ``0644``, ``1.10``), a quoted one without its quotes.

        Args:
            path: Keys and indices from the root.
            key: Of the value's key instead.

        Returns:
            None for a mapping, a list, and where there is nothing.
        """
        pair, complete = self._find(path)
        node = pair[0 if key else 1]
        return node.text if node is not None and complete else None

    def problem(self, path: _Path, what: str, hint: str = "", *, key: bool = False) -> Problem:
        """A mistake at a value, or at its key."""
        line, column = self._place(path, key)
        return Problem(self.file, line, what, hint, column)

    def odd_keys(self, path: _Path = ()) -> tuple[Problem, ...]:
        """A problem for each key of the mapping at ``path`` that is no string; empty where all are."""
        (_, node), complete = self._find(path)
        entries = node.entries if node is not None and complete else None
        odd = [(value, key) for value, (key, _) in (entries or {}).items() if not isinstance(value, str)]
        return tuple(
            Problem(self.file, key.line, f"the key {read_as(key.text, value)}", "quote it", key.column)
            for value, key in odd
        )

    def _place(self, path: _Path, key: bool) -> tuple[int, int]:
        (key_node, node), complete = self._find(path)
        if not path or node is None or node is self._root:
            return 1, 1
        chosen = key_node if key and complete and key_node is not None else node
        return chosen.line, chosen.column

    def _find(self, path: _Path) -> tuple[tuple[Node | None, Node | None], bool]:
        """The (key, value) at ``path``, or of its nearest ancestor and False."""
        pair: tuple[Node | None, Node | None] = (None, self._root)
        for step in path:
            node = pair[1]
            if node is not None and node.entries is not None and step in node.entries:
                pair = node.entries[step]
            elif node is not None and node.items is not None and _is_index(step, node.items):
                pair = (None, node.items[int(step)])
            else:
                return pair, False
        return pair, True


def load(path: Path, *, shown: str | None = None) -> Document:
    """Read a YAML file, or a JSON file where the name ends with ``.json``.

    Args:
        path: The file.
        shown: The file as shown to people; ``path`` itself where not given.

    Raises:
        ConfigError: Unreadable, too large, not UTF-8, or any mistake that ``loads`` reports.
    """
    name = str(path) if shown is None else shown
    text = textfile.read(path, name)
    return _load_json(text, name) if path.suffix == ".json" else loads(text, name)


def _load_json(text: str, shown: str) -> Document:
    """JSON is YAML but for tabs, and numbers such as 1e3: places come from YAML, values from JSON."""
    document = loads(text.replace("\t", " "), shown)
    try:
        return replace(document, data=json.loads(text))
    except ValueError:  # YAML in a .json file, which Ansible reads as well
        return document


def loads(text: str, shown: str) -> Document:
    """Read YAML from a text.

    Args:
        text: At most one YAML document.
        shown: What the text is called in messages.

    Raises:
        ConfigError: All duplicate keys, unknown tags, keys that are no scalars and scalars that are no value
            (``2024-02-30``); and a syntax error, an endless or runaway alias, a second document, or a nesting
            deeper than 100, after which nothing more is read.
    """
    _refuse_depth(text, shown)
    root = build(text, shown)
    return Document(shown, None if root is None else root.value, root)


def _refuse_depth(text: str, shown: str) -> None:
    """A thousand open brackets: PyYAML's time for them grows with more than the square of their number."""
    if text.count("[") + text.count("{") < _BRACKETS:
        return
    line, depth = 1, 0
    for sign in re.finditer(r"[\[\]{}\n]", text):
        line += sign[0] == "\n"
        depth += (sign[0] in "[{") - (sign[0] in "]}")
        if depth >= _BRACKETS:
            raise ConfigError([Problem(shown, line, f"{_BRACKETS} brackets are open here: nested too deep")])


def _is_index(step: object, items: list[Node]) -> bool:
    return isinstance(step, int) and not isinstance(step, bool) and 0 <= step < len(items)


def in_yaml(value: object) -> str:
    """A scalar's value in YAML's words: ``false``, not ``False``."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_as(text: str | None, value: object) -> str:
    """How a scalar came to its value: ``no was read as false``, ``0644 was read as 420 (octal)``.

    Args:
        text: As written; None where that is not known.
        value: What it was read as.
    """
    if isinstance(value, date):
        return f"{text or 'it'} was read as a date"
    if not text or text == in_yaml(value):
        kind = (
            "a number" if isinstance(value, int | float) and not isinstance(value, bool) else in_yaml(value)
        )
        return f"{text or 'an empty value'} was read as {kind}"
    return f"{text} was read as {in_yaml(value)}{_base(text, value)}"


def _base(text: str, value: object) -> str:
    digits = text.lstrip("+-").replace("_", "").lower()
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if ":" in digits:
        return " (base 60)"
    if digits.startswith(("0x", "0b")):
        return " (hexadecimal)" if digits[1] == "x" else " (binary)"
    return " (octal)" if len(digits) > 1 and digits[0] == "0" and digits.isdigit() else ""
