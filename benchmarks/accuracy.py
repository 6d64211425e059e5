"""How exact the load generator of ``serve`` is, and what it costs, beside others on the same server.

    .venv/bin/python -m benchmarks.accuracy [--rounds 3] [--vllm BIN] [--aiperf BIN] [--tokenizer DIR]

The server is benchmarks/paced.c, which keeps an exact pace over real HTTP (compiled here by cc). Printed are,
as medians of rounds in which the tools take turns:

- throughput at concurrency 1, 32 and 256 (closed loop) against the pace that the server keeps, and the median
  time to the first token of arrivals in equal steps (open loop) against the server's; with the worst round;
- CPU time of the tool's processes for 1,000 tokens, from the difference of a long and a short run, so that
  nobody's start counts;
- requests a second that it gets done when each is two tokens long and the server answers at once: what a
  generator cannot exceed. The server has a limit too, far above.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.agent.generators import serve, workload
from stoker.agent.generators.stream import Target
from stoker.benchmarks import merge

TTFT_S = 0.2
TARGET_ERROR, TARGET_TTFT_S = 0.005, 0.001
# Concurrency, tokens a second of each stream, tokens of each request. Long ones: that so many cannot begin at
# the same moment is no error of the throughput.
LEVELS = ((1, 100.0, 401), (32, 50.0, 201), (256, 10.0, 81))
SHORT = 21  # tokens, where it is the first one that counts
COST = (32, 50.0, 60)
FAST = "plain@1000000@0"


@dataclass(frozen=True)
class Load:
    """What a tool is asked to do.

    Args:
        model: How the server answers: ``plain@PACE@TTFT``.
        output: Tokens of each request.
        requests: How many.
        concurrency: At once; 0: at the rate.
        rate: Requests a second in equal steps; 0: so many at once.
    """

    model: str
    output: int
    requests: int
    concurrency: int = 0
    rate: float = 0.0


@dataclass(frozen=True)
class Told:
    """What a tool says of it, and what it cost.

    Args:
        tok_s: Output tokens a second.
        ttft_s: Median.
        req_s: Requests a second.
        tokens: In all.
        cpu_s: Of its processes, from their start to their end.
    """

    tok_s: float
    ttft_s: float
    req_s: float
    tokens: int
    cpu_s: float


Tool = Callable[[Load, int], Told]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vllm", help="the program vllm, for vllm bench serve")
    parser.add_argument("--aiperf", help="the program aiperf")
    parser.add_argument("--tokenizer", help="a folder with a tokenizer, for both of them")
    parser.add_argument("--part", choices=("accuracy", "cost", "rate"), action="append")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(_ours_here(Load(**json.loads(args.one)), args.port)))
        return
    tools: dict[str, Tool] = {"stoker": _ours}
    if args.vllm:
        tools["vllm bench serve"] = lambda load, port: _vllm(args.vllm, args.tokenizer, load, port)
    if args.aiperf:
        tools["aiperf"] = lambda load, port: _aiperf(args.aiperf, args.tokenizer, load, port)
    parts = {"accuracy": _accuracy, "cost": _cost, "rate": _rate}
    with _server() as port:
        for name in args.part or parts:
            parts[name](tools, port, args.rounds)


@contextlib.contextmanager
def _server() -> Iterator[int]:
    """The port of a server while it runs."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        program = Path(folder) / "paced"
        subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name("paced.c")], check=True)
        with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield int(server.stdout.readline().split()[1])
            finally:
                server.kill()


def _accuracy(tools: dict[str, Tool], port: int, rounds: int) -> None:
    print(f"{'tool':<18} {'at once':>7}  {'throughput error':>24}  {'median TTFT error':>24}")
    for concurrency, pace, output in LEVELS:
        model, seconds = f"plain@{pace}@{TTFT_S}", TTFT_S + (output - 1) / pace
        closed = Load(model, output, 2 * concurrency if concurrency > 1 else 3, concurrency)
        rate = concurrency / (TTFT_S + (SHORT - 1) / pace)
        opened = Load(model, SHORT, max(20, 2 * concurrency), rate=rate)
        errors: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in tools}
        for _ in range(rounds):
            for name, tool in tools.items():
                paced, first = errors[name]
                paced.append(tool(closed, port).tok_s / (concurrency * output / seconds) - 1)
                first.append(tool(opened, port).ttft_s - TTFT_S)
        for name, (paced, first) in errors.items():
            print(
                f"{name:<18} {concurrency:>7}  {_signed(paced, 100, '%'):>24}"
                f"  {_signed(first, 1000, 'ms'):>24}",
                flush=True,
            )
    print(f"targets of stoker: {100 * TARGET_ERROR} %, {1000 * TARGET_TTFT_S} ms (median, worst)\n")


def _cost(tools: dict[str, Tool], port: int, rounds: int) -> None:
    concurrency, pace, output = COST
    short = Load(f"plain@{pace}@{TTFT_S}", output, 2 * concurrency, concurrency)
    long = Load(short.model, output, 10 * concurrency, concurrency)
    found: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, tool in tools.items():
            one, other = tool(short, port), tool(long, port)
            found[name].append(1000 * (other.cpu_s - one.cpu_s) / (other.tokens - one.tokens))
    _ratios("CPU for 1,000 tokens", {name: [1000 * x for x in many] for name, many in found.items()}, "ms")


