"""Host + profile → LaunchPlan: complete, so that nobody re-reads a profile after planning."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker import engines
from stoker.config import script
from stoker.config.profile import Profile, SecretRef, flag_of
from stoker.config.profile_sections import Ready
from stoker.engines.base import Engine

if TYPE_CHECKING:
    from stoker.config.inventory import Host
    from stoker.config.profile_sections import Server
    from stoker.config.secrets import Secrets

_TEMPLATES = Path(__file__).parent / "templates"
_KEPT = (
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "STOKER_LAUNCH",
    "STOKER_GPUS",
)  # the last two: from the launcher
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Where an engine is told the name that it answers to, by argument or by variable.
_SERVED_FLAGS = ("--served-model-name", "--served_model_name", "--alias", "-a")
_SERVED_VARIABLES = ("LLAMA_ARG_ALIAS",)
_DRAIN_FLAG = "--shutdown-timeout"  # an engine that is told to drain needs that long on top of its grace


@dataclass(frozen=True)
class KillPolicy:
    """What a clean kill may touch, and how long it is patient.

    Args:
        protect: Exact process names, or ``cmd:REGEX`` over the command line: never ended.
        grace_s: From SIGTERM to the launcher until the rest is signalled.
    """

    protect: tuple[str, ...] = ()
    grace_s: float = Engine.grace_s


@dataclass(frozen=True)
class HookPolicy:
    """What is done around this server, on the host, each line by ``/bin/sh``.

    Args:
        before_stop: Commands before it is ended; one that fails stops everything before the first signal.
        after_ready: Commands once it is ready and proven.
        drain_s: After ``before_stop``, at most so long until the engine counts no running request.
    """

    before_stop: tuple[str, ...] = ()
    after_ready: tuple[str, ...] = ()
    drain_s: float = 0.0


@dataclass(frozen=True)
class ReadyPolicy:
    """When waiting ends without a ready server.

    Args:
        timeout_s: Since the launch.
        stall_s: Without a new log byte, CPU or disk activity.
    """

    timeout_s: float = Ready().timeout_s
    stall_s: float = Ready().stall_s


@dataclass(frozen=True)
class LaunchPlan:
    """Everything needed to end, start, prove and measure one server on one host.

    Args:
        host: The inventory's name.
        profile: The profile's name.
        profile_hash: 12 hex digits over the resolved profile; equal exactly when the resolved profiles are.
        slot: Name of the server on the host: one server a slot.
        engine: What the engine is.
        model: As given to the engine.
        model_path: The model as a path that must be readable on the host; empty for a hub's name.
        served_names: Model ids, one of which the server must report (exact, or the base name of a path).
        bind: Address it listens on.
        port: TCP port it listens on.
        gpus: Indices, UUIDs, or ``("all",)``; empty for none.
        python: Interpreter that runs a Python engine; empty for others.
        path: The script's ``PATH`` before its setup.
        setup: Shell commands of the profile that run before the server; what fails ends the launch.
        env: Exactly what the profile sets, name to exact string. Without secrets.
        inherit: Names taken over from the login where it has them.
        secrets: Name to value. Never rendered, recorded or printed.
        expect: Name to the value an engine is known to turn a variable into.
        argv: The server's command, wrap included. For display and records; the script runs it.
        script: The launch script, whole.
        kill: What may be ended.
        ready: When waiting ends.
        hooks: What is done before it is ended and once it is ready.
        bench: Benchmark parameters of the profile (``name runs tokens concurrency``).
        resolved: The resolved profile as plain data, for the record.
    """

    host: str
    profile: str
    profile_hash: str
    slot: str
    engine: Engine
    model: str
    model_path: str
    served_names: tuple[str, ...]
    bind: str
    port: int
    gpus: tuple[int | str, ...]
    python: str
    path: str
    setup: tuple[str, ...]
    env: dict[str, str]
    inherit: tuple[str, ...]
    expect: dict[str, str]
    argv: tuple[str, ...]
    script: str
    kill: KillPolicy
    ready: ReadyPolicy
    bench: dict[str, Any]
    resolved: dict[str, Any]
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    hooks: HookPolicy = HookPolicy()

    def to_wire(self) -> dict[str, Any]:
        """The same as JSON types, for the agent: secrets too, they travel inside the encrypted channel."""
        return asdict(self)


@dataclass(frozen=True)
class Instead:
    """What is launched in a server's environment in place of the server.

    Args:
        slot: Its own, beside the server's.
        program: Python code that the profile's interpreter runs.
        engine: How its processes look and what it imports.
        kill: How it is ended.
    """

    slot: str
    program: str
    engine: Engine
    kill: KillPolicy


def build(
    host: Host,
    profile_name: str,
    profile: Profile,
    *,
    secrets: Secrets | None,
    templates: Sequence[Path],
    instead: Instead | None = None,
) -> LaunchPlan:
    """The complete plan of a resolved profile on a host.

    Args:
        host: The host.
        profile_name: The profile's name, or ``run:RUN-ID``.
        profile: As resolved for this host.
        secrets: Where secrets are looked up; None leaves them out, for a plan that launches nothing.
        templates: Folders with the user's launch templates: the first of ``PROFILE.sh.j2``, ``ENGINE.sh.j2``
            and ``launch.sh.j2`` that is there is taken, else Stoker's own.
        instead: What runs in place of the server, on no port; None: the server.

    Raises:
        InputError: There is no such secret, or a launch template is wrong.
    """
    server, engine = profile.server, engines.get(profile.engine)
    python = _python(server, engine)
    argv, slot = _argv(server, engine, python), server.name
    if instead is not None:
        python, slot = python or "python3", instead.slot
        argv = [*server.wrap, python, "-c", instead.program]
    path = ":".join([*_bin_folders(server), _PATH])
    env = {name: value for name, value in profile.env.items() if isinstance(value, str)}
    references = _references(profile, engine)
    context = {
        "profile": profile_name,
        "hash": profile.hash,
        "host": host.name,
        "slot": slot,
        "engine": engine.name,
        "kept": [*_KEPT, *server.inherit],
        "path": path,
        "gpus": [] if server.gpus == ("all",) else list(server.gpus),
        "env": env,
        "secrets": bool(references),
        "setup": list(server.setup),
        "argv": argv,
    }
    names = [f"{profile_name}.sh.j2", f"{engine.name}.sh.j2", "launch.sh.j2"]
    plan = LaunchPlan(
        host=host.name,
        profile=profile_name,
        profile_hash=profile.hash,
        slot=slot,
        engine=engine,
        model=server.model,
        model_path=server.model if server.model.startswith("/") else "",
        served_names=_served_names(profile),
        bind=server.bind,
        port=server.port,
        gpus=server.gpus,
        python=python,
        path=path,
        setup=tuple(server.setup),
        env=env,
        inherit=server.inherit,
        expect=dict(profile.expect),
        argv=tuple(argv),
        script=script.render(names, [*templates, _TEMPLATES], context),
        kill=KillPolicy(profile.kill.protect, _grace_s(profile, engine)),
        ready=ReadyPolicy(profile.ready.timeout_s, profile.ready.stall_s),
        bench=profile.bench.model_dump(),
        resolved=profile.to_plain(),
        secrets={} if secrets is None else _values(references, secrets, host),
        hooks=HookPolicy(profile.hooks.before_stop, profile.hooks.after_ready, profile.hooks.drain_s),
    )
    if instead is None:
        return plan
    # Nothing listens, nobody drains it, and no engine turns a variable into another.
    return replace(plan, engine=instead.engine, kill=instead.kill, port=0, hooks=HookPolicy(), expect={})


def _python(server: Server, engine: Engine) -> str:
    """The interpreter of a Python engine; empty where nothing says which."""
    if server.python:
        return server.python
    if server.venv:
        return f"{server.venv}/bin/python"
    return "python3" if "{python}" in engine.command else ""


def _bin_folders(server: Server) -> list[str]:
    """Folders that go first on the PATH: an engine's tools are beside its interpreter."""
    if server.venv:
        return [f"{server.venv}/bin"]
    folder = posixpath.dirname(server.python or "")
    return [folder] if folder else []


