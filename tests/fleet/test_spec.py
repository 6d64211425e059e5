"""What speculation is, in a profile of each engine: taken out, and with another number of steps."""

from __future__ import annotations

from typing import Any

import pytest

from stoker import engines
from stoker.agent.asking.traffic import Traffic
from stoker.agent.measuring import drafts
from stoker.engines import speculation
from stoker.errors import InputError
from stoker.fleet.experiments import spec

PLAIN: dict[str, Any] = {"server": {"args": {"tp-size": 8}}, "env": {"NCCL_PROTO": "LL"}}
SPECULATING: dict[str, dict[str, Any]] = {
    "vllm": {
        "server": {"args": {"tp-size": 8, "speculative-config": {"method": "ngram"}}},
        "env": {"NCCL_PROTO": "LL"},
    },
    "sglang": {
        "server": {"args": {"tp-size": 8, "speculative-algorithm": "EAGLE", "speculative_eagle_topk": 1}},
        "env": {"NCCL_PROTO": "LL"},
    },
    "llamacpp": {
        "server": {"args": {"tp-size": 8, "model-draft": "/m/draft.gguf"}},
        "env": {"NCCL_PROTO": "LL", "LLAMA_ARG_SPEC_TYPE": "ngram-simple"},
    },
}


@pytest.mark.parametrize("engine", SPECULATING)
def test_a_profile_without_its_speculation_is_the_plain_one(engine: str) -> None:
    how = engines.get(engine).speculation
    assert speculation.without(SPECULATING[engine], how) == PLAIN
    assert speculation.without(PLAIN, how) == PLAIN


def test_the_number_of_steps_is_said_as_the_engine_takes_it() -> None:
    def steps(engine: str) -> dict[str, Any]:
        return speculation.with_steps(SPECULATING[engine], engines.get(engine).speculation, 3)

    config = {"method": "ngram", "num_speculative_tokens": 3}
    assert steps("vllm")["server"]["args"]["speculative-config"] == config
    args = steps("sglang")["server"]["args"]
    assert (args["speculative-num-steps"], args["speculative-num-draft-tokens"]) == (3, 4)
    assert steps("llamacpp")["env"]["LLAMA_ARG_SPEC_DRAFT_N_MAX"] == "3"
    written = {"server": {"args": {"--speculative-config": '{"method": "ngram"}'}}}
    changed = speculation.with_steps(written, engines.get("vllm").speculation, 3)
    assert changed["server"]["args"] == {"--speculative-config": config}


@pytest.mark.parametrize("engine", SPECULATING)
def test_the_number_of_steps_is_read_as_it_is_said(engine: str) -> None:
    how, given = engines.get(engine).speculation, SPECULATING[engine]
    assert speculation.steps(given, how) is None
    assert speculation.steps(speculation.with_steps(given, how, 3), how) == 3
    written = {"server": {"args": {"--speculative-config": '{"num_speculative_tokens": 5}'}}}
    assert speculation.steps(written, engines.get("vllm").speculation) == 5


@pytest.mark.parametrize("text", ["0", "x", "1,99", "-1", "²"])
def test_a_number_of_steps_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no number of steps"):
        spec._numbers(text)


NAMES = {"drafted": ["v:drafted"], "accepted": ["v:accepted"], "accept_length": ["v:length"]}
ASKED = [{"tokens": 60}, {"tokens": 40}]


def test_counters_count_from_before_to_after() -> None:
    before = Traffic(page=(("v:accepted", 1000.0), ("v:drafted", 9000.0)))
    after = Traffic(page=(("v:accepted", 1050.0), ("v:drafted", 9200.0)))
    found = drafts.seen(NAMES, before, after, ASKED)["speculation"]
    assert found == {"source": "counters", "tokens": 100, "accepted": 50.0, "drafted": 200.0}


def test_answers_tell_where_metrics_do_not_and_an_average_is_the_last_resort() -> None:
    told = [{**one, "drafted": 30, "accepted": 20} for one in ASKED]
    found = drafts.seen(NAMES, Traffic(), Traffic(), told)["speculation"]
    assert found == {"source": "answers", "tokens": 100, "accepted": 40, "drafted": 60}
    assert drafts.seen(NAMES, Traffic(), Traffic(), [*told, {"tokens": 1}]) == {}
    gauge = drafts.seen(NAMES, Traffic(), Traffic(page=(("v:length", 2.3),)), ASKED)["speculation"]
    assert gauge == {"source": "gauge", "length": 2.3, "rate": None}
