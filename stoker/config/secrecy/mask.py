"""Secrets out of a text that is about to be shown or written here: the last door."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "***"
LEAST = 4
"""A shorter value hides nothing, and masking it would tear every text."""


class Mask:
    """Knows some secrets in the forms in which programs print them.

    Args:
        secrets: Their values.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for value in secrets for form in _forms(value) if len(form) >= LEAST}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._any = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def text(self, text: str) -> str:
        """The text without them."""
        return text if self._any is None else self._any.sub(MASK, text)

    def tree(self, value: Any) -> Any:
        """The same for every text in lists and mappings, their keys included."""
        if self._any is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.tree(key): self.tree(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(item) for item in value]
        return value


def _forms(value: str) -> set[str]:
    """A value as it is, and as programs write it: escaped, quoted, URL-encoded, in base64 and hexadecimal."""
    if len(value) < LEAST:
        return set()
    raw = value.encode("utf-8", "surrogateescape")
    forms = {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    from html import escape  # its table of entities is large, and most commands hide nothing

    forms |= {shlex.quote(value), escape(value), quote(raw, safe=""), quote(raw), quote_plus(raw)}
    forms |= {line.strip() for line in value.splitlines() if len(line.strip()) >= 2 * LEAST}
    forms |= {raw.hex(), raw.hex().upper()}
    for shift in range(3):  # base64 of a text that holds it reads otherwise at each of three places
        inner = base64.b64encode(b"\0" * shift + raw).decode().rstrip("=")
        # What its first and last signs are depends on its neighbours.
        kept = inner[(0, 2, 3)[shift] : len(inner) - (0 if (len(raw) + shift) % 3 == 0 else 1)]
        forms |= {kept, kept.replace("+", "-").replace("/", "_")} if len(kept) >= 2 * LEAST else set()
    return forms
