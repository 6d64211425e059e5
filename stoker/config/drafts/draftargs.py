"""A server's command line, taken apart into what a profile says: model, arguments, command, wrappers."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.config import yamlwrite
from stoker.config.profiles import kinds as kinds
from stoker.engines import arguments
from stoker.engines.base import Engine

# A word that begins a flag; what has blanks in it, or is a negative number, is a value.
_FLAG = re.compile(r"--?[A-Za-z][^\s=]*(=.*)?", re.DOTALL)
_KEY_FLAGS = ("--api-key", "--api_key")
_HUBS = ("--hf-repo", "--hf-file", "--model-url")
"""Flags that say where a model comes from, in place of a path."""
_SERVED = ("--served-model-name", "--served_model_name", "--alias")


@dataclass
class Arguments:
    """What a command line says.

    Args:
        flags: Canonical flag to its values, as often as it was given.
        extra: Words before the first flag.
        withheld: Flags whose values may not be told.
        notes: What could not be kept.
    """

    flags: dict[str, list[list[str]]] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def take(self, flag: str) -> str | None:
        """The last value of a flag, which is then no argument any more; None where it is not given."""
        given = self.flags.pop(flag, None)
        return given[-1][0] if given and given[-1] else None


def read(words: Sequence[str], hidden: Sequence[int], engine: Engine) -> Arguments:
    """Take the words after the command apart.

    Args:
        words: ``--name value``, ``--name=value``, bare flags, several values after one flag.
        hidden: Indices of words whose text may not be told.
        engine: Knows other spellings of its flags.
    """
    found = Arguments()
    values: list[str] = found.extra
    name = ""
    for at, word in enumerate(words):
        if _FLAG.fullmatch(word):
            spelled, equals, value = word.partition("=")
            name = engine.aliases.get(spelled, spelled)
            values = [value] if equals else []
            found.flags.setdefault(name, []).append(values)
        elif not values and name and not found.extra and _is_switch(name, engine):
            found.extra.append(word)  # the model, behind a flag that takes no value
        else:
            values.append(word)
        if at in hidden and name and name not in found.withheld:
            found.withheld.append(name)
    for name in found.withheld:
        del found.flags[name]
    return found


def _is_switch(flag: str, engine: Engine) -> bool:
    """Whether a flag takes no value, of an engine whose model stands among them without a flag."""
    known = arguments.load(engine.name)
    item = known.find(flag) if known and not engine.model_flag else None
    return item is not None and item.takes == "none"


def model_of(found: Arguments, engine: Engine, captured: Mapping[str, Any]) -> str:
    """The model, which is then no argument any more: as typed, else as the server itself says.

    A relative path becomes the absolute one that it led to.
    """
    model = found.take(engine.model_flag or "--model")
    if model is None and found.extra:
        model = found.extra.pop(0)
    if model is None and not engine.model_flag:
        model = _after_a_bare_flag(found, str(captured["model"]))
    if model is None:
        said = captured["said"]
        model = str(said.get("model_path") or said.get("model") or captured["model"] or "")
        found.notes.append("model: its command line names none; this is what the server itself says")
    hubs = [flag for flag in _HUBS if found.flags.pop(flag, None)]
    if hubs:
        found.notes.append(f"{', '.join(hubs)}: left out, for server.model says where the model is")
    if model in captured["relative"] or model.startswith(("./", "../")):
        return posixpath.normpath(posixpath.join(captured["cwd"] or "/", model))
    return model


def _after_a_bare_flag(found: Arguments, served: str) -> str | None:
    """A positional model that stands behind a flag without a value looks like its value."""
    for given in found.flags.values():
        for values in given:
            for word in values:
                if word == served or ("/" in word and posixpath.basename(word) == served):
                    values.remove(word)
                    return word
    return None


def lines(found: Arguments, engine: Engine) -> list[str]:
    """``args`` as lines of YAML, without indentation."""
    written: list[str] = []
    for flag, given in found.flags.items():
        name = flag.removeprefix("--")
        try:
            kinds.argument(name)
            written.append(f"{yamlwrite.key(name)}: {_value(flag, given, engine, found.notes)}")
        except ValueError:
            found.notes.append(f"args: {flag} cannot be written here: {' '.join(map(str, given))}")
    return written


def _value(flag: str, given: list[list[str]], engine: Engine, notes: list[str]) -> str:
    """An argument's value as YAML.

    Raises:
        ValueError: A text that no YAML holds.
    """
    if flag in engine.repeats and len(given) > 1:
        return yamlwrite.inline([word for values in given for word in values])
    values = given[-1]
    if len(given) > 1 and any(one != values for one in given):
        earlier = "; ".join(" ".join(one) for one in given[:-1])
        notes.append(f"args: {flag} was given {len(given)} times; the last one counts, before it: {earlier}")
    if not values:
        return "true"
    if len(values) > 1:
        return yamlwrite.inline(values)
    return _json(values[0]) or yamlwrite.text(values[0])


def _json(word: str) -> str | None:
    """A JSON object as a mapping, where a profile gives the same object back."""
    if not word.startswith("{"):
        return None
    try:
        data = json.loads(word)
    except ValueError:
        return None
    return yamlwrite.mapping(data) if isinstance(data, dict) and data else None


def served_names(found: Arguments, model: str, env: Mapping[str, str]) -> set[str]:
    """Model ids that a profile expects without being told."""
    words = [word for flag in _SERVED for values in found.flags.get(flag, ()) for word in values]
    words += [env["LLAMA_ARG_ALIAS"]] if "LLAMA_ARG_ALIAS" in env else []
    aliases = {alias.strip() for word in words for alias in (word, *word.split(","))}
    base = posixpath.basename(model.rstrip("/"))
    return aliases or {model, base, base.removesuffix(".gguf")}


@dataclass(frozen=True)
class Program:
    """How the profile names the program.

    Args:
        venv: Its virtual environment.
        python: Its interpreter, where there is no virtual environment.
        command: Words in place of the engine's own command; empty: the engine's own.
        note: What was changed.
    """

    venv: str = ""
    python: str = ""
    command: tuple[str, ...] = ()
    note: str = ""

    @property
    def bin(self) -> str:
        """The folder that comes first on the PATH."""
        return f"{self.venv}/bin" if self.venv else posixpath.dirname(self.python)


def program_of(captured: Mapping[str, Any], engine: Engine, path: str | None) -> Program:
    """The program of a known engine, by its own command where that gives the same.

    Args:
        captured: What the operation ``capture`` told.
        engine: The engine.
        path: The ``PATH`` that the profile says; None: it says none, and its program's folder comes first.
    """
    head, argv = int(captured["head"]), [str(word) for word in captured["argv"]]
    venv, python = str(captured["venv"]), str(captured["python"])
    found = Program(venv, "" if venv else python)
    own = [word for word in engine.command if word != "{python}"]
    program, module = str(captured["program"]), str(captured["module"])
    if module:
        is_own = engine.command[0] == "{python}" and argv[1:head] == own
        if is_own or engine.command[0] != "{python}":
            note = "" if is_own else f"started by python -m {module}; the profile's is {' '.join(own)}"
            hidden = not is_own and path is not None and found.bin not in path.split(":")
            command = (f"{found.bin}/{own[0]}", *own[1:]) if hidden else ()
            return Program(found.venv, found.python, command, note)
        return Program(found.venv, found.python, (python, *argv[1:head]))
    subcommand = [word for word in argv[head : head + 1] if word in {s.subcommand for s in _shapes(engine)}]
    is_found = bool(python) and program == f"{found.bin}/{own[0]}" and engine.command[0] != "{python}"
    is_found = is_found and (path is None or found.bin in path.split(":"))
    return found if is_found else Program(found.venv, found.python, (program or argv[0], *subcommand))


def _shapes(engine: Engine) -> list[Any]:
    return [shape for shape in engine.shapes if shape.subcommand]


def subcommands(captured: Mapping[str, Any], engine: Engine) -> int:
    """How many words after the head belong to the command."""
    head = int(captured["head"])
    word = captured["argv"][head] if head < len(captured["argv"]) else ""
    return 1 if word in {shape.subcommand for shape in _shapes(engine)} else 0


def wrap_of(around: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(words before the command that give the same surroundings, notes about them)."""
    wrap, notes = [str(word) for word in around["wrap"]], []
    said = frozenset(wrap)
    if wrap:
        notes.append(f"wrap: its parent is {' '.join(wrap)}")
    if around["memory"] and "numactl" not in said:
        policy, nodes = around["memory"]
        word = {"interleave": "--interleave", "bind": "--membind", "prefer": "--preferred"}[policy]
        wrap += ["numactl", f"{word}={nodes}"]
        notes.append(f"wrap: its memory is under the policy {policy} on nodes {nodes}")
    if around["cpus"] and not {"taskset", "numactl"} & said:
        wrap += ["taskset", "-c", str(around["cpus"])]
        notes.append(f"wrap: it may run on CPUs {around['cpus']} only")
    if around["nice"] and "nice" not in said:
        wrap += ["nice", "-n", str(around["nice"])]
        notes.append(f"wrap: its niceness differs from the login's by {around['nice']}")
    return wrap, notes
