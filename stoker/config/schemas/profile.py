"""The JSON Schema of a profile's file, out of the typed model of a resolved one."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from stoker.config import meanings
from stoker.config import schema_parts as parts
from stoker.config.profiles import types as profile_types
from stoker.config.profiles.model import Profile
from stoker.config.schema_parts import Schema

_EXTENDS = {
    "description": "The profile that this one is laid over, or a list of them: later ones win.",
    **parts.one_or_many(parts.text(profile_types.NAME_PATTERN, numbers=False)),
}
_KEYS = {"env": profile_types.VARIABLE_PATTERN, "expect": profile_types.VARIABLE_PATTERN}


def schema() -> Schema:
    """The whole schema.

    Nothing is required: a file may be there only to be extended, and what it lacks may come from its parents.
    """
    whole = Profile.model_json_schema()
    properties = _properties(Profile, whole, whole["$defs"])
    return parts.whole_file(
        "Stoker: a profile",
        "How one server is run and tuned; the file's name is the profile's.",
        parts.closed({"extends": parts.nullable(_EXTENDS), **properties}),
    )


def _properties(model: type[BaseModel], schema: Schema, definitions: Schema) -> dict[str, Schema]:
    """A model's fields, each of which a file may set to ``null``: that unsets what was inherited."""
    told = meanings.of(model)
    found = {}
    for name, own in schema["properties"].items():
        section = model.model_fields[name].annotation
        if "$ref" in own and isinstance(section, type) and issubclass(section, BaseModel):
            value = parts.closed(_properties(section, definitions[section.__name__], definitions))
        else:
            value = _value(name, own)
        found[name] = parts.nullable({"description": told[name], **value})
    return found


def _value(name: str, own: Schema) -> Schema:
    """One field's value: as the type has it, or a template; mappings by name may unset each entry."""
    kept = {key: value for key, value in own.items() if key not in ("title", "default", "description")}
    if own.get("default") not in (None, [], {}):
        kept["default"] = own["default"]
    if kept.get("type") == "array":
        default = {key: kept.pop(key) for key in ("default",) if key in kept}
        return {**default, **parts.template_or(kept)}
    if kept.get("type") == "object":
        return _by_name(name, kept)
    return kept


def _by_name(name: str, own: Schema) -> Schema:
    value: Any = own.get("additionalProperties") or next(iter(own["patternProperties"].values()))
    return parts.named(parts.nullable(value), _KEYS.get(name, profile_types.ARGUMENT_PATTERN))