def _rate(tools: dict[str, Tool], port: int, rounds: int) -> None:
    load = Load(FAST, 2, 4000, 64)
    found: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(rounds):
        for name, tool in tools.items():
            found[name].append(tool(load, port).req_s)
    _ratios("requests done a second", found, "/s")


def _ratios(title: str, found: dict[str, list[float]], unit: str) -> None:
    print(title)
    own = statistics.median(found["stoker"])
    for name, values in found.items():
        middle = statistics.median(values)
        told = ", ".join(f"{value:.1f}" for value in values)
        print(f"{name:<18} {middle:>10.1f} {unit}  {middle / own:6.2f} × stoker's   ({told})", flush=True)
    print()


def _signed(errors: Sequence[float], factor: float, unit: str) -> str:
    worst = max(errors, key=abs)
    return f"{factor * statistics.median(errors):+.3f} {unit} ({factor * worst:+.3f})"


def _run(argv: Sequence[str], **more: Any) -> tuple[str, float]:
    """(what it printed, CPU seconds of it and its children)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _expect_all(done: float, load: Load) -> None:
    """A tool that lost requests did less work."""
    if done != load.requests:
        raise SystemExit(f"{done:.0f} of {load.requests} requests were done")


def _ours(load: Load, port: int) -> Told:
    """In a process of its own, as the others are."""
    argv = [sys.executable, "-m", "benchmarks.accuracy", "--port", str(port), "--one", json.dumps(vars(load))]
    text, cpu_s = _run(argv)
    return Told(**json.loads(text), cpu_s=cpu_s)


def _ours_here(load: Load, port: int) -> dict[str, float]:
    """What a run of ``serve`` came to."""
    given = {"name": "serve", "runs": 1, "requests": load.requests, "input": 16, "output": load.output}
    given |= {"rate": load.rate, "arrivals": "fixed"} if load.rate else {"concurrency": load.concurrency}
    asked = workload.wanted(merge(given).to_wire())
    target = Target("127.0.0.1", port, {}, "/v1/completions", load.model, {"ignore_eos": True})
    run = serve.measure(target, asked, str(os.getpid())).runs[0]
    if not run["valid"]:
        raise SystemExit(run["why"])
    return {
        "tok_s": run["tok_s"],
        "ttft_s": run["ttft_s"],
        "req_s": run["figures"]["req_s"],
        "tokens": run["tokens"],
    }


def _vllm(program: str, tokenizer: str, load: Load, port: int) -> Told:
    """``vllm bench serve``."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        how = ["--request-rate", str(load.rate)] if load.rate else ["--request-rate", "inf"]
        how += ["--burstiness", "1000000"] if load.rate else ["--max-concurrency", str(load.concurrency)]
        argv = [program, "bench", "serve", "--backend", "openai", "--base-url", f"http://127.0.0.1:{port}"]
        argv += ["--model", load.model, "--tokenizer", tokenizer, "--dataset-name", "random"]
        argv += ["--random-input-len", "16", "--random-output-len", str(load.output), "--ignore-eos"]
        argv += ["--num-prompts", str(load.requests), *how, "--disable-tqdm"]
        argv += ["--save-result", "--result-dir", folder, "--result-filename", "it.json"]
        _, cpu_s = _run(argv, env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"})
        told = json.loads((Path(folder) / "it.json").read_text())
    _expect_all(told["completed"], load)
    return Told(
        told["output_throughput"],
        told["median_ttft_ms"] / 1000,
        told["request_throughput"],
        told["total_output_tokens"],
        cpu_s,
    )


def _aiperf(program: str, tokenizer: str, load: Load, port: int) -> Told:
    """``aiperf profile``."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        how = ["--request-rate", str(load.rate), "--request-rate-mode", "constant"]
        how = how if load.rate else ["--concurrency", str(load.concurrency)]
        argv = [program, "profile", "--model", load.model, "--url", f"http://127.0.0.1:{port}"]
        argv += ["--endpoint-type", "completions", "--streaming", "--tokenizer", tokenizer, "--ui", "none"]
        argv += ["--synthetic-input-tokens-mean", "16", "--output-tokens-mean", str(load.output)]
        argv += ["--extra-inputs", "ignore_eos:true", "--request-count", str(load.requests), *how]
        argv += ["--use-server-token-count", "--no-gpu-telemetry", "--no-server-metrics"]
        argv += ["--artifact-dir", folder]
        _, cpu_s = _run(argv)  # offline it takes the folder for a name
        told = json.loads((Path(folder) / "profile_export_aiperf.json").read_text())
    _expect_all(told["request_count"]["avg"], load)
    return Told(
        told["output_token_throughput"]["avg"],
        told["time_to_first_token"]["p50"] / 1000,
        told["request_throughput"]["avg"],
        load.requests * load.output,
        cpu_s,
    )


if __name__ == "__main__":
    main()
