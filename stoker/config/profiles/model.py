"""A resolved profile, as typed data: what a file (or a record) says once everything in it is worked out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from stoker import benchmarks, engines
from stoker.config.profiles import kinds as kinds
from stoker.config.profiles import types as types
from stoker.config.profiles.kinds import SecretRef
from stoker.config.profiles.sections import Bench, Hooks, Kill, Ready, Section, Server
from stoker.engines.base import Engine
from stoker.errors import InputError, nearest

Path = tuple[str | int, ...]

_CUDA = "CUDA_VISIBLE_DEVICES"
_FIXED = ("PATH", "LANG", "SPT_NOENV")  # the launch script sets them; `env` may say otherwise
_KINDS = {  # pydantic's types of error, in our words
    "model_type": ("expected a mapping", "write KEY: VALUE"),
    "dict_type": ("expected a mapping", "write KEY: VALUE"),
    "tuple_type": ("expected a list", "write [one, two]"),
}


@dataclass(frozen=True)
class Mistake:
    """One thing wrong in a profile.

    Args:
        path: Keys and indices from the root.
        what: What is wrong.
        hint: What was expected, or the nearest name.
        key: The key is wrong, not its value.
        absent: Something must be there and is not: a profile that is only a part of others may lack it.
    """

    path: Path
    what: str
    hint: str = ""
    key: bool = False
    absent: bool = False


class Profile(Section):
    """One resolved profile.

    Args:
        description: For people; no part of the hash.
        engine: Name of the engine: ``sglang``, ``vllm``, ``llamacpp``, ``transformers`` or ``openai``.
        server: The server's process; see below, as for the other sections.
        env: The tuning: name to value, exactly what the server's environment gets; or ``!secret NAME``.
        expect: Name to the value that the engine is known to turn a variable into.
        hooks: Shell commands around a restart.
        ready: When waiting ends without a ready server.
        kill: What a clean kill spares, and how patient it is.
        bench: The benchmark that the profile is judged by.
    """

    description: types.Text = ""
    engine: types.Engine
    server: Server
    env: dict[types.Variable, types.Value] = Field(default_factory=dict)
    expect: dict[types.Variable, types.Text] = Field(default_factory=dict)
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
        profile, mistakes = read(_with_references(data))
        if profile is None:
            said = [f"{'.'.join(map(str, m.path))}: {m.what}" for m in mistakes]
            raise InputError("this is no profile: " + said[0], where=where, evidence=said)
        return profile


def read(data: dict[str, Any]) -> tuple[Profile | None, list[Mistake]]:
    """A profile from plain data, or everything that is wrong with it."""
    mistakes = list(_conflicts(data))
    try:
        profile = Profile.model_validate(data)
    except ValidationError as error:
        return None, mistakes + [_mistake(detail) for detail in error.errors(include_url=False)]
    return (None, mistakes) if mistakes else (profile, [])


def flag_of(key: str) -> str:
    """An argument's flag: ``tp-size`` → ``--tp-size``; with dashes of its own it stays."""
    return key if key.startswith("-") else f"--{key}"


def _with_references(data: Mapping[str, Any]) -> dict[str, Any]:
    """A record's data with its secrets as references."""

    def reference(value: Any) -> Any:
        is_secret = isinstance(value, dict) and list(value) == ["secret"] and isinstance(value["secret"], str)
        return SecretRef(value["secret"]) if is_secret else value

    found = dict(data)
    if isinstance(found.get("env"), dict):
        found["env"] = {name: reference(value) for name, value in found["env"].items()}
    if isinstance(found.get("server"), dict):
        found["server"] = {name: reference(value) for name, value in found["server"].items()}
    return found


def _mistake(detail: ErrorDetails) -> Mistake:
    """One of pydantic's findings in our words."""
    path, kind = tuple(detail["loc"]), detail["type"]
    is_key = bool(path) and path[-1] == "[key]"
    path = path[:-1] if is_key else path
    wrong = detail.get("ctx", {}).get("error")
    if isinstance(wrong, kinds.Wrong):
        return Mistake(path, wrong.what, wrong.hint, is_key)
    if kind == "missing":
        return Mistake(path, f"{'.'.join(map(str, path))} is missing", absent=True)
    if kind == "extra_forbidden":
        return Mistake(path, f"unknown key {str(path[-1])!r}", _where_known(path), key=True)
    what, hint = _KINDS.get(kind, (detail["msg"], ""))
    return Mistake(path, what, hint, is_key)


