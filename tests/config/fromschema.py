"""Documents out of a JSON Schema of ours, and documents that are nearly one: for tests by property."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]

# What YAML can hold in a plain file: no surrogates, no control characters but those that are escaped.
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
_NUMBERS = st.one_of(
    st.integers(-(10**6), 10**6), st.floats(-1e6, 1e6).map(lambda number: round(number, 3) + 0.0005)
)
SCALARS: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXT)
ANY: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=5,
)


def documents(schema: Schema | bool, root: Schema | None = None, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that a schema allows; only the words of JSON Schema that ours use are known.

    Args:
        schema: Any part of a schema.
        root: The file's whole schema, for references.
        depth: How deep it stands; below some depth mappings stay small.
    """
    if isinstance(schema, bool):
        return ANY
    root = root or schema
    if "$ref" in schema:
        return st.deferred(lambda: documents(_referred(root, schema["$ref"]), root, depth))
    if "allOf" in schema:  # of ours: a value and what it is not
        return documents(schema["allOf"][0], root, depth).filter(
            lambda v: not isinstance(v, list | dict | None)
        )
    if "anyOf" in schema:
        return st.one_of([documents({**_rest(schema), **one}, root, depth) for one in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    kinds = schema.get("type")
    if kinds is None:
        return ANY
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return st.one_of([_of_kind(kind, schema, root, depth) for kind in kinds])


def _rest(schema: Schema) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("anyOf", "description", "default")}


def _referred(root: Schema, reference: str) -> Schema:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return dict(found)


def _of_kind(kind: str, schema: Schema, root: Schema, depth: int) -> st.SearchStrategy[Any]:
    if kind == "string":
        return _matching(schema["pattern"]) if "pattern" in schema else _TEXT
    if kind == "integer":
        return st.integers(schema.get("minimum", -(10**6)), schema.get("maximum", 10**6))
    if kind == "number":
        least, most = schema.get("minimum", schema.get("exclusiveMinimum", -1e6)), schema.get("maximum", 1e6)
        return st.floats(least, min(most, 1e6)).map(lambda n: round(n, 3) + 0.0005)
    if kind == "array":
        items = documents(schema.get("items", {}), root, depth + 1)
        unique = repr if schema.get("uniqueItems") else None
        return st.lists(items, min_size=schema.get("minItems", 0), max_size=3, unique_by=unique)
    if kind == "object":
        return _mapping(schema, root, depth)
    return {"boolean": st.booleans(), "null": st.none()}[kind]


def _matching(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(re.compile(pattern)).filter(_is_fit)


def _is_fit(text: str) -> bool:
    return "\0" not in text and len(text) < 60 and text.isprintable() | ("\n" in text)


def _mapping(schema: Schema, root: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Some of the named keys, all that must be there, and one of those that people choose."""
    known = schema.get("properties", {})
    chosen = schema.get("oneOf", [{"required": []}])

    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        musts = [*schema.get("required", ()), *draw(st.sampled_from(chosen))["required"]]
        excluded = {name for one in chosen for name in one["required"]}
        free = [name for name in known if name not in excluded]
        some = draw(st.lists(st.sampled_from(free), max_size=3, unique=True)) if free and depth < 6 else []
        found = {name: draw(documents(known[name], root, depth + 1)) for name in {*musts, *some}}
        others = schema.get("additionalProperties", {})
        if others is not False and (depth < 6) and draw(st.booleans()):
            names = schema.get("propertyNames", {}).get("pattern")
            name = draw(_matching(names or r"\A[a-z]{1,9}\Z"))
            found.setdefault(name, draw(documents(others, root, depth + 1)))
        return found

    return build()


def mutated(document: Any, seed: random.Random, spare: Any) -> Any:
    """The document with one thing changed somewhere: a value replaced, a key misspelt, added or taken away.

    Args:
        document: JSON types.
        seed: Decides where and what.
        spare: A value to put somewhere.
    """
    if isinstance(document, dict) and document and seed.random() < 0.8:
        key = seed.choice(sorted(document))
        rest = {name: value for name, value in document.items() if name != key}
        how = seed.randrange(5)
        if how == 0:
            return rest
        if how == 1:
            return {**rest, key + "x": document[key]}
        if how == 2:
            return {**document, "another": spare}
        return {**rest, key: mutated(document[key], seed, spare)}
    if isinstance(document, list) and document and seed.random() < 0.8:
        index = seed.randrange(len(document))
        return [*document[:index], mutated(document[index], seed, spare), *document[index + 1 :]]
    return spare
