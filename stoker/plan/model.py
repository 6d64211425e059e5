"""What a launch plan is: complete, so that nobody re-reads a profile after planning."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.config.profiles.sections import Ready
from stoker.engines.base import Engine


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
        command: What is run, behind the profile's ``wrap``; ``{python}`` is the profile's interpreter.
        engine: How its processes look and what it imports.
        kill: How it is ended.
    """

    slot: str
    command: tuple[str, ...]
    engine: Engine
    kill: KillPolicy
