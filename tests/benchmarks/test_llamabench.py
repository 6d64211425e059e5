"""What of a server's settings ``llama-bench`` is told, and what it can be asked for."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.benchmarks import levels, llamabench, merge
from stoker.engines import get
from stoker.errors import InputError


def settings(args: dict[str, Any], env: dict[str, str] | None = None) -> llamabench.Settings:
    return llamabench.settings(args, env or {}, get("llamacpp").aliases)


@pytest.mark.parametrize(
    ("args", "argv"),
    [
        ({"--threads": 8, "-ub": 256}, ("--threads", "8", "--ubatch-size", "256")),
        ({"-ngl": "all"}, ("--n-gpu-layers", "999")),
        ({"--gpu-layers": 20}, ("--n-gpu-layers", "20")),
        ({"--n-gpu-layers": "auto"}, ()),
        ({"--flash-attn": True}, ("--flash-attn", "1")),
        ({"-fa": "off"}, ("--flash-attn", "0")),
        ({"-fa": "auto"}, ()),
        (
            {"--tensor-split": "3,1", "--device": "CUDA0,CUDA1"},
            ("--tensor-split", "3/1", "--device", "CUDA0/CUDA1"),
        ),
        ({"-ot": ("a=CPU", "b=CPU")}, ("--override-tensor", "a=CPU;b=CPU")),
        ({"--no-kv-offload": True}, ("--no-kv-offload", "1")),
    ],
)
def test_a_servers_arguments_are_told_as_llama_bench_takes_them(
    args: dict[str, Any], argv: tuple[str, ...]
) -> None:
    assert settings(args) == llamabench.Settings(argv, ())


def test_a_servers_variables_are_told_as_arguments_for_llama_bench_reads_none() -> None:
    env = {"LLAMA_ARG_THREADS": "4", "LLAMA_ARG_FLASH_ATTN": "on", "LLAMA_ARG_N_PARALLEL": "8", "GGML_X": "1"}
    found = settings({"-t": 2}, env)
    assert found.argv == ("--threads", "2", "--flash-attn", "1"), "an argument wins over a variable"
    assert found.left == ("LLAMA_ARG_N_PARALLEL",)


def test_what_only_a_server_has_is_named() -> None:
    assert settings({"--ctx-size": 4096, "--metrics": True, "--alias": ()}).left == (
        "--ctx-size",
        "--metrics",
    )


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (("llama-server", "-m", "x"), "llama-bench"),
        (("/opt/llama/llama-server",), "/opt/llama/llama-bench"),
        (("numactl", "-i", "all", "/opt/l/llama-server"), "/opt/l/llama-bench"),
        (("python", "serve.py"), "llama-bench"),
    ],
)
def test_the_program_lies_beside_the_server(command: tuple[str, ...], program: str) -> None:
    assert llamabench.program(command) == program


def test_what_it_is_asked_for_survives_a_record_and_only_runs_come_from_another_benchmark() -> None:
    (bench,) = levels(
        {"name": "serve", "runs": 3, "rate": [1, 2], "input": "256-768"}, {"name": "llama-bench"}
    )
    assert isinstance(bench, llamabench.LlamaBench)
    assert (bench.runs, bench.input, bench.output, bench.judged) == (3, "512", "128", "decode_tok_s")
    assert bench.size == "pp512+tg128"
    assert merge(bench.to_wire()) == bench


@pytest.mark.parametrize(
    "odd",
    [{"concurrency": "4"}, {"input": "256-768"}, {"output": "0"}, {"runs": "9999"}, {"tokenizer": "/t"}],
)
def test_what_it_does_not_know_is_refused(odd: dict[str, str]) -> None:
    with pytest.raises(InputError):
        merge({}, {"name": "llama-bench", **odd})
