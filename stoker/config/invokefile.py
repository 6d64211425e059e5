"""Invoke's configuration files, looked at before Invoke merges them; its own message is a traceback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stoker.config.files import yamlfile
from stoker.config.files.yamlfile import Document, Secret, Vault
from stoker.errors import ConfigError, Problem

SUFFIXES = (".yaml", ".yml", ".json")
"""In the order in which Invoke looks for them, the first that is there being the only one that it reads."""

MAX_VALUES = 10_000
MAX_DEPTH = 50

_Path = tuple[str | int, ...]


def problems(
    files: Mapping[Path, str], defaults: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[Problem, ...]:
    """Everything that Invoke could not merge.

    Args:
        files: Each configuration file without its ending, and how it is shown to people; later ones win.
        defaults: What they are merged over: a mapping stays one, and nothing else becomes one.
        environ: The environment: ``INVOKE_NAME`` replaces a value.
    """
    found: list[Problem] = []
    whole: dict[str, Any] = dict(defaults)
    for stem, shown in files.items():
        try:
            document = _load(stem, shown)
        except ConfigError as error:
            found += error.problems
            continue
        if document is None or document.data is None:
            continue
        mistakes = list(_mistakes(document, whole))
        found += mistakes
        whole = whole if mistakes else _merged(whole, document.data)
    return tuple(found) or tuple(_of_environment(whole, environ))


def _load(stem: Path, shown: str) -> Document | None:
    for suffix in SUFFIXES:
        path = stem.with_name(stem.name + suffix)
        if path.is_file():
            return yamlfile.load(path, shown=shown + suffix)
    return None


def _mistakes(document: Document, defaults: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong in one file."""
    if not isinstance(document.data, dict):
        yield document.problem((), "a mapping is expected", "write NAME: VALUE")
        return
    yield from _Walk(document).mapping((), document.data, defaults)
    tasks = document.data.get("tasks")
    chosen = tasks.get("executor_class") if isinstance(tasks, dict) else None
    if not isinstance(chosen, str | None):
        yield document.problem(("tasks", "executor_class"), "tasks.executor_class is the name of a class")


class _Walk:
    """One walk over a file's values, which ends even where aliases repeat them without end."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._left = MAX_VALUES

    def mapping(self, at: _Path, data: Mapping[Any, Any], defaults: Mapping[str, Any]) -> Iterator[Problem]:
        """What is wrong in a mapping and below it."""
        yield from self._document.odd_keys(at)
        for key, value in data.items():
            self._left -= 1
            if self._left <= 0 or len(at) >= MAX_DEPTH:
                if self._left == 0 or len(at) >= MAX_DEPTH:
                    yield self._document.problem((*at, key), "holds too many values, or too deep ones")
                return
            yield from self._value((*at, key), value, defaults.get(key, _ANY))

    def _value(self, at: _Path, value: Any, default: Any) -> Iterator[Problem]:
        name = ".".join(map(str, at))
        if isinstance(default, Mapping) and not isinstance(value, Mapping):
            yield self._document.problem(at, f"{name} must hold a mapping", "write NAME: VALUE below it")
        elif isinstance(value, Mapping) and not isinstance(default, Mapping) and default is not _ANY:
            yield self._document.problem(at, f"{name} holds one value, not a mapping")
        elif isinstance(value, Secret | Vault):
            yield self._document.problem(at, "no tag is read here", "quote it if a text is meant")
        elif isinstance(value, Mapping):
            yield from self.mapping(at, value, default if isinstance(default, Mapping) else {})


_ANY = object()


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return merged


def _of_environment(whole: Mapping[str, Any], environ: Mapping[str, str]) -> Iterator[Problem]:
    """What Invoke cannot take from ``INVOKE_*``: it types each value as what it replaces."""
    seen: dict[str, str] = {}
    for path, value in _leaves(whole, ()):
        variable, name = "INVOKE_" + "_".join(path).upper(), ".".join(path)
        if variable in seen:
            what = f"{variable} could mean {seen[variable]} or {name}"
            yield Problem("invoke.yaml", 0, what, "rename one of them")
        seen[variable] = name
        written = environ.get(variable)
        if written is not None and not _can_replace(value, written):
            kind = "a list" if isinstance(value, list | tuple) else repr(value)
            hint = f"unset {variable}, or take {name} out of invoke.yaml"
            yield Problem(f"${variable}", 0, f"{written!r} cannot stand in place of {kind}", hint)


def _leaves(data: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*at, key))
        else:
            yield (*at, key), value


def _can_replace(old: Any, written: str) -> bool:
    """Whether Invoke can make the kind of ``old`` out of a text."""
    if old is None or isinstance(old, bool | str):
        return True
    if isinstance(old, list | tuple):
        return False
    try:
        type(old)(written)
    except (TypeError, ValueError):
        return False
    return True
