"""Plain data as YAML that people review: one key a line, an item of a list on one line, texts in quotes.

Reading is ``stoker.config.files.yamlfile``'s; this is the other direction. Any YAML reader finds the same
values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from stoker.errors import InputError


def dumps(data: Mapping[str, object], packed: Collection[str] = ()) -> str:
    """One document.

    Args:
        data: Dicts with text keys, lists, tuples, texts, finite numbers, booleans, None.
        packed: Keys whose mappings nobody reads name by name: several on a line.

    Raises:
        InputError: A value of another kind.
    """
    return "".join(f"{line}\n" for line in _mapping(data, "", packed))


def _mapping(data: Mapping[str, object], indent: str, packed: Collection[str]) -> Iterator[str]:
    for key, value in data.items():
        head, inner = f"{indent}{_key(key)}:", indent + "  "
        if isinstance(value, Mapping) and value and key in packed:
            yield from _filled(f"{head} {{", [_pair(*pair) for pair in value.items()], inner)
        elif isinstance(value, Mapping) and value:
            yield head
            yield from _mapping(value, inner, packed)
        elif isinstance(value, list | tuple) and any(
            isinstance(item, Mapping | list | tuple) for item in value
        ):
            yield head
            yield from (f"{inner}- {_inline(item)}" for item in value)
        else:
            yield f"{head} {_inline(value)}"


def _filled(line: str, texts: Sequence[str], indent: str) -> Iterator[str]:
    """Lines as full as they may be, the first begun."""
    for number, text in enumerate(texts):
        if number and len(line) + len(text) > _COLUMNS:
            yield line.rstrip()
            line = indent
        line += text + ("}" if number == len(texts) - 1 else ", ")
    yield line


def _pair(key: object, value: object) -> str:
    return f"{_key(key)}: {_inline(value)}"


def _inline(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(_pair(*pair) for pair in value.items()) + "}"
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float) and math.isfinite(value):
        # YAML 1.1 reads a float only with a point: 1e-05 would be a text.
        text = repr(value)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")
    if isinstance(value, str):
        return _quoted(value)
    raise InputError(f"{value!r} cannot be written as YAML")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InputError(f"{key!r} cannot be a key")
    plain = key.replace("_", "a").replace("-", "a").isalnum() and key.isascii() and key[0].isalpha()
    return key if plain and key.lower() not in _WORDS else _quoted(key)


_COLUMNS = 100
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def _quoted(text: str) -> str:
    """A double-quoted text; what does not print is escaped."""
    signs = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(signs.get(c) or (c if c.isprintable() else _escaped(c)) for c in text) + '"'


def _escaped(sign: str) -> str:
    code = ord(sign)
    if 0xD800 <= code <= 0xDFFF:
        return "\\uFFFD"  # half a surrogate pair stands for a byte that was no UTF-8
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
