"""The words of a server's command, and what else its arguments tell a plan."""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING, Any

from stoker.config.profiles.profile import flag_of

if TYPE_CHECKING:
    from stoker.config.profiles.profile import Profile
    from stoker.config.profiles.sections import Server
    from stoker.engines.base import Engine

# Where an engine is told the name that it answers to, by argument or by variable.
_SERVED_FLAGS = ("--served-model-name", "--served_model_name", "--alias", "-a")
_SERVED_VARIABLES = ("LLAMA_ARG_ALIAS",)
_DRAIN_FLAG = "--shutdown-timeout"  # an engine that is told to drain needs that long on top of its grace


def python(server: Server, engine: Engine) -> str:
    """The interpreter of a Python engine; empty where nothing says which."""
    if server.python:
        return server.python
    if server.venv:
        return f"{server.venv}/bin/python"
    return "python3" if "{python}" in engine.command else ""


def bin_folders(server: Server) -> list[str]:
    """Folders that go first on the PATH: an engine's tools are beside its interpreter."""
    if server.venv:
        return [f"{server.venv}/bin"]
    folder = posixpath.dirname(server.python or "")
    return [folder] if folder else []


def argv(server: Server, engine: Engine, python: str) -> list[str]:
    """The whole command. To an engine without a command of its own nothing is added but the arguments."""
    argv = [*server.wrap, *(server.command or [python if w == "{python}" else w for w in engine.command])]
    if engine.command:
        argv += [engine.model_flag, server.model] if engine.model_flag else [server.model]
        argv += [engine.host_flag, server.bind, engine.port_flag, str(server.port)]
    for flag, value in _flags(server).items():
        if flag in engine.repeats and isinstance(value, tuple):
            argv += [word for one in value for word in (flag, one)]
        elif value != ():
            argv += [flag, *_words(value)]
    return argv


def _flags(server: Server) -> dict[str, Any]:
    return {flag_of(key): value for key, value in server.args.items()}


def _words(value: Any) -> list[str]:
    """What stands after a flag: nothing, a text, several, or JSON."""
    if value is True:
        return []
    if isinstance(value, dict):
        return [json.dumps(value, ensure_ascii=False, separators=(",", ":"))]
    return [value] if isinstance(value, str) else list(value)


def served_names(profile: Profile) -> tuple[str, ...]:
    """Model ids, one of which the server must report: the model itself where it is told no other."""
    server, flags = profile.server, _flags(profile.server)
    told = [word for flag in _SERVED_FLAGS for word in _words(flags.get(flag, ()))]
    told += [value for name in _SERVED_VARIABLES if isinstance(value := profile.env.get(name), str)]
    aliases = [alias.strip() for word in told for alias in (word, *word.split(","))]
    names = server.served_name or aliases or (server.model, posixpath.basename(server.model.rstrip("/")))
    return tuple(dict.fromkeys(name for name in names if name))


def grace_s(profile: Profile, engine: Engine) -> float:
    """From SIGTERM to the launcher until the rest is signalled."""
    if profile.kill.grace_s is not None:
        return profile.kill.grace_s
    drain = _flags(profile.server).get(_DRAIN_FLAG)
    return engine.grace_s + (float(drain) if isinstance(drain, str) and drain.isdecimal() else 0.0)
