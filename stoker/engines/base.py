"""What an engine is, as data: the agent gets it as JSON and knows no engine by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ArgvShape:
    """How a launcher's command line is recognised: by structure, never by a word in it.

    A process matches when its program is ``program`` (base name of argv[0], or of argv[1] where argv[0] is a
    Python), or when it is a Python run with ``-m module``; and, where ``subcommand`` is given, when the first
    argument after that is the subcommand.

    Args:
        program: e.g. ``vllm``, ``llama-server``; empty where only a module is meant.
        module: e.g. ``sglang.launch_server``; empty where only a program is meant.
        subcommand: e.g. ``serve``; empty where there is none.
    """

    program: str = ""
    module: str = ""
    subcommand: str = ""


@dataclass(frozen=True)
class Stage:
    """A line of the engine's log that marks how far the start is.

    Args:
        name: For people, e.g. ``loading weights``.
        pattern: A Python regular expression, searched in one decoded line. A group named ``percent``
            (0..100), or groups ``done`` and ``total``, move the bar inside the stage.
        fraction: Of the whole start that is behind us when the stage begins, 0..1, rising.
    """

    name: str
    pattern: str
    fraction: float


@dataclass(frozen=True)
class FatalLine:
    """A line after which the server will not come up.

    Args:
        pattern: A Python regular expression, searched in one decoded line.
        cause: A short stable word: ``port-in-use``, ``model-missing``, ``out-of-memory``, ``bad-argument``, …
        advice: What to do next, as an imperative sentence.
        final: True ends the wait at once; False only names the cause once the process has died.
    """

    pattern: str
    cause: str
    advice: str
    final: bool = True


@dataclass(frozen=True)
class Metrics:
    """Names in the engine's Prometheus text; empty where it has none.

    Args:
        path: The HTTP path.
        running: Gauges whose sum is the number of requests that run now.
        waiting: Gauges whose sum is the number of requests that wait.
        finished: Counters whose sum is the number of requests ended since the start.
        generation_tokens: Counters whose sum is the number of tokens generated since the start.
        throughput: Gauges whose sum is the tokens a second that are made now.
        steps: Counters of decoding steps; only for an engine that counts a request's tokens at its end.
        cached: Counters of prompt tokens that came out of the prefix cache.
        looked_up: Counters of prompt tokens that were looked for in it.
        drafted: Counters of tokens that speculative decoding drafted.
        accepted: Counters of those that were accepted.
        accept_length: Gauges of the acceptance length, of an engine that counts neither.
        accept_rate: Gauges of the share that is accepted, likewise.
    """

    path: str = "/metrics"
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    generation_tokens: tuple[str, ...] = ()
    throughput: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    looked_up: tuple[str, ...] = ()
    drafted: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    accept_length: tuple[str, ...] = ()
    accept_rate: tuple[str, ...] = ()


@dataclass(frozen=True)
class Speculation:
    """What makes a server decode speculatively.

    Args:
        args: Patterns of the arguments that do, with dashes between the words and without them in front.
        env: Patterns of the variables that do.
        steps: Where the number of drafted tokens is said: ``args`` or ``env``, the name (``name.key`` for a
            key of a mapping), and what is added to the number there.
    """

    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    steps: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class Engine:
    """One inference engine.

    Args:
        name: As written in a profile.
        shapes: How its launcher's command line looks.
        titles: Regular expressions (full match) over a process title: processes of the engine that renamed
            themselves.
        workers: Regular expressions (full match) over a process title: those whose live environment must
            carry the tuning. Empty: the launcher itself.
        command: The argv before the arguments; ``{python}`` stands for the interpreter. Empty where the
            profile has to say it.
        model_flag: Flag that takes the model; empty: positional.
        host_flag: Flag that takes the bind address.
        port_flag: Flag that takes the port.
        api_key_env: Variable the engine reads its API key from; empty where there is none.
        import_name: Module that the preflight imports; empty where the engine is no Python program.
        distribution: Installed distribution whose version is the engine's; empty where there is none.
        version_argv: Command whose output tells the version, for engines that are no Python program.
        grace_s: From SIGTERM to the launcher until the rest is signalled.
        stages: In order.
        ready: Pattern of the log line that says it serves (a hint for the bar, never proof).
        fatal: Lines that tell why a start failed, the most telling first: of several that were seen, the
            first of this tuple names the cause.
        health_path: GET; 200 is necessary, never sufficient. Empty where it has none: then its list of models
            must answer.
        completion_path: POST; the OpenAI endpoint that continues a plain prompt.
        completion_extra: Fields the engine accepts and a benchmark wants, e.g. ``{"ignore_eos": true}``.
        stream_usage: Whether it takes ``stream_options: {"include_usage": true}``. Where it does not, it
            either sends the usage anyway or the chunks with content are all there is.
        lists_model: Whether its list of models tells what it serves. Where it does not, the answer to a
            completion has to name the model.
        info_paths: GET, JSON: what the running server says of itself, first that answers wins.
        info_passing: Fields of that which the engine makes up anew at each start: no arguments.
        metrics: Where it tells its load.
        speculation: How it is told to decode speculatively.
        flush_path: POST: empties its prefix cache, where that is switched on. Empty where it cannot.
        rewrites: Variables that the engine itself sets in its workers, name to value (``""``: any): no
            surprise there, and the reason why a profile's own value may not hold.
        env_prefixes: Prefixes of variables the engine reads, besides the general tuning prefixes.
        shm_prefixes: Base-name prefixes of files it leaves in /dev/shm.
        aliases: Other spellings of its flags, each with the one that a profile uses.
        repeats: Flags that add up when they are given again; of any other the last one counts.
    """

    name: str
    shapes: tuple[ArgvShape, ...] = ()
    titles: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    model_flag: str = ""
    host_flag: str = "--host"
    port_flag: str = "--port"
    api_key_env: str = ""
    import_name: str = ""
    distribution: str = ""
    version_argv: tuple[str, ...] = ()
    grace_s: float = 15.0
    stages: tuple[Stage, ...] = ()
    ready: str = ""
    fatal: tuple[FatalLine, ...] = ()
    health_path: str = "/health"
    completion_path: str = "/v1/completions"
    completion_extra: dict[str, Any] = field(default_factory=dict)
    stream_usage: bool = True
    lists_model: bool = True
    info_paths: tuple[str, ...] = ()
    info_passing: tuple[str, ...] = ()
    metrics: Metrics = Metrics()
    flush_path: str = ""
    speculation: Speculation = Speculation()
    rewrites: dict[str, str] = field(default_factory=dict)
    env_prefixes: tuple[str, ...] = ()
    shm_prefixes: tuple[str, ...] = ()
    aliases: dict[str, str] = field(default_factory=dict)
    repeats: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The same as JSON types, for the agent."""
        return asdict(self)
