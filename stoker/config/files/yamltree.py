"""From the YAML parser's events to values with their places, in one pass.

Not PyYAML's own composer and constructor: those recurse, keep no places of keys, let the last of two equal
keys win, and multiply what merge keys repeat. Here depth and repetition are bounded while reading, and every
mistake in the values of a file is collected. What a scalar means is still PyYAML's to say (SafeConstructor,
YAML 1.1).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from stoker.config.files import yamlsyntax
from stoker.errors import ConfigError, Problem

MAX_DEPTH = 100
MAX_REPEATED = 1_000_000
"""Values that aliases and merge keys may repeat in one file."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, where PyYAML was built with it

_TAG = "tag:yaml.org,2002:"
_MERGE = _TAG + "merge"
_SCALARS = {  # tag → its name for people
    _TAG + "null": "null",
    _TAG + "bool": "boolean",
    _TAG + "int": "number",
    _TAG + "float": "number",
    _TAG + "timestamp": "date",
    _TAG + "binary": "base64 text",
    _TAG + "str": "text",
}


@dataclass(frozen=True)
class Secret:
    """``!secret NAME``: a value that stands elsewhere, named here."""

    name: str


@dataclass(frozen=True)
class Vault:
    """``!vault``: a value encrypted by Ansible Vault.

    Args:
        text: As ``ansible-vault`` writes it.
        path: Where in the encrypted file of variables the value stands; empty where all of it is the value.
    """

    text: str = field(repr=False)
    path: tuple[str | int, ...] = ()


@dataclass(slots=True)
class Node:
    """A value with its place; ``line`` and ``column`` count from 1."""

    value: Any
    line: int
    column: int
    text: str | None = None
    entries: dict[Hashable, tuple[Node, Node]] | None = None
    items: list[Node] | None = None
    size: int = 1
    is_merge_key: bool = False
    is_open: bool = False


def build(text: str, shown: str) -> Node | None:
    """The root of the one document in a text; None where it holds none.

    Raises:
        ConfigError: See ``yamlfile.loads``.
    """
    builder = _Builder(shown)
    try:
        loader = _Loader(text)
        try:
            while (event := loader.get_event()) is not None:
                builder.take(loader, event)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        builder.problems.append(yamlsyntax.explain(text, shown, error))
    except (ValueError, OverflowError):  # the parser in Python takes "\U00200000" for a character
        what = "an escape that is no character of Unicode"
        builder.problems.append(Problem(shown, 0, what, "up to \\U0010FFFF"))
    except _StopReading:
        pass
    if builder.problems:
        raise ConfigError(builder.problems)
    return builder.root


class _StopReading(Exception):
    """Nothing sensible can be read after this."""


@dataclass(slots=True)
class _Frame:
    """A collection whose end has not been seen yet."""

    node: Node
    key: Node | None = None
    merges: list[Node] = field(default_factory=list)


