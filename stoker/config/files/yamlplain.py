"""Plain data as YAML, for the filters that write it."""

from __future__ import annotations

from typing import Any

import yaml


def dump(value: Any, *, nice: bool) -> str:
    """A value as YAML.

    Args:
        value: JSON types.
        nice: On many lines; else lists and mappings of scalars on one.
    """
    style = False if nice else None
    return yaml.safe_dump(value, allow_unicode=True, default_flow_style=style, indent=4 if nice else None)
