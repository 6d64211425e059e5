"""An argparse parser of a list of flags: the strictness of the real command line, without its code."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

# Kind of a flag to what argparse is told; ``pair`` also has its ``--no-…``.
_KINDS: dict[str, dict[str, object]] = {
    "flag": {"action": "store_true"},
    "pair": {"action": argparse.BooleanOptionalAction},
    "int": {"type": int},
    "float": {"type": float},
    "str": {"type": str},
    "list": {"type": str, "nargs": "+"},
    "opt": {"type": str, "nargs": "?", "const": True},
}


def add(parser: argparse.ArgumentParser, flags: Mapping[str, str]) -> None:
    """Add flags to a parser.

    Args:
        parser: Where to.
        flags: Kind to entries separated by blanks, each ``--name``, ``--name|--alias`` or ``--name=default``.
    """
    for kind, entries in flags.items():
        for entry in entries.split():
            names, has_default, text = entry.partition("=")
            options = dict(_KINDS[kind])
            if has_default:
                read = options.get("type", str)
                options["default"] = read(text) if callable(read) else text
            parser.add_argument(*names.split("|"), **options)  # type: ignore[arg-type]  # a table's rows
