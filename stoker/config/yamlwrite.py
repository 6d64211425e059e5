"""Values as YAML that people review and that a profile reads back as exactly these texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from stoker.config.files import yamlfile
from stoker.config.templating import template
from stoker.errors import ConfigError

# Texts without need of quotes: words and paths that no reader of YAML takes for anything else; whole numbers.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./+-]*|0|[1-9][0-9]{0,14}")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "inf", "nan"))
_SIGNS = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_COMMENT_CHARS = 108


def text(value: str) -> str:
    """A text as a scalar: what Jinja would take for a template is written so that it gives the text back.

    Raises:
        ValueError: Half a surrogate pair: no YAML can hold it.
    """
    if template.has_template(value):
        return quoted(_literal(value))
    is_plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if is_plain else quoted(value)


def quoted(value: str) -> str:
    """A double-quoted scalar; what does not print is escaped.

    Raises:
        ValueError: Half a surrogate pair.
    """
    return '"' + "".join(_SIGNS.get(c) or (c if c.isprintable() else _escaped(c)) for c in value) + '"'


def key(name: str) -> str:
    """A mapping's key."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", name) and name.lower() not in _WORDS
    return name if is_plain else quoted(name)


def inline(values: Sequence[str | int]) -> str:
    """A list on one line."""
    return "[" + ", ".join(str(v) if isinstance(v, int) else text(v) for v in values) + "]"


def listed(name: str, values: Sequence[str | int], indent: str) -> Iterator[str]:
    """A list under its key: on one line where that is short, else an item a line."""
    line = f"{indent}{name}: {inline(values)}"
    if len(line) <= _COMMENT_CHARS or len(values) < 2:
        yield line
    else:
        yield f"{indent}{name}:"
        yield from (f"{indent}  - {value if isinstance(value, int) else text(value)}" for value in values)


def mapping(value: dict[str, Any]) -> str | None:
    """A JSON object on one line; None where a profile would not read exactly this object back."""
    written = json.dumps(value, ensure_ascii=True)
    if "null" in written or template.has_template(written) or "\\ud" in written.lower():
        return None
    try:
        data = yamlfile.loads(f"x: {written}\n", shown="x").data
    except ConfigError:
        return None
    is_same = data["x"] == value and json.dumps(data["x"]) == json.dumps(value)
    return written if is_same else None


def comment(words: str, indent: str = "") -> Iterator[str]:
    """Lines of a comment, broken at blanks, without control characters."""
    clean = "".join(c if c.isprintable() else " " for c in words)
    line = f"{indent}#"
    for word in clean.split():
        if len(line) + 1 + len(word) > _COMMENT_CHARS and line != f"{indent}#":
            yield line
            line = f"{indent}#  "
        line += f" {word}"
    yield line


def _literal(value: str) -> str:
    """A Jinja expression that gives the text, whatever marks are in it."""
    return "{{ '" + "".join(map(_in_literal, value)) + "' }}"


def _in_literal(sign: str) -> str:
    if sign in "\\'":
        return "\\" + sign
    if sign in _SIGNS:
        return sign if sign == '"' else _SIGNS[sign]
    if " " <= sign <= "~":
        return sign
    code = ord(sign)
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError("half a surrogate pair")
    return f"\\U{code:08x}"


def _escaped(sign: str) -> str:
    code = ord(sign)
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError("half a surrogate pair")
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