class _Builder:
    """Builds values and places from the parser's events."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self._documents = 0
        self._repeated = 0
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Node] = {}
        self._plain: dict[str, tuple[Any, bool]] = {}  # plain scalars seen: text → (value, is it <<)

    def take(self, loader: Any, event: Any) -> None:
        """Take the next event."""
        if isinstance(event, yaml.ScalarEvent):
            self._add(self._scalar(loader, event), event.anchor)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop(event, "a second document begins here", "one document a file")

    def _note(self, node: Node, what: str, hint: str = "") -> None:
        self.problems.append(Problem(self.shown, node.line, what, hint, node.column))

    def _stop(self, event: Any, what: str, hint: str = "") -> None:
        mark = event.start_mark
        self.problems.append(Problem(self.shown, mark.line + 1, what, hint, mark.column + 1))
        raise _StopReading

    def _begin(self, event: Any) -> None:
        if len(self._stack) >= MAX_DEPTH:
            self._stop(event, f"nested deeper than {MAX_DEPTH} levels")
        mark = event.start_mark
        node = Node(None, mark.line + 1, mark.column + 1, is_open=True)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if is_mapping:
            node.value, node.entries = {}, {}
        else:
            node.value, node.items = [], []
        if event.tag not in (None, "!", _TAG + ("map" if is_mapping else "seq")):
            self._note(node, f"the tag {_shown_tag(event.tag)} is not known on a {_kind(node)}")
        self._anchor(node, event.anchor)
        self._stack.append(_Frame(node))

    def _end(self) -> None:
        frame = self._stack.pop()
        node = frame.node
        node.is_open = False
        if frame.merges and node.entries is not None:
            merged: dict[Hashable, tuple[Node, Node]] = {}
            for source in frame.merges:
                merged.update(source.entries or {})
            merged.update(node.entries)
            node.entries = merged
        if node.entries is not None:
            node.value.update((key, value.value) for key, (_, value) in node.entries.items())
        self._add(node, None)

    def _alias(self, event: Any) -> None:
        target = self._anchors.get(event.anchor)
        if target is None:
            hint = "write &NAME at the value that it repeats"
            self._stop(event, f"*{event.anchor} refers to nothing before it", hint)
        elif target.is_open:
            self._stop(event, f"*{event.anchor} contains itself")
        else:
            self._charge(event, target.size)
            mark = event.start_mark
            self._add(replace(target, line=mark.line + 1, column=mark.column + 1), None)

    def _anchor(self, node: Node, name: str | None) -> None:
        if name is None:
            return
        first = self._anchors.setdefault(name, node)
        if first is not node:
            self._note(node, f"the anchor &{name} is here twice, first on line {first.line}")

    def _charge(self, event: Any, size: int) -> None:
        self._repeated += size
        if self._repeated > MAX_REPEATED:
            self._stop(event, f"aliases repeat more than {MAX_REPEATED} values", "write the values out")

    def _scalar(self, loader: Any, event: Any) -> Node:
        mark, text = event.start_mark, event.value
        node = Node(text, mark.line + 1, mark.column + 1, text)
        plain = event.tag is None and event.implicit[0]
        if plain and text in self._plain:
            node.value, node.is_merge_key = self._plain[text]
            return node
        tag = loader.resolve(yaml.ScalarNode, text, event.implicit) if event.tag in (None, "!") else event.tag
        if not self._understand(loader, event, tag, node):
            return node
        if plain:
            self._plain[text] = (node.value, node.is_merge_key)
        return node

    def _understand(self, loader: Any, event: Any, tag: str, node: Node) -> bool:
        """Give a scalar its value; False where it has none, which is noted."""
        text = event.value
        if tag == _MERGE:
            node.is_merge_key = True
        elif tag == "!secret" and text.strip():
            node.value = Secret(text.strip())
        elif tag == "!vault":
            node.value = Vault(text)
        elif tag == _TAG + "str":
            pass
        elif tag in _SCALARS:
            return self._convert(loader, event, tag, node)
        else:
            self._note(node, *_tag_mistake(tag))
            return False
        return True

    def _convert(self, loader: Any, event: Any, tag: str, node: Node) -> bool:
        scalar = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        try:
            node.value = loader.yaml_constructors[tag](loader, scalar)
        except (ValueError, LookupError, AttributeError, OverflowError, yaml.YAMLError):
            # SafeConstructor trusts the resolver's patterns and explicit tags; so does it fail on a text
            # that only looks like its kind (2024-02-30, 0x_, !!int x, !!bool x, !!timestamp x).
            # The value itself stays out of the message: it may be a password.
            what = f"this value looks like a {_SCALARS[tag]} and is none"
            self._note(node, what, "quote it if a text is meant")
            return False
        return True

    def _add(self, node: Node, anchor: str | None) -> None:
        self._anchor(node, anchor)
        frame = self._stack[-1] if self._stack else None
        if node.is_merge_key and (frame is None or frame.node.entries is None or frame.key is not None):
            self._note(node, "<< is a key that merges mappings, and no value", 'quote it: "<<"')
        if frame is None:
            self.root = node
            return
        parent = frame.node
        parent.size += node.size
        if parent.items is not None:
            parent.items.append(node)
            parent.value.append(node.value)
        elif frame.key is None:
            frame.key = node
        else:
            key, frame.key = frame.key, None
            self._entry(frame, key, node)

    def _entry(self, frame: _Frame, key: Node, node: Node) -> None:
        entries = frame.node.entries
        if entries is None:
            return
        if key.text is None:
            braces = key.line == frame.node.line and key.column == frame.node.column + 1 and node.text == ""
            hint = 'quote a template: "{{ … }}"' if braces and key.entries is not None else ""
            self._note(key, f"a key must be a word, here it is a {_kind(key)}", hint)
        elif key.is_merge_key:
            self._merge(frame, key, node)
        elif (pair := entries.get(key.value)) is not None:
            first = pair[0]
            as_written = "" if first.text == key.text else f" as {_cut(first.text or '')}"
            self._note(key, f"the key {_cut(key.text)} is here twice, first on line {first.line}{as_written}")
        else:
            entries[key.value] = (key, node)

    def _merge(self, frame: _Frame, key: Node, node: Node) -> None:
        if frame.merges:
            self._note(key, "a second << in one mapping", "merge several at once: <<: [*a, *b]")
            return
        sources = node.items if node.items is not None else [node]
        bad = next((source for source in sources if source.entries is None), None)
        if bad is not None:
            self._note(bad, f"<< merges mappings, here stands a {_kind(bad)}", "write <<: *NAME")
            return
        frame.merges = sources[::-1]  # the first of a list wins


def _kind(node: Node) -> str:
    if node.entries is not None:
        return "mapping"
    return "list" if node.items is not None else "single value"


def _tag_mistake(tag: str) -> tuple[str, str]:
    """What is wrong with a scalar's tag, and the hint."""
    if tag == "!secret":
        return "!secret names no secret", "write !secret NAME"
    if tag == _TAG + "value":
        return "a lone = has no value", 'quote it: "="'
    return f"the tag {_shown_tag(tag)} is not known", "known: !secret, !vault"


def _shown_tag(tag: str) -> str:
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


def _cut(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
