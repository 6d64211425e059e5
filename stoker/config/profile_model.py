"""A resolved profile, as typed data: what a file (or a record) says once everything in it is worked out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from stoker import engines
from stoker.config import profile_kinds as kinds
from stoker.engines.base import Engine
from stoker.errors import InputError, nearest

Path = tuple[str | int, ...]

_CUDA = "CUDA_VISIBLE_DEVICES"
_KINDS = {  # pydantic's types of error, in our words
    "model_type": "expected a mapping",
    "dict_type": "expected a mapping",
    "tuple_type": "expected a list",
}


@dataclass(frozen=True)
class Mistake:
    """One thing wrong in a profile.

    Args:
        path: Keys and indices from the root.
        what: What is wrong.
        hint: What was expected, or the nearest name.
        key: The key is wrong, not its value.
    """

    path: Path
    what: str
    hint: str = ""
    key: bool = False


def _engine(value: Any) -> str:
    written = kinds.line(value)
    if written not in engines.names():
        raise kinds.Wrong(f"unknown engine {written!r}", nearest(written, engines.names()))
    return written


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Server(_Part):
    """The server's process.

    Args:
        name: The slot on the host.
        model: A path on the host, or a hub's name.
        served_name: Model ids it answers to, where they follow neither from the model nor from the arguments.
        bind: IP address to listen on.
        port: TCP port to listen on.
        gpus: Indices, UUIDs, ``("all",)``, or empty.
        venv: Virtual environment, first on the PATH.
        python: Interpreter, in place of ``venv``.
        command: What is run in place of the engine's own command.
        args: ``True`` is the bare flag, a tuple several values after one flag, a mapping JSON.
        inherit: Variables taken over from the login.
        setup: Shell commands before the server is run.
        wrap: Command put before the server's.
        api_key: The key that the server demands.
    """

    name: kinds.Name = "default"
    model: kinds.Model
    served_name: Annotated[tuple[kinds.Line, ...], BeforeValidator(kinds.one_or_more)] = ()
    bind: kinds.Address = "127.0.0.1"
    port: kinds.Port
    gpus: kinds.Gpus = ()
    venv: kinds.Absolute | None = None
    python: kinds.Program | None = None
    command: tuple[kinds.Text, ...] = ()
    args: kinds.Arguments = {}
    inherit: tuple[kinds.Variable, ...] = ()
    setup: tuple[kinds.Command, ...] = ()
    wrap: tuple[kinds.Text, ...] = ()
    api_key: kinds.Key | None = None


class Hooks(_Part):
    """Shell commands around a restart.

    Args:
        before_stop: Before the old server is ended.
        after_ready: Once the new one is ready.
        drain_s: Waited after ``before_stop``.
    """

    before_stop: tuple[kinds.Command, ...] = ()
    after_ready: tuple[kinds.Command, ...] = ()
    drain_s: kinds.Seconds = 0.0


class Ready(_Part):
    """When waiting for readiness ends without it.

    Args:
        timeout_s: Since the launch.
        stall_s: Without any sign of work.
    """

    timeout_s: kinds.Seconds = 3600.0
    stall_s: kinds.Seconds = 1200.0


class Kill(_Part):
    """What a clean kill spares, and how patient it is.

    Args:
        protect: Exact process names, or ``cmd:REGEX``.
        grace_s: From SIGTERM to the launcher until the rest is signalled; None: the engine's.
    """

    protect: tuple[kinds.Protected, ...] = ()
    grace_s: kinds.Seconds | None = None


class Bench(_Part):
    """The benchmark that a profile is judged by.

    Args:
        name: Which benchmark.
        runs: Measured runs.
        tokens: Tokens a request generates.
        concurrency: Requests at once.
    """

    name: kinds.Name = "decode"
    runs: kinds.Count = 5
    tokens: kinds.Count = 500
    concurrency: kinds.Count = 1


class Profile(_Part):
    """One resolved profile.

    Args:
        description: For people; no part of the hash.
        engine: Name of the engine.
        server: The server's process.
        env: Exactly what the server's environment gets, as text or as a reference to a secret.
        expect: Name to the value that an engine is known to turn a variable into.
        hooks: Shell commands around a restart.
        ready: When waiting ends without a ready server.
        kill: What may be ended.
        bench: The benchmark.
    """

    description: kinds.Text = ""
    engine: Annotated[str, PlainValidator(_engine)]
    server: Server
    env: dict[kinds.Variable, kinds.Value] = {}
    expect: dict[kinds.Variable, kinds.Text] = {}
    hooks: Hooks = Hooks()
    ready: Ready = Ready()
    kill: Kill = Kill()
    bench: Bench = Bench()

    @property
    def hash(self) -> str:
        """12 hex digits, equal exactly when two profiles resolve to the same.

        What stands at its default is left out: a new version of Stoker with one more field changes no hash.
        """
        said = self.model_dump(mode="json", exclude={"description"}, exclude_defaults=True)
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]

    def to_plain(self) -> dict[str, Any]:
        """All of it as JSON types; secrets as ``{"secret": NAME}``."""
        return self.model_dump(mode="json")

    @classmethod
    def from_plain(cls, data: Mapping[str, Any], *, where: str = "the record's profile") -> Profile:
        """The profile that ``to_plain`` gave.

        Args:
            data: Its JSON.
            where: What the data is called in the message.

        Raises:
            InputError: It is no profile; every mistake is among the evidence.
        """
        profile, mistakes = read(dict(data))
        if profile is None:
            said = [f"{'.'.join(map(str, m.path))}: {m.what}" for m in mistakes]
            raise InputError("this is no profile: " + said[0], where=where, evidence=said)
        return profile


def read(data: dict[str, Any]) -> tuple[Profile | None, list[Mistake]]:
    """A profile from plain data, or all that is wrong with it."""
    try:
        profile = Profile.model_validate(data)
    except ValidationError as error:
        return None, [_mistake(detail) for detail in error.errors(include_url=False)]
    mistakes = list(_conflicts(profile, engines.get(profile.engine)))
    return (None, mistakes) if mistakes else (profile, [])


def _mistake(detail: ErrorDetails) -> Mistake:
    """One of pydantic's findings in our words."""
    path, kind = tuple(detail["loc"]), detail["type"]
    is_key = bool(path) and path[-1] == "[key]"
    path = path[:-1] if is_key else path
    wrong = detail.get("ctx", {}).get("error")
    if isinstance(wrong, kinds.Wrong):
        return Mistake(path, wrong.what, wrong.hint, is_key)
    if kind == "missing":
        return Mistake(path[:-1], f"{'.'.join(map(str, path))} is missing")
    if kind == "extra_forbidden":
        return Mistake(path, f"unknown key {str(path[-1])!r}", _where_known(path), key=True)
    return Mistake(path, _KINDS.get(kind, detail["msg"]), key=is_key)


