"""Benchmarks that others wrote: what is run on the host, and where the figures stand in what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Tool:
    """Somebody else's load generator, as data: the host runs it and reads its file by this.

    Args:
        argv: What is run, found on the server's own ``PATH``; ``{url} {model} {tokenizer} {requests}
            {concurrency} {input} {output} {seed} {out}`` stand for what is asked, ``out`` is an empty folder.
            Within a word of JSON they are written as JSON has them.
        file: What it leaves in that folder: JSON.
        tokens: Where that tells how many tokens were generated: names and places in lists, dots between.
        seconds: Likewise, how long it took.
        completed: Likewise, how many requests ended well.
        figures: Name of a figure to where it stands, and what it is multiplied with to be of our unit; two
            places with a slash between are a quotient.
        env: Added to its environment.
        key_variable: Which variable it takes the server's key from; empty: it takes none but on its command
            line, where everybody on the host could read it.
        left_out: Names in its file that are not kept: what the server says of itself may hold its keys.
    """

    argv: tuple[str, ...]
    file: str
    tokens: str
    seconds: str
    completed: str
    figures: Mapping[str, tuple[str, float]]
    env: Mapping[str, str]
    key_variable: str = ""
    left_out: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The same as JSON types."""
        return {
            **vars(self),
            "argv": list(self.argv),
            "figures": {name: list(place) for name, place in self.figures.items()},
            "env": dict(self.env),
            "left_out": list(self.left_out),
        }


def get(name: str) -> Tool | None:
    """The tool that is called so; None: it is one of our own benchmarks."""
    return TOOLS.get(name)


def _latencies(
    ours: Mapping[str, str], percentiles: Mapping[str, str], factor: float
) -> dict[str, tuple[str, float]]:
    """Our names of latencies to places like ``p99_ttft_ms``."""
    return {
        f"{mine}{suffix}_s": (pattern.format(theirs), factor)
        for mine, theirs in ours.items()
        for suffix, pattern in percentiles.items()
    }


_GUIDELLM = {
    "": "benchmarks.0.metrics.{}.successful.median",
    "_p90": "benchmarks.0.metrics.{}.successful.percentiles.p90",
    "_p99": "benchmarks.0.metrics.{}.successful.percentiles.p99",
}

