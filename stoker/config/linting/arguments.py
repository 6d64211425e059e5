"""The engine's arguments against what its help says it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.config.linting.lint import Finding, at, finding
from stoker.config.profiles.model import flag_of
from stoker.config.profiles.parts import Part
from stoker.engines.arguments import Argument, Arguments
from stoker.engines.base import Engine
from stoker.errors import nearest


@dataclass(frozen=True)
class Known:
    """What an engine is known to take.

    Args:
        arguments: The list.
        proved: The very engine that would be started has told it; else it is the stored list, and the
            engine on the host may be of another version.
    """

    arguments: Arguments
    proved: bool = False

    @property
    def named(self) -> str:
        """Whose list it is, for people."""
        return "as its help on the host says" if self.proved else f"stored list of {self.arguments.version}"


def check(tree: Part, args: Mapping[str, Any], engine: Engine, known: Known) -> Iterator[Finding]:
    """Everything about the arguments of one profile.

    Args:
        tree: The profile's.
        args: Name as written to value: True for a bare flag, text, a tuple of texts, or a mapping.
        engine: Whose arguments they are.
        known: What it takes.
    """
    ours = _ours(engine, known.arguments)
    met: dict[tuple[str, ...], str] = {}
    for key, value in args.items():
        argument = known.arguments.find(flag_of(key))
        path = ("server", "args", key)
        if argument is None:
            hint = nearest(flag_of(key), known.arguments.names)
            what = f"{engine.name} has no argument {flag_of(key)} ({known.named})"
            mend = hint if hint.startswith("did you") else ""
            yield _told(at(tree, path, what, mend, key=True), "argument-unknown", known)
            continue
        if argument.names in ours and flag_of(key) not in _said_by_model(engine):
            what = f"{key} is set by server.{ours[argument.names]}"
            yield finding(at(tree, path, what, key=True), "argument-ours")
        elif argument.removed:
            yield _told(at(tree, path, f"{key} has been removed", key=True), "argument-removed", known)
        elif argument.names in met and argument.takes != "any" and not _is_switch(argument):
            what = f"{key} and {met[argument.names]} are the same argument"
            yield finding(at(tree, path, what, key=True), "argument-twice")
        else:
            yield from _value(tree, path, key, value, argument, known)
        met.setdefault(argument.names, key)


def _told(problem: Any, code: str, known: Known) -> Finding:
    """An error where the host's own engine said so; else it may be of another version."""
    return finding(problem, code, severity="error" if known.proved else None, source=known.arguments.source)


def _ours(engine: Engine, arguments: Arguments) -> dict[tuple[str, ...], str]:
    """The arguments that Stoker gives itself, by all their names."""
    given = {engine.model_flag: "model", engine.host_flag: "bind", engine.port_flag: "port"}
    found = {arguments.find(flag): section for flag, section in given.items() if flag}
    return {argument.names: section for argument, section in found.items() if argument is not None}


def _said_by_model(engine: Engine) -> tuple[str, ...]:
    """Spellings that the profile's own check refuses already."""
    return engine.model_flag, engine.host_flag, engine.port_flag


def _is_switch(argument: Argument) -> bool:
    """``--x`` and ``--no-x`` are listed as one, and are two words for two things."""
    return any(name.startswith("--no-") for name in argument.names)


def _value(
    tree: Part, path: tuple[str | int, ...], key: str, value: Any, argument: Argument, known: Known
) -> Iterator[Finding]:
    """What is wrong with the value of a known argument."""
    if argument.takes == "none" and value is not True:
        what = f"{key} is a bare flag and takes no value"
        yield _told(at(tree, path, what, f"write {key}: true"), "argument-value", known)
    elif argument.takes in ("one", "many") and value is True:
        yield _told(at(tree, path, f"{key} needs a value"), "argument-value", known)
    elif argument.takes == "one" and isinstance(value, tuple) and len(value) > 1:
        yield _told(at(tree, path, f"{key} takes one value, not {len(value)}"), "argument-value", known)
    elif argument.choices and isinstance(value, str | tuple):
        for word in (value,) if isinstance(value, str) else value:
            if word not in argument.choices:
                hint = nearest(word, argument.choices)
                what = f"{key}: {word!r} is not among the choices ({known.named})"
                yield _told(at(tree, path, what, hint), "argument-value", known)
