"""What the fields of a type mean, out of the ``Args:`` of its docstring: told once."""

from __future__ import annotations

import inspect
import re


def of(kind: type) -> dict[str, str]:
    """Meaning by name, in one line each, in Markdown.

    Args:
        kind: A class with an ``Args:`` section.
    """
    found: dict[str, str] = {}
    name = ""
    for line in (inspect.getdoc(kind) or "").partition("Args:\n")[2].splitlines():
        begins = re.fullmatch(r"    (\w+): (.*)", line)
        if begins:
            name = begins.group(1)
            found[name] = begins.group(2)
        elif name:
            found[name] += " " + line.strip()
    return {name: meaning.strip().replace("``", "`") for name, meaning in found.items()}
