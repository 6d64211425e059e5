"""What a running server is → the text of a profile that starts the same."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.config import yamlwrite
from stoker.config.drafts import draftargs, draftenv
from stoker.config.drafts.draftargs import Arguments, Program
from stoker.config.drafts.draftenv import Environment
from stoker.engines.base import Engine


@dataclass(frozen=True)
class Draft:
    """A profile as text.

    Args:
        text: YAML, with comments.
        notes: What could not be known or kept, a line each; they stand in the text, too.
        secrets: Names of the secrets that it refers to.
    """

    text: str
    notes: tuple[str, ...]
    secrets: tuple[str, ...]


@dataclass(frozen=True)
class _Server:
    """The section ``server`` before it is written."""

    name: str
    model: str
    served: str
    program: Program
    command: Sequence[str]
    args: Sequence[str]
    setup: Sequence[str]
    wrap: Sequence[str]


def of_server(
    name: str,
    source: str,
    captured: Mapping[str, Any],
    engine: Engine,
    *,
    knows: Callable[[str], bool],
    path: bool = False,
) -> Draft:
    """The profile of a server.

    Args:
        name: Of the profile; its slot too, unless the server has one.
        source: Where it was captured, for the head: ``node174, port 30000``.
        captured: What the operation ``capture`` told.
        engine: The server's.
        knows: Whether a variable is known to tune something.
        path: Whether the server's ``PATH`` is said.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: What was told is not of the contract.
    """
    env = draftenv.reduce(captured, engine, knows, path)
    notes = [*_circumstances(captured)]
    server = _known(name, captured, engine, env, notes) if engine.command else _unknown(name, captured, notes)
    notes += [*env.notes, *(f"not read: {line}" for line in captured["unread"])]
    lines = [
        *_head(source, captured, engine, notes),
        f"description: {yamlwrite.text(f'captured from {source}')}",
        f"engine: {engine.name}",
        *_server(server, captured, env),
        *_env(env),
    ]
    secrets = sorted({*env.secrets, *([env.api_key] if env.api_key else [])})
    return Draft("\n".join(lines) + "\n", tuple(notes), tuple(secrets))


def _known(
    name: str, captured: Mapping[str, Any], engine: Engine, env: Environment, notes: list[str]
) -> _Server:
    """A server whose engine's command line is understood."""
    head = int(captured["head"]) + draftargs.subcommands(captured, engine)
    hidden = [at - head for at in captured["withheld"]]
    found = draftargs.read(captured["argv"][head:], hidden, engine)
    model = draftargs.model_of(found, engine, captured)
    for flag in (engine.host_flag, engine.port_flag):
        found.flags.pop(flag, None)
    _key(found, engine, env)
    program = draftargs.program_of(captured, engine, env.env.get("PATH"))
    notes += [program.note] if program.note else []
    notes += [f"args: {word!r} has no flag before it, and is left out" for word in found.extra]
    wrap, why = draftargs.wrap_of(captured["around"])
    notes += why
    served = str(captured["model"])
    is_told = not served or served in draftargs.served_names(found, model, env.env)
    args = draftargs.lines(found, engine)
    notes += found.notes
    others = [word for word in captured["relative"] if not _leads(word, model)]
    return _Server(
        name=_slot(name, captured),
        model=model or "unknown",
        served="" if is_told else served,
        program=program,
        command=program.command,
        args=args,
        setup=_setup(others, captured, notes),
        wrap=wrap,
    )


def _unknown(name: str, captured: Mapping[str, Any], notes: list[str]) -> _Server:
    """A server of an engine that nobody knows: its own command, word by word."""
    argv = [str(word) for word in captured["argv"]]
    first = str(captured["python"] or captured["program"] or argv[0])
    if captured["withheld"]:
        notes.append(
            "command: a word of it looks like a secret and stands here as ***: put it into a variable "
            "under env:, as !secret NAME, if the program can read it there"
        )
    notes.append("command: no engine that Stoker knows; the command holds the address and the port once more")
    wrap, why = draftargs.wrap_of(captured["around"])
    notes += why
    program = Program(venv=str(captured["venv"]))
    return _Server(
        name=_slot(name, captured),
        model=str(captured["model"]) or "unknown",
        served="",
        program=program,
        command=[first, *argv[1:]],
        args=(),
        setup=_setup(list(captured["relative"]), captured, notes),
        wrap=wrap,
    )


def _slot(name: str, captured: Mapping[str, Any]) -> str:
    return str(captured["launch"]["slot"]) if captured["launch"] else name


def _leads(word: str, model: str) -> bool:
    return model.endswith("/" + word.removeprefix("./"))