TOOLS: Mapping[str, Tool] = MappingProxyType(
    {
        "vllm-serve": Tool(
            argv=(
                *("vllm", "bench", "serve", "--backend", "openai", "--base-url", "{url}"),
                *("--model", "{model}", "--tokenizer", "{tokenizer}", "--dataset-name", "random"),
                *("--random-input-len", "{input}", "--random-output-len", "{output}", "--ignore-eos"),
                *("--num-prompts", "{requests}", "--max-concurrency", "{concurrency}", "--seed", "{seed}"),
                *("--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "90,99"),
                *(
                    "--disable-tqdm",
                    "--save-result",
                    "--result-dir",
                    "{out}",
                    "--result-filename",
                    "result.json",
                ),
            ),
            file="result.json",
            tokens="total_output_tokens",
            seconds="duration",
            completed="completed",
            figures={
                "req_s": ("request_throughput", 1.0),
                "input_tokens": ("total_input_tokens/completed", 1.0),
                "input_tok_s": ("total_input_tokens/duration", 1.0),
                **_latencies(
                    {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"},
                    {"": "median_{}_ms", "_p90": "p90_{}_ms", "_p99": "p99_{}_ms"},
                    0.001,
                ),
            },
            env={"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
            key_variable="OPENAI_API_KEY",
        ),
        "sglang-serving": Tool(
            argv=(
                # Newer versions warn that this is now sglang.benchmark.serving, which older ones do not have.
                *("python3", "-m", "sglang.bench_serving", "--backend", "sglang-oai", "--base-url", "{url}"),
                *("--model", "{model}", "--tokenizer", "{tokenizer}", "--dataset-name", "random-ids"),
                *("--random-input-len", "{input}", "--random-output-len", "{output}"),
                *("--random-range-ratio", "1.0", "--num-prompts", "{requests}", "--seed", "{seed}"),
                # Its own warm-up would ask the first prompt twice, the second time out of the prefix cache.
                *("--max-concurrency", "{concurrency}", "--warmup-requests", "0", "--disable-tqdm"),
                # It takes as many tokens for generated as it asked for, unless the server says in each chunk.
                *("--extra-request-body", '{"stream_options":{"continuous_usage_stats":true}}'),
                *("--output-file", "{out}/result.jsonl"),
            ),
            file="result.jsonl",  # a line a run, and each run has a folder of its own
            tokens="total_output_tokens",
            seconds="duration",
            completed="completed",
            figures={
                "req_s": ("request_throughput", 1.0),
                "input_tokens": ("total_input_tokens/completed", 1.0),
                "input_tok_s": ("total_input_tokens/duration", 1.0),
                **_latencies(
                    {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2e_latency"},
                    {"": "median_{}_ms", "_p90": "p90_{}_ms", "_p99": "p99_{}_ms"},
                    0.001,
                ),
            },
            env={"HF_HUB_OFFLINE": "1"},
            key_variable="OPENAI_API_KEY",
            left_out=("server_info",),
        ),
        "aiperf": Tool(
            argv=(
                *("aiperf", "profile", "--model", "{model}", "--url", "{url}", "--tokenizer", "{tokenizer}"),
                *("--endpoint-type", "completions", "--streaming", "--use-server-token-count"),
                *("--synthetic-input-tokens-mean", "{input}", "--synthetic-input-tokens-stddev", "0"),
                *("--output-tokens-mean", "{output}", "--output-tokens-stddev", "0"),
                *("--extra-inputs", "ignore_eos:true", "--request-count", "{requests}"),
                *("--concurrency", "{concurrency}", "--random-seed", "{seed}", "--ui", "none"),
                *("--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", "{out}"),
            ),
            file="profile_export_aiperf.json",
            tokens="total_output_tokens.avg",
            seconds="benchmark_duration.avg",
            completed="request_count.avg",
            figures={
                "req_s": ("request_throughput.avg", 1.0),
                "input_tokens": ("input_sequence_length.avg", 1.0),
                **_latencies(
                    {
                        "ttft": "time_to_first_token",
                        "tpot": "inter_token_latency",  # of a request, after its first token
                        "itl": "inter_chunk_latency",
                        "e2e": "request_latency",
                    },
                    {"": "{}.p50", "_p90": "{}.p90", "_p99": "{}.p99"},
                    0.001,
                ),
            },
            env={},  # offline it takes a folder with a tokenizer for the name of one
        ),
        "guidellm": Tool(
            argv=(
                *("guidellm", "run", "--disable-console", "--backend"),
                '{"kind":"openai_http","target":"{url}","model":"{model}","request_format":"/v1/completions"}',
                *("--profile", '{"kind":"concurrent","streams":[{concurrency}]}'),
                *("--constraint", '{"kind":"max_requests","count":{requests}}'),
                *("--tokenizer", '{"kind":"hf_auto","model":"{tokenizer}"}'),
                *("--data", '{"kind":"synthetic_text","prompt_tokens":{input},"output_tokens":{output}}'),
                *("--seed", '{"kind":"static","value":{seed}}'),
                *("--output", '{"kind":"json","path":"{out}/result.json"}'),
            ),
            file="result.json",
            tokens="benchmarks.0.metrics.output_token_count.successful.total_sum",
            seconds="benchmarks.0.duration",
            completed="benchmarks.0.metrics.request_totals.successful",
            figures={
                "req_s": ("benchmarks.0.metrics.requests_per_second.successful.mean", 1.0),
                "input_tokens": ("benchmarks.0.metrics.prompt_token_count.successful.mean", 1.0),
                **_latencies(
                    # Its time per output token counts the first one too; this is the pace after it.
                    {"ttft": "time_to_first_token_ms", "tpot": "inter_token_latency_ms"},
                    _GUIDELLM,
                    0.001,
                ),
                **_latencies({"e2e": "request_latency"}, _GUIDELLM, 1.0),
            },
            env={"HF_HUB_OFFLINE": "1"},
        ),
    }
)
