"""The engines' arguments: their real help as data, and the stored lists that were made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker import engines
from stoker.engines import arguments
from stoker.engines.arguments import Argument

HELP = Path(__file__).parents[1] / "cases" / "help"
ENGINES = sorted(path.stem for path in HELP.iterdir())


@pytest.mark.parametrize("name", ENGINES)
def test_stored_list_is_what_the_real_help_says(name: str) -> None:
    stored = arguments.load(name)
    assert stored is not None
    assert stored.items == arguments.parse((HELP / f"{name}.txt").read_text())


@pytest.mark.parametrize("name", ENGINES)
def test_list_reads_back_as_it_was_written(name: str) -> None:
    stored = arguments.load(name)
    assert stored is not None and arguments.loads(arguments.dumps(stored)) == stored


@pytest.mark.parametrize("name", ENGINES)
def test_stored_list_knows_what_stoker_itself_gives(name: str) -> None:
    engine, stored = engines.get(name), arguments.load(name)
    assert stored is not None
    for flag in filter(None, (engine.model_flag, engine.host_flag, engine.port_flag)):
        found = stored.find(flag)
        assert found is not None and found.takes == "one", flag


def test_every_engine_with_a_command_has_a_list() -> None:
    assert {engine.name for engine in engines.all_engines() if engine.command} == set(ENGINES)


def found(engine: str, flag: str) -> Argument | None:
    stored = arguments.load(engine)
    assert stored is not None
    return stored.find(flag)


def test_each_parser_keeps_its_own_habits() -> None:
    assert found("sglang", "--tp") == found("sglang", "--tensor-parallel-size")  # an unambiguous beginning
    assert found("sglang", "--enable") is None  # an ambiguous one
    assert found("sglang", "--tp_size") is None
    assert found("vllm", "--tensor_parallel_size") == found("vllm", "-tp") is not None
    dotted = found("vllm", "--compilation-config.mode")
    assert dotted is not None and dotted.takes == "any"
    assert found("llamacpp", "--n_gpu_layers") == found("llamacpp", "-ngl") is not None
    assert found("llamacpp", "--n-gpu") is None  # it knows no beginnings


def test_values_and_choices_are_told_apart() -> None:
    assert found("sglang", "--trust-remote-code") == Argument(("--trust-remote-code",), "none")
    method = found("sglang", "--load-balance-method")
    assert method is not None and method.takes == "one" and "round_robin" in method.choices
    numa = found("llamacpp", "--draft-max")
    assert numa is not None and numa.removed
    reasoning = found("transformers", "--reasoning")
    assert reasoning is not None and reasoning.choices == ("on", "off", "auto")
    keys = found("vllm", "--api-key")
    assert keys is not None and keys.takes == "many"


@pytest.mark.parametrize(
    "text", ["", "bash: vllm: not found", "-" * 5000, "  --\n--\n - a\n", "--a" * 100_000]
)
def test_text_that_is_no_help_names_next_to_nothing(text: str) -> None:
    assert len(arguments.parse(text)) <= 1


def test_help_of_vllm_is_asked_for_whole() -> None:
    assert arguments.help_argv(engines.get("vllm"), "")[-1] == "--help=all"
    assert arguments.help_argv(engines.get("sglang"), "/v/bin/python")[:2] == ("/v/bin/python", "-m")
    assert arguments.help_argv(engines.get("openai"), "") == ()