def _argv(server: Server, engine: Engine, python: str) -> list[str]:
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


def _served_names(profile: Profile) -> tuple[str, ...]:
    """Model ids, one of which the server must report: the model itself where it is told no other."""
    server, flags = profile.server, _flags(profile.server)
    told = [word for flag in _SERVED_FLAGS for word in _words(flags.get(flag, ()))]
    told += [value for name in _SERVED_VARIABLES if isinstance(value := profile.env.get(name), str)]
    aliases = [alias.strip() for word in told for alias in (word, *word.split(","))]
    names = server.served_name or aliases or (server.model, posixpath.basename(server.model.rstrip("/")))
    return tuple(dict.fromkeys(name for name in names if name))


def _grace_s(profile: Profile, engine: Engine) -> float:
    """From SIGTERM to the launcher until the rest is signalled."""
    if profile.kill.grace_s is not None:
        return profile.kill.grace_s
    drain = _flags(profile.server).get(_DRAIN_FLAG)
    return engine.grace_s + (float(drain) if isinstance(drain, str) and drain.isdecimal() else 0.0)


def _references(profile: Profile, engine: Engine) -> dict[str, SecretRef]:
    """The variables whose values are secrets."""
    found = {name: value for name, value in profile.env.items() if isinstance(value, SecretRef)}
    if profile.server.api_key is not None:
        found[engine.api_key_env] = profile.server.api_key
    return found


def _values(references: dict[str, SecretRef], secrets: Secrets, host: Host) -> dict[str, str]:
    return {
        variable: secrets.referred(reference.name, host.vars, where=reference.place)
        for variable, reference in references.items()
    }
