"""The JSON Schemas that Stoker ships: of every file that people write, for editors to complete and check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import stoker
from stoker import benchmarks
from stoker.config import schema_parts as parts
from stoker.config.schema_parts import Schema
from stoker.config.schemas import inventory as schema_inventory
from stoker.config.schemas import playbook as schema_playbook
from stoker.config.schemas import profile as schema_profile
from stoker.config.schemas import settings as schema_settings
from stoker.fleet.books.arguments import Argument
from stoker.fleet.books.verbs import IN_BOOKS
from stoker.fleet.flags import Flag
from stoker.fleet.job import Verb
from stoker.results.baselines import accepted

FOLDER = Path(stoker.__file__).parent / "schemas"


def texts() -> dict[str, str]:
    """File name in ``stoker/schemas`` to the file's text."""
    schemas = {
        "baseline": baseline(),
        "inventory": schema_inventory.inventory(),
        "invoke": schema_settings.schema(),
        "playbook": schema_playbook.schema({name: _module(verb) for name, verb in IN_BOOKS.items()}),
        "profile": schema_profile.schema(),
        "variables": schema_inventory.variables(),
    }
    return {f"{name}.json": json.dumps(schema, indent=1) + "\n" for name, schema in schemas.items()}


def baseline() -> Schema:
    """Of an accepted result, out of its type: what has a default may be left out, or be null."""
    whole = _untitled(TypeAdapter(accepted.Baseline).json_schema())
    optional = {
        "profile",
        "profile_hash",
        "fingerprint",
        "accepted_at",
        "accepted_by",
        "why",
        "launch_id",
        "load",
        "hardware",
        "host",
    }
    definitions = {name: _loosened(schema, optional) for name, schema in whole.pop("$defs").items()}
    launch = definitions["Accepted"]["properties"]
    launch["tok_s"] |= {"minItems": 1, "items": {"type": "number", "exclusiveMinimum": 0, "maximum": 1e299}}
    definitions["Key"] = {"anyOf": [_key(definitions["Key"], name) for name in benchmarks.NAMES]}
    own = _loosened(whole, optional)
    own["properties"] |= {"schema": parts.whole(0, accepted.SCHEMA)}
    own["properties"]["launches"] |= {"minItems": 1}
    own["required"] = ["schema", *own["required"]]
    told = {key: own[key] for key in ("type", "properties", "required")}
    return parts.whole_file(
        "Stoker: a baseline",
        "An accepted result: written by `inv baseline`, reviewed by people.",
        {**told, "$defs": definitions},
    )


def _key(key: Schema, bench: str) -> Schema:
    """What a baseline is of, for one benchmark."""
    own: Schema = {"bench": {"enum": [bench]}}
    kinds = {"host": {"type": "string"}, "hardware": {"type": "string", "minLength": 1}}
    either = [{"required": [name], "properties": {name: kind}} for name, kind in kinds.items()]
    for name in ("tokens", "concurrency"):
        least, most = benchmarks.BOUNDS[name]
        own[name] = parts.whole(least if bench == "decode" else 0, most)
    if bench == "decode":
        return {**key, "properties": key["properties"] | own, "anyOf": either}
    own["load"] = {"type": "string", "pattern": r"\S"}
    required = [*key["required"], "load"]
    return {**key, "properties": key["properties"] | own, "required": required, "anyOf": either}


def _untitled(schema: Any) -> Any:
    """Without titles, which only repeat the names."""
    if isinstance(schema, dict):
        return {
            key: _untitled(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
    return [_untitled(item) for item in schema] if isinstance(schema, list) else schema


def _loosened(schema: Schema, optional: set[str]) -> Schema:
    """A record's schema as its reader has it: null is absent, and further keys are for newer versions."""
    required = [name for name in schema.get("required", ()) if name not in optional]
    properties = {
        name: value if name in required else parts.nullable(value)
        for name, value in schema["properties"].items()
    }
    return {"type": "object", "properties": properties, "required": required}


def _module(verb: Verb) -> schema_playbook.Module:
    flags = {flag.name: {"description": flag.help, **_argument(flag)} for flag in verb.flags if flag.in_book}
    meaning = (verb.work.__doc__ or "").strip().partition("\n")[0]
    return schema_playbook.Module(meaning, flags, verb.book.free, verb.book.needs, verb.book.any_name)


def _argument(flag: Flag) -> Schema:
    """What a flag takes in a playbook."""
    if isinstance(flag, Argument) and flag.holds == "expressions":
        return dict(schema_playbook.CONDITIONS)
    if isinstance(flag, Argument) and flag.holds == "switch":
        return parts.template_or({"type": "boolean"})
    return {} if isinstance(flag, Argument) else parts.nullable(_of_kind(flag))


def _of_kind(flag: Flag) -> Schema:
    scalar = parts.text(r"\S", flags=True)
    if flag.kind == "flag":
        return parts.template_or({"type": "boolean"})
    if flag.kind == "whole":
        most = 10**14 if flag.most is None else flag.most
        words: list[Any] = [{"const": flag.word_for_zero}] if flag.word_for_zero else []
        return parts.template_or(parts.whole(flag.least, most), *words)
    if flag.kind == "number":
        return parts.template_or({"type": "number", "exclusiveMinimum": 0})
    if flag.kind == "list":
        return {"anyOf": [*scalar["anyOf"], {"type": "array", "items": scalar}]}
    return scalar