def _where_known(path: Path) -> str:
    """The nearest key there, or where a key of that very name belongs."""
    key, here = str(path[-1]), ".".join(map(str, path[:-1]))
    sections = _sections()
    for name, section in sections.items():
        if key in section.model_fields and name != here:
            return f"it belongs under {name}:" if name else "it belongs at the top"
    known = list(sections[here].model_fields) if here in sections else []
    return nearest(key, known if here else [*known, "extends"])


def _sections() -> dict[str, type[BaseModel]]:
    fields = {name: field.annotation for name, field in Profile.model_fields.items()}
    parts = {
        name: kind for name, kind in fields.items() if isinstance(kind, type) and issubclass(kind, Section)
    }
    return {"": Profile, **parts}


def _conflicts(data: dict[str, Any]) -> Iterator[Mistake]:
    """What is right by itself and wrong together; looked for beside what is wrong by itself."""
    server, env = _mapping(data, "server"), _mapping(data, "env")
    engine = next((known for known in engines.all_engines() if known.name == data.get("engine")), None)
    if server.get("venv") and server.get("python"):
        yield Mistake(("server", "python"), "venv and python are both set", "unset one: null", key=True)
    yield from _variable_conflicts(server, env)
    yield from _argument_conflicts(_mapping(server, "args"), engine)
    if engine is not None:
        yield from _engine_conflicts(server, env, engine)
    yield from _bench_conflicts(_mapping(data, "bench"))


def _bench_conflicts(bench: dict[str, Any]) -> Iterator[Mistake]:
    """Parameters of another benchmark, and a run that is counted and timed."""
    said = [name for name, value in bench.items() if value is not None]
    odd = next((name for name in said if name in benchmarks.SERVE_ONLY), "")
    if odd and bench.get("name", "decode") == "decode":
        yield Mistake(("bench", odd), f"{odd} is of the benchmark serve", "name: serve", key=True)
    if "requests" in said and "seconds" in said:
        what = "a run has so many requests, or lasts so long, not both"
        yield Mistake(("bench", "seconds"), what, "unset one: null", key=True)


def _variable_conflicts(server: dict[str, Any], env: dict[str, Any]) -> Iterator[Mistake]:
    """Variables that are set twice."""
    inherited = server.get("inherit") if isinstance(server.get("inherit"), list) else []
    are_listed = server.get("gpus") not in (None, [], (), "all", ["all"], ("all",))
    if are_listed and _CUDA in env:
        yield Mistake(("env", _CUDA), f"{_CUDA} is set by server.gpus", "leave one of them out", key=True)
    for index, name in enumerate(inherited or []):
        if name in _FIXED:
            yield Mistake(("server", "inherit", index), f"{name} is set by Stoker", "set it under env:")
        elif name == _CUDA and are_listed:
            yield Mistake(
                ("server", "inherit", index), f"{name} is set by server.gpus", "leave one of them out"
            )


def _argument_conflicts(args: dict[str, Any], engine: Engine | None) -> Iterator[Mistake]:
    """Arguments that Stoker adds itself, that show a key, or that stand there twice."""
    ours: dict[str, str] = {}
    if engine is not None and engine.command:
        ours = {engine.model_flag: "model", engine.host_flag: "bind", engine.port_flag: "port"}
    seen: dict[str, str] = {}
    for key in args:
        at, flag = ("server", "args", key), flag_of(key)
        if flag in ours:
            yield Mistake(at, f"{key} is set by server.{ours[flag]}", key=True)
        if flag.lstrip("-").replace("_", "-") == "api-key":
            hint = "write server.api_key: !secret NAME"
            yield Mistake(at, "a command line shows a key to everybody", hint, key=True)
        if flag in seen:
            yield Mistake(at, f"{key} and {seen[flag]} are the same argument", key=True)
        seen[flag] = key


def _engine_conflicts(server: dict[str, Any], env: dict[str, Any], engine: Engine) -> Iterator[Mistake]:
    if not engine.command and not server.get("command"):
        hint = f"engine {engine.name} has no command of its own"
        yield Mistake(("server", "command"), "server.command is missing", hint, absent=True)
    if server.get("api_key") is None:
        return
    if not engine.api_key_env:
        what = f"{engine.name} reads no API key from its environment, and a command line would show it"
        yield Mistake(("server", "api_key"), what)
    elif engine.api_key_env in env:
        what = f"{engine.api_key_env} is set under env: too"
        yield Mistake(("server", "api_key"), what, "leave one of them out")


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}
