"""The sections of a profile, as typed data."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stoker.config import profile_kinds as kinds


class Section(BaseModel):
    """Frozen, and with no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Server(Section):
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
    args: kinds.Arguments = Field(default_factory=dict)
    inherit: tuple[kinds.Variable, ...] = ()
    setup: tuple[kinds.Command, ...] = ()
    wrap: tuple[kinds.Text, ...] = ()
    api_key: kinds.Key | None = None


class Hooks(Section):
    """Shell commands around a restart.

    Args:
        before_stop: Before the old server is ended.
        after_ready: Once the new one is ready.
        drain_s: Waited after ``before_stop``.
    """

    before_stop: tuple[kinds.Command, ...] = ()
    after_ready: tuple[kinds.Command, ...] = ()
    drain_s: kinds.Seconds = 0.0


class Ready(Section):
    """When waiting for readiness ends without it.

    Args:
        timeout_s: Since the launch.
        stall_s: Without any sign of work.
    """

    timeout_s: kinds.Seconds = 3600.0
    stall_s: kinds.Seconds = 1200.0


class Kill(Section):
    """What a clean kill spares, and how patient it is.

    Args:
        protect: Exact process names, or ``cmd:REGEX``.
        grace_s: From SIGTERM to the launcher until the rest is signalled; None: the engine's.
    """

    protect: tuple[kinds.Protected, ...] = ()
    grace_s: kinds.Seconds | None = None


class Bench(Section):
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
