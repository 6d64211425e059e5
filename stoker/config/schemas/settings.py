"""The JSON Schema of ``invoke.yaml``: Stoker's settings, out of their type."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from stoker.config import meanings
from stoker.config import schema_parts as parts
from stoker.config.schema_parts import Schema
from stoker.config.settings import HOST_KEY_POLICIES, Settings

_NAME = parts.text(numbers=False)
_WORDS = parts.one_or_many({"type": "string", "pattern": r"^[^\u0000]*$(?!\n)"})
_SOURCE: Schema = {
    "anyOf": [
        parts.closed(
            {"command": {"type": "array", "items": _WORDS["anyOf"][0], "minItems": 1}}, required=["command"]
        ),
        parts.closed(
            {"file": {"type": "string", "pattern": r"^(?!~)(?=[\s\S]*\S)[^\u0000]*$(?!\n)"}},
            required=["file"],
        ),
    ]
}


def schema() -> Schema:
    """The whole schema; what Invoke itself reads beside it is a mapping each."""
    told = meanings.of(Settings)
    settings = {
        field.name: parts.nullable({"description": told[field.name], **_kind(field.name)})
        for field in fields(Settings)
        if field.name != "root"
    }
    invokes = {name: {"type": "object"} for name in ("run", "runners", "sudo", "tasks", "timeouts")}
    return parts.whole_file(
        "Stoker: invoke.yaml",
        "Invoke's configuration, with Stoker's settings under `stoker`.",
        {"type": ["object", "null"], "properties": {"stoker": parts.closed(settings), **invokes}},
    )


def _kind(name: str) -> Schema:
    if name == "secrets":
        return parts.named(_SOURCE)
    if name == "host_key_policy":
        return {"enum": list(HOST_KEY_POLICIES), "default": HOST_KEY_POLICIES[0]}
    default: Any = getattr(Settings(root=Path()), name)
    if isinstance(default, tuple):
        return dict(_WORDS)
    if name == "serial":
        return {"anyOf": [parts.whole(0, 10**14), {"const": "all"}], "default": default}
    if isinstance(default, float):
        return {"type": "number", "exclusiveMinimum": 0, "default": default}
    if isinstance(default, int):
        return {**parts.whole(1, 10**14), "default": default}
    return {**_NAME, "default": default}