def _where_known(path: Path) -> str:
    """The nearest key there, or where a key of that very name belongs."""
    key = str(path[-1])
    for section, part in _sections().items():
        if key in part.model_fields and section != ".".join(map(str, path[:-1])):
            return f"it belongs under {section}:" if section else "it belongs at the top"
    here = _sections().get(".".join(map(str, path[:-1])))
    known = [] if here is None else [*here.model_fields, *(["extends"] if here is Profile else [])]
    return nearest(key, known)


def _sections() -> dict[str, type[BaseModel]]:
    fields = {name: field.annotation for name, field in Profile.model_fields.items()}
    parts = {
        name: kind for name, kind in fields.items() if isinstance(kind, type) and issubclass(kind, _Part)
    }
    return {"": Profile, **parts}


def _conflicts(profile: Profile, engine: Engine) -> Iterator[Mistake]:
    """What is right by itself and wrong together."""
    server = profile.server
    if not engine.command and not server.command:
        yield Mistake(
            ("server",), "server.command is missing", f"engine {engine.name} has no command of its own"
        )
    if server.venv and server.python:
        yield Mistake(("server", "python"), "venv and python are both set", "unset one: null", key=True)
    if server.gpus not in ((), ("all",)) and _CUDA in profile.env:
        yield Mistake(("env", _CUDA), f"{_CUDA} is set by server.gpus", "leave one of them out", key=True)
    yield from _key_conflicts(profile, engine)
    yield from _argument_conflicts(server, engine)


def _key_conflicts(profile: Profile, engine: Engine) -> Iterator[Mistake]:
    if profile.server.api_key is None:
        return
    at: Path = ("server", "api_key")
    if not engine.api_key_env:
        yield Mistake(at, f"{engine.name} reads no API key from its environment, and a command line shows it")
    elif engine.api_key_env in profile.env:
        yield Mistake(at, f"{engine.api_key_env} is set under env: too", "leave one of them out")


def _argument_conflicts(server: Server, engine: Engine) -> Iterator[Mistake]:
    """Arguments that Stoker adds itself, that show a key, or that stand there twice."""
    ours = {
        engine.model_flag: "server.model",
        engine.host_flag: "server.bind",
        engine.port_flag: "server.port",
    }
    seen: dict[str, str] = {}
    for key in server.args:
        at, flag = ("server", "args", key), flag_of(key)
        if engine.command and flag in ours:
            yield Mistake(at, f"{key} is set by {ours[flag]}", key=True)
        if flag.lstrip("-").replace("_", "-") == "api-key":
            yield Mistake(
                at, "a command line shows a key to everybody", "server.api_key: !secret NAME", key=True
            )
        if flag in seen:
            yield Mistake(at, f"{key} and {seen[flag]} are the same argument", key=True)
        seen[flag] = key


def flag_of(key: str) -> str:
    """An argument's flag: ``tp-size`` → ``--tp-size``; with dashes of its own it stays."""
    return key if key.startswith("-") else f"--{key}"
