"""Plain data as YAML that people review: block style, one key a line, texts in quotes, plain lists inline.

Reading is ``stoker.config.yamlfile``'s; this is the other direction. Any YAML reader finds the same values.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

from stoker.errors import InputError


def dumps(data: Mapping[str, object]) -> str:
    """One document.

    Args:
        data: Dicts with text keys, lists, tuples, texts, finite numbers, booleans, None.

    Raises:
        InputError: A value of another kind.
    """
    return "".join(f"{line}\n" for line in _mapping(data, ""))


def _mapping(data: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{indent}{_key(key)}:", value, indent + "  ")


def _entry(head: str, value: object, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield head
        yield from _mapping(value, indent)
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        yield head
        for item in value:
            yield from _item(item, indent)
    else:
        yield f"{head} {_inline(value)}"


def _item(value: object, indent: str) -> Iterator[str]:
    """A list's item: its first line behind the dash."""
    if isinstance(value, Mapping) and value:
        lines = _mapping(value, indent + "  ")
        yield f"{indent}- {next(lines).lstrip(' ')}"
        yield from lines
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        yield f"{indent}-"
        for item in value:
            yield from _item(item, indent + "  ")
    else:
        yield f"{indent}- {_inline(value)}"


def _inline(value: object) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    if isinstance(value, Mapping) and not value:
        return "{}"
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
