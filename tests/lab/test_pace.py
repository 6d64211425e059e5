"""The pace model, and that the servers keep it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from stoker.lab.standins import pace
from tests.lab.conftest import Start
from tests.lab.support import SIX, completion, measure


def rate(env: dict[str, str], ranks: int = 8) -> float:
    return 1 / pace.of(env, ranks).step_s()


def test_eight_gpus_make_63_tokens_a_second_untuned_and_89_tuned() -> None:
    assert rate({}) == pytest.approx(63.0, abs=0.05)
    assert rate(SIX) == pytest.approx(89.1, abs=0.05)


def test_five_hundred_tokens_come_at_the_storys_figures() -> None:
    for env, told in (({}, 62.9), (SIX, 88.8)):
        assert 500 / (pace.PREFILL_S + 499 / rate(env)) == pytest.approx(told, abs=0.05)


def test_each_variable_that_ll_reads_is_worth_something_and_all_of_them_everything() -> None:
    lost = {name: rate(SIX) - rate({k: v for k, v in SIX.items() if k != name}) for name in SIX}
    assert lost.pop("NCCL_BUFFSIZE") == 0, "LL does not read it"
    assert all(loss > 1 for loss in lost.values())
    assert sorted(lost, key=lambda name: -lost[name])[:2] == ["NCCL_PROTO", "NCCL_ALGO"]
    assert sum(pace.shares(SIX).values()) == pytest.approx(1)


def test_buffsize_counts_where_simple_is_in_use() -> None:
    assert rate({"NCCL_BUFFSIZE": "16777216"}) > rate({})


@pytest.mark.parametrize(
    "env",
    [
        {"NCCL_PROTO": "LLL", "NCCL_ALGO": "Rng", "NCCL_P2P_LEVEL": "SYSS"},
        {"NCCL_PROTO": "Simple"},
        {"NCCL_P2P_LEVEL": "sys"},
        {"NCCL_MAX_NCHANNELS": "abc", "NCCL_NTHREADS": "500"},
        {"NCCL_PROTO": ""},
    ],
)
def test_what_nccl_would_not_understand_changes_nothing(env: dict[str, str]) -> None:
    assert rate(env) == rate({})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"NCCL_PROTO": "ll"}, {"NCCL_PROTO": "LL"}),
        ({"NCCL_PROTO": "^Simple,LL128"}, {"NCCL_PROTO": "LL"}),
        ({"NCCL_MAX_NCHANNELS": "16M"}, {"NCCL_MAX_NCHANNELS": "16"}),
        ({"NCCL_MAX_NCHANNELS": "0x10"}, {"NCCL_MAX_NCHANNELS": "16"}),
        ({"NCCL_MAX_NCHANNELS": "010"}, {"NCCL_MAX_NCHANNELS": "8"}),
    ],
)
def test_values_are_read_as_nccl_reads_them(one: dict[str, str], other: dict[str, str]) -> None:
    assert rate(one) == rate(other) > rate({})


def test_p2p_disable_beats_the_level_and_debug_costs_time() -> None:
    assert rate({**SIX, "NCCL_P2P_DISABLE": "1"}) < rate(SIX)
    assert rate({"NCCL_P2P_LEVEL": "SYS", "NCCL_P2P_DISABLE": "1"}) == rate({"NCCL_P2P_DISABLE": "1"})
    assert rate({**SIX, "NCCL_DEBUG": "INFO"}) == pytest.approx(rate(SIX) / 1.02)


def test_one_gpu_does_not_communicate() -> None:
    assert rate(SIX, 1) == rate({}, 1)


def test_speculation_pays_on_a_tuned_host_and_hardly_on_an_untuned_one() -> None:
    deck = pace.acceptance_deck(3, "seed")
    accepted = sum(deck) / len(deck)
    assert accepted == pytest.approx(2.31, abs=0.03)
    gain = {
        name: accepted * model.step_s() / model.step_s(drafts=3)
        for name, model in (("tuned", pace.of(SIX, 8)), ("untuned", pace.of({}, 8)))
    }
    assert gain["tuned"] == pytest.approx(1.25, abs=0.02)
    assert gain["untuned"] == pytest.approx(1.04, abs=0.02)


def test_throughput_rises_with_the_batch_and_each_stream_slows() -> None:
    model = pace.of({}, 8)
    streams = [1 / model.step_s(batch) for batch in (1, 2, 8, 32)]
    assert all(one > other for one, other in pairwise(streams))
    assert all(
        one * a < other * b for (one, a), (other, b) in pairwise(zip(streams, (1, 2, 8, 32), strict=True))
    )


def test_jitter_is_the_same_for_the_same_seed_and_small() -> None:
    factors = [pace.jitter("node174", number) for number in range(500)]
    assert factors == [pace.jitter("node174", number) for number in range(500)]
    mean = sum(factors) / 500
    assert mean == pytest.approx(1, abs=0.0005)
    assert (sum((factor - mean) ** 2 for factor in factors) / 500) ** 0.5 == pytest.approx(0.003, abs=0.0006)


@pytest.mark.alone
@pytest.mark.parametrize(("env", "told"), [({}, 63.0), (SIX, 89.1)])
def test_sglang_keeps_the_pace_of_its_workers_environment(
    sglang: Start, env: dict[str, str], told: float
) -> None:
    timing = measure(sglang(env=env).wait_ready(), 120)
    assert timing.rate == pytest.approx(told, rel=0.02)
    assert timing.chunks == timing.tokens == 120
    assert 0.025 < timing.ttft_s < 0.12


@pytest.mark.alone
def test_vllm_keeps_the_same_pace(vllm: Start) -> None:
    timing = measure(vllm(env=SIX).wait_ready(), 120, model="kimi")
    assert timing.rate == pytest.approx(89.1, rel=0.02)


def test_a_batch_is_decoded_together(sglang: Start) -> None:
    server = sglang(env=SIX).wait_ready()
    with ThreadPoolExecutor(8) as pool:
        rates = [each.rate for each in pool.map(lambda _: measure(server, 60), range(8))]
    assert sum(rates) / 8 == pytest.approx(1 / pace.of(SIX, 8).step_s(8), rel=0.06)


def test_more_than_fit_have_to_wait(sglang: Start) -> None:
    server = sglang("--max-running-requests", "2", "--enable-metrics", env=SIX).wait_ready()
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(server.post, "/v1/completions", completion(60)) for _ in range(3)]
        waited = [
            page
            for page in iter(lambda: server.get("/metrics")[1] if not asked[0].done() else None, None)
            if 'sglang:num_queue_reqs{engine_type="unified"' in page and 'tp_rank="0"} 1.0' in page
        ]
        assert all(each.result()[0] == 200 for each in asked)
    assert waited