def _key(found: Arguments, engine: Engine, env: Environment) -> None:
    """The API key, and other arguments that may not be shown."""
    for flag in found.withheld:
        if flag in ("--api-key", "--api_key") and engine.api_key_env:
            env.api_key = engine.api_key_env
        elif flag in ("--api-key", "--api_key"):
            env.notes.append(
                f"ATTENTION: the server demands an API key by {flag}, which {engine.name} takes on its "
                "command line only: the profile starts it WITHOUT one"
            )
        else:
            env.notes.append(f"args: {flag} holds a secret and is left out: no command line may show it")


def _setup(relative: Sequence[str], captured: Mapping[str, Any], notes: list[str]) -> list[str]:
    """Relative paths mean something only in the folder where the server was started."""
    if not relative or not captured["cwd"]:
        return []
    notes.append(f"setup: {', '.join(relative)} is relative to the folder that the server was started in")
    return [f"cd {shlex.quote(str(captured['cwd']))}"]


def _circumstances(captured: Mapping[str, Any]) -> Iterator[str]:
    launch = captured["launch"]
    if launch:
        yield f"Stoker launched it: profile {launch['profile']}, slot {launch['slot']}"
    if captured["foreign"]:
        yield (
            f"it is {captured['process']['user']}'s; this profile starts it as the login's user, "
            "and no restart ends another user's server"
        )
    if captured["container"]:
        yield "it sees another root than the login (a container): paths and libraries here may be others"
    if captured["env_source"] == "memory":
        yield (
            "its environment as given was overwritten by a title; this is what its memory holds, "
            "without what the engine is known to set by itself"
        )
    if captured["env_source"] == "unreadable":
        yield "its environment could not be read: env: and inherit: are missing here"
    if not captured["model"]:
        yield "model: the server itself did not say what it serves"
    if any("\ufffd" in word for word in captured["argv"]):
        yield "its command line holds bytes that are no UTF-8; they stand here as \ufffd"


def _head(source: str, captured: Mapping[str, Any], engine: Engine, notes: Sequence[str]) -> Iterator[str]:
    process = captured["process"]
    version = f" {captured['version']}" if captured["version"] else ""
    yield from yamlwrite.comment(
        f"Captured by inv capture from {source}: {engine.name}{version}, process {process['pid']} of "
        f"{process['user']}"
    )
    if notes:
        yield "#"
        for note in notes:
            yield from yamlwrite.comment(f"- {note}")


def _server(server: _Server, captured: Mapping[str, Any], env: Environment) -> Iterator[str]:
    """The section ``server``."""
    yield "server:"
    yield f"  name: {yamlwrite.text(server.name)}"
    yield f"  model: {yamlwrite.text(server.model)}"
    if server.served:
        yield f"  served_name: {yamlwrite.inline([server.served])}"
    yield f"  bind: {yamlwrite.quoted(str(captured['bind']))}"
    yield f"  port: {int(captured['port'])}"
    if env.gpus is not None:
        gpus = [env.gpus] if isinstance(env.gpus, str) else env.gpus
        yield from ["  gpus: all"] if gpus == ["all"] else yamlwrite.listed("gpus", gpus, "  ")
    if server.program.venv:
        yield f"  venv: {yamlwrite.text(server.program.venv)}"
    if server.program.python:
        yield f"  python: {yamlwrite.text(server.program.python)}"
    if server.command:
        yield from yamlwrite.listed("command", server.command, "  ")
    if server.args:
        yield "  args:"
        yield from (f"    {line}" for line in server.args)
    if env.inherit:
        yield "  # as the login has them:"
        yield from yamlwrite.listed("inherit", sorted(env.inherit), "  ")
    if server.setup:
        yield from yamlwrite.listed("setup", server.setup, "  ")
    if server.wrap:
        yield from yamlwrite.listed("wrap", server.wrap, "  ")
    if env.api_key:
        yield from _how(env.api_key, "  ")
        yield f"  api_key: !secret {env.api_key}"


def _env(env: Environment) -> Iterator[str]:
    """The sections ``env`` and ``expect``."""
    if env.env or env.secrets:
        yield "env:"
    for name, value in sorted(env.env.items()):
        if name in env.remarks:
            yield from yamlwrite.comment(env.remarks[name], "  ")
        try:
            yield f"  {name}: {yamlwrite.text(value)}"
        except ValueError:
            yield from yamlwrite.comment(f"{name}: its value is no UTF-8", "  ")
    for name in sorted(env.secrets):
        yield from _how(name, "  ")
        yield f"  {name}: !secret {name}"
    if env.expect:
        yield "expect: # what the engine makes of them by itself"
        yield from (f"  {name}: {yamlwrite.text(value)}" for name, value in sorted(env.expect.items()))


def _how(name: str, indent: str) -> Iterator[str]:
    """How a secret is provided."""
    yield from yamlwrite.comment(
        f"its value is not kept here: export {name} where inv runs (or see secrets in docs/profile.md)",
        indent,
    )
