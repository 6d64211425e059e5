"""What every engine must be, and what each one is."""

from __future__ import annotations

import json
import re
import time

import pytest

from stoker import engines
from stoker.engines.base import Engine
from stoker.errors import InputError

ALL = [pytest.param(engine, id=engine.name) for engine in engines.all_engines()]


def titled(engine: str, title: str, *, worker: bool) -> bool:
    found = engines.get(engine)
    return any(re.fullmatch(pattern, title) for pattern in (found.workers if worker else found.titles))


def test_the_names_of_the_documentation() -> None:
    assert engines.names() == ("sglang", "vllm", "llamacpp", "transformers", "openai")


def test_an_unknown_engine_is_told_with_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        engines.get("sglan")
    assert "did you mean 'sglang'?" in caught.value.next_step


@pytest.mark.parametrize("engine", ALL)
def test_it_travels_as_json(engine: Engine) -> None:
    wire = json.loads(json.dumps(engine.to_wire()))
    assert wire["name"] == engine.name
    assert wire["stages"] == [vars(stage) for stage in engine.stages]


@pytest.mark.parametrize("engine", ALL)
def test_its_patterns_compile_and_its_stages_rise(engine: Engine) -> None:
    for pattern in (*engine.titles, *engine.workers, engine.ready):
        re.compile(pattern)
    fractions = [stage.fraction for stage in engine.stages]
    assert fractions == sorted(set(fractions))
    assert all(0 <= fraction < 1 for fraction in fractions)
    assert all(fatal.cause and fatal.advice for fatal in engine.fatal)


@pytest.mark.parametrize("engine", ALL)
@pytest.mark.parametrize(
    "text",
    [
        "a" * 4096,
        "Capture " * 512,
        "Capturing batches " * 200 + "| 1/",
        "Capturing CUDA graphs " + " 9" * 2000,
        "Loading " + "a " * 2000 + "shards: ",
        "port 1 " * 500,
        "larger than the available " * 150,
        " " * 4096,
        "Invalid value " * 250,
    ],
    ids=range(9),
)
def test_no_line_makes_a_pattern_slow(engine: Engine, text: str) -> None:
    patterns = [stage.pattern for stage in engine.stages] + [fatal.pattern for fatal in engine.fatal]
    compiled = [re.compile(pattern) for pattern in (*patterns, engine.ready)]
    began = time.perf_counter()
    for pattern in compiled:
        pattern.search(text[:4096])
    assert time.perf_counter() - began < 0.25


def test_sglang_titles() -> None:
    for title in ("sglang::scheduler", "sglang::scheduler_TP0", "sglang::scheduler_DP1_PP0_TP7_EP7"):
        assert titled("sglang", title, worker=True)
        assert titled("sglang", title, worker=False)
    for title in ("sglang::detokenizer", "sglang::detokenizer_router", "sglang::tokenizer_worker:4711"):
        assert titled("sglang", title, worker=False)
        assert not titled("sglang", title, worker=True)
    for title in ("/models/sglang::scheduler", "vim sglang::scheduler_TP0", "sglang::schedulers"):
        assert not titled("sglang", title, worker=False)


def test_vllm_titles() -> None:
    for title in (
        "VLLM::EngineCore",
        "VLLM::EngineCore_DP1",
        "VLLM::Worker",
        "VLLM::Worker_TP0",
        "VLLM::Worker_PP0_TP1",
    ):
        assert titled("vllm", title, worker=True)
    for title in ("VLLM::APIServer_0", "VLLM::DPCoordinator"):
        assert titled("vllm", title, worker=False)
        assert not titled("vllm", title, worker=True)
    assert not titled("vllm", "tail -f VLLM::Worker", worker=False)


def test_what_sglang_rewrites_and_how_long_it_may_take_to_end() -> None:
    sglang = engines.get("sglang")
    assert sglang.rewrites["NCCL_CUMEM_ENABLE"] == "0"
    assert sglang.rewrites["NCCL_NVLS_ENABLE"] == "0"
    assert sglang.rewrites["CUDA_DEVICE_MAX_CONNECTIONS"] == "8"
    assert sglang.grace_s == 90


def test_transformers_is_asked_for_nothing_that_it_refuses() -> None:
    transformers = engines.get("transformers")
    assert transformers.completion_extra == {}
    assert not transformers.stream_usage
