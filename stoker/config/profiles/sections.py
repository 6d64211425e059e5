"""The sections of a profile, as typed data."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from stoker import benchmarks
from stoker.config.profiles import types as types


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
        name: Which benchmark: ``decode`` or ``serve``.
        runs: Measured runs, after one warm-up.
        tokens: Tokens that each request of ``decode`` generates, at least 2.
        concurrency: Requests at once.
        rate: Of ``serve``: requests a second, or a list of such loads; without it so many at once.
        arrivals: Of ``serve`` at a rate: ``poisson`` (as it is without) or ``fixed``.
        requests: Of ``serve``: how many a run has.
        seconds: Of ``serve``, in place of their number: how long requests arrive.
        input: Of ``serve``: tokens of a prompt: ``512``, ``256-768``, ``normal:512:128``,
            ``lognormal:512:300:16-4096`` (mean, standard deviation, bounds).
        output: Of ``serve``: tokens that are asked for, likewise.
        seed: Of ``serve``: of lengths and arrivals.
        goodput: Of ``serve``: limits of a good request in seconds: ``ttft=0.5,tpot=0.05,e2e=10``.
    """

    name: types.Benchmark = benchmarks.Bench.name
    runs: types.Runs = benchmarks.Bench.runs
    tokens: types.Tokens = benchmarks.Bench.tokens
    concurrency: types.Concurrency = benchmarks.Bench.concurrency
    rate: types.Rates | None = None
    arrivals: types.Arrivals | None = None
    requests: types.Requests | None = None
    seconds: types.RunSeconds | None = None
    input: types.InputLengths | None = None
    output: types.OutputLengths | None = None
    seed: types.Seed | None = None
    goodput: types.Goodput | None = None

    @model_serializer(mode="wrap")
    def _told(self, inner: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What is not said is not told: records and plans of ``decode`` look as they always did."""
        told: dict[str, Any] = inner(self)
        return {name: value for name, value in told.items() if value is not None}
