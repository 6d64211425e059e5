"""Pieces that the JSON Schemas of all files are made of.

A schema says what an editor may offer and must refuse; it never allows a shape that the loader refuses.
Where the loader takes more spellings of one value than people write (``port: "30000"``), a schema may know
fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

DRAFT = "http://json-schema.org/draft-07/schema#"
"""The latest that editors' YAML support knows whole."""

TEMPLATE: Schema = {"type": "string", "pattern": r"\{[{%#]"}
NULL: Schema = {"type": "null"}


def template_or(*schemas: Schema) -> Schema:
    """A value, or a template that gives it."""
    return {"anyOf": [*schemas, TEMPLATE]}


def nullable(schema: Schema) -> Schema:
    """A value, or ``null``."""
    if not schema or schema.get("type") == "null":
        return schema
    told: Schema = {key: schema[key] for key in ("description", "default") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in told}
    choices = inner["anyOf"] if set(inner) == {"anyOf"} else [inner]
    return {**told, "anyOf": [*choices, NULL]}


def text(pattern: str = "", *, numbers: bool = True, flags: bool = False) -> Schema:
    """A text; a number (and with ``flags`` a truth value) is taken as it is written."""
    written: Schema = {"type": "string", **({"pattern": pattern} if pattern else {})}
    if not numbers and not flags:
        return written
    others = (["number"] if numbers else []) + (["boolean"] if flags else [])
    return {"anyOf": [written, *({"type": kind} for kind in others)]}


def whole(least: int, most: int | None = None) -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": least, **({} if most is None else {"maximum": most})}


def one_or_many(item: Schema) -> Schema:
    """One value, or a list of them."""
    return {"anyOf": [item, {"type": "array", "items": item}]}


def closed(properties: Mapping[str, Schema], **more: Any) -> Schema:
    """A mapping without other keys than these."""
    return {"type": "object", "properties": dict(properties), "additionalProperties": False, **more}


def named(value: Schema, pattern: str = "", **more: Any) -> Schema:
    """A mapping whose keys people choose."""
    names = {"propertyNames": {"pattern": pattern}} if pattern else {}
    return {"type": "object", "additionalProperties": value, **names, **more}


def whole_file(title: str, description: str, schema: Schema) -> Schema:
    """The root of a schema's file."""
    return {"$schema": DRAFT, "title": title, "description": description, **schema}
