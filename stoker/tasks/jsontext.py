"""The document of ``--json`` as text: what is short stands on one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_LINE = 100
_INDENT = "  "
_scalar = json.JSONEncoder(default=str).encode


def text(value: Any, margin: str = "") -> str:
    """A value as JSON; what is no JSON type is its own text.

    The standard library's own indentation takes four times as long, which is seconds for thousands of hosts.

    Args:
        value: Anything.
        margin: What its further lines begin with.
    """
    inner = margin + _INDENT
    if isinstance(value, dict):
        parts = [f"{_key(key)}: {text(item, inner)}" for key, item in value.items()]
        return _joined(parts, "{", "}", margin)
    if isinstance(value, list | tuple):
        return _joined([text(item, inner) for item in value], "[", "]", margin)
    return _scalar(value)


def _key(key: Any) -> str:
    return _scalar(key if isinstance(key, str) else next(iter(json.loads(json.dumps({key: 0})))))


def _joined(parts: Sequence[str], opening: str, closing: str, margin: str) -> str:
    if sum(map(len, parts)) + 2 * len(parts) + len(margin) <= _LINE and not any("\n" in one for one in parts):
        return opening + ", ".join(parts) + closing
    lines = f",\n{margin}{_INDENT}".join(parts)
    return f"{opening}\n{margin}{_INDENT}{lines}\n{margin}{closing}"
