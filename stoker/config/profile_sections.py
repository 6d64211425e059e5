"""The sections of a profile, as typed data."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from stoker import benchmarks
from stoker.config import profile_types as types


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

    name: types.Name = "default"
    model: types.Model
    served_name: types.Lines = ()
    bind: types.Address = "127.0.0.1"
    port: types.Port
    gpus: types.Gpus = ()
    venv: types.Absolute | None = None
    python: types.Program | None = None
    command: tuple[types.Text, ...] = ()
    args: types.Arguments = Field(default_factory=dict)
    inherit: tuple[types.Variable, ...] = ()
    setup: tuple[types.Command, ...] = ()
    wrap: tuple[types.Text, ...] = ()
    api_key: types.Key | None = None


class Hooks(Section):
    """Shell commands around a restart.

    Args:
        before_stop: Before the old server is ended; one that fails stops the restart.
        after_ready: Once the new one is ready and its tuning proven.
        drain_s: Waited after ``before_stop``, at most, until the engine counts no running request.
    """

    before_stop: tuple[types.Command, ...] = ()
    after_ready: tuple[types.Command, ...] = ()
    drain_s: types.Seconds = 0.0


class Ready(Section):
    """When waiting for readiness ends without it.

    Args:
        timeout_s: Seconds since the launch.
        stall_s: Seconds without any sign of work: no log line, no CPU or disk activity.
    """

    timeout_s: types.Seconds = 3600.0
    stall_s: types.Seconds = 1200.0


class Kill(Section):
    """What a clean kill spares, and how patient it is.

    Args:
        protect: What is never ended: exact process names, or ``cmd:REGEX`` over the command line.
        grace_s: Seconds from SIGTERM to the launcher until the rest is signalled; without it the engine's.
    """

    protect: tuple[types.Protected, ...] = ()
    grace_s: types.Seconds | None = None


class Bench(Section):
    """The benchmark that a profile is judged by.

    Args:
        name: Which benchmark: ``decode``.
        runs: Measured runs, after one warm-up.
        tokens: Tokens that each request generates, at least 2.
        concurrency: Requests of a run, all at once.
    """

    name: types.Benchmark = benchmarks.Bench.name
    runs: types.Runs = benchmarks.Bench.runs
    tokens: types.Tokens = benchmarks.Bench.tokens
    concurrency: types.Concurrency = benchmarks.Bench.concurrency
