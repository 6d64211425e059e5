"""The sections of a profile, as typed data."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stoker import benchmarks
from stoker.config import profile_kinds as kinds


class Section(BaseModel):
    """Frozen, and with no key that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Server(Section):
    """The server's process.

    Args:
        name: The slot on the host: one server a slot.
        model: An absolute path on the host, or a name in a hub.
        served_name: Model ids it answers to, where they follow neither from the model nor from the arguments;
            one, or a list.
        bind: IP address to listen on; ``0.0.0.0`` for all.
        port: TCP port to listen on.
        gpus: A list of indices or UUIDs, ``all``, or none: then the engine finds its own.
        venv: Virtual environment of the engine, an absolute path; its ``bin`` comes first on the PATH.
        python: Interpreter of the engine, in place of ``venv``'s.
        command: Words that are run in place of the engine's own command.
        args: The engine's arguments, name to value: ``true`` is the bare flag, a list several values after
            one flag, a mapping JSON; what is ``false`` or ``null`` is left out.
        inherit: Names of variables that are taken over from the login; all others are dropped.
        setup: Shell commands before the server is run; one that fails ends the launch.
        wrap: Words put before the server's command, such as ``[numactl, --interleave=all]``.
        api_key: The key that the server demands, as ``!secret NAME``.
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
        before_stop: Before the old server is ended; one that fails stops the restart.
        after_ready: Once the new one is ready and its tuning proven.
        drain_s: Waited after ``before_stop``, at most, until the engine counts no running request.
    """

    before_stop: tuple[kinds.Command, ...] = ()
    after_ready: tuple[kinds.Command, ...] = ()
    drain_s: kinds.Seconds = 0.0


class Ready(Section):
    """When waiting for readiness ends without it.

    Args:
        timeout_s: Seconds since the launch.
        stall_s: Seconds without any sign of work: no log line, no CPU or disk activity.
    """

    timeout_s: kinds.Seconds = 3600.0
    stall_s: kinds.Seconds = 1200.0


class Kill(Section):
    """What a clean kill spares, and how patient it is.

    Args:
        protect: What is never ended: exact process names, or ``cmd:REGEX`` over the command line.
        grace_s: Seconds from SIGTERM to the launcher until the rest is signalled; without it the engine's.
    """

    protect: tuple[kinds.Protected, ...] = ()
    grace_s: kinds.Seconds | None = None


class Bench(Section):
    """The benchmark that a profile is judged by.

    Args:
        name: Which benchmark: ``decode``.
        runs: Measured runs, after one warm-up.
        tokens: Tokens that each request generates, at least 2.
        concurrency: Requests of a run, all at once.
    """

    name: kinds.Benchmark = benchmarks.Bench.name
    runs: kinds.Runs = benchmarks.Bench.runs
    tokens: kinds.Tokens = benchmarks.Bench.tokens
    concurrency: kinds.Concurrency = benchmarks.Bench.concurrency
