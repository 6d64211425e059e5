"""Every engine's stages and causes, held against whole logs: add a log and its entry, get a test."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from stoker import engines
from stoker.agent.logfiles.logtail import LogTail, Matcher

CASES = Path(__file__).parent.parent / "cases" / "logs"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text())


def test_every_log_has_an_expectation() -> None:
    assert {path.name for path in CASES.glob("*.log")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_stages_and_the_cause_of_a_whole_log(name: str) -> None:
    expected = EXPECTED[name]
    matcher = Matcher(engines.get(expected["engine"]).to_wire())
    stages: list[str] = []
    fractions: list[float] = []
    tail = LogTail(str(CASES / name))
    for line in [*tail.news(time.monotonic() + 30), *tail.finish()]:
        if matcher.feed(line):
            fractions.append(matcher.fraction)
            stages.append(matcher.stage)
    assert list(dict.fromkeys(stages)) == expected["stages"]
    assert fractions == sorted(fractions)
    assert matcher.ready == expected.get("ready", False)
    assert (matcher.ended.cause if matcher.ended else None) == expected.get("ends")
    assert (matcher.cause.cause if matcher.cause else None) == expected.get("cause")
    assert matcher.cause is None or matcher.cause.advice.endswith(".")
    assert expected.get("line", "") in (matcher.cause.line if matcher.cause else "")


@pytest.mark.parametrize("engine", engines.names())
def test_lines_of_other_engines_and_noise_are_harmless(engine: str) -> None:
    matcher = Matcher(engines.get(engine).to_wire())
    for line in (
        "",
        "x" * 4096,
        "\\",
        "(((((",
        "Route: /health, Methods: GET",
        "100%",
        "é█\ufffd",
        "INFO: hello",
    ):
        assert not matcher.feed(line)
    assert (matcher.stage, matcher.cause, matcher.ready) == ("", None, False)


def test_progress_inside_a_stage_moves_the_bar() -> None:
    matcher = Matcher(engines.get("sglang").to_wire())
    matcher.feed("[2025-10-16 09:06:10 TP0] Load weight begin. avail mem=137.29 GB")
    begin = matcher.fraction
    matcher.feed("Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.88it/s]")
    half = matcher.fraction
    matcher.feed("[2025-10-16 09:06:14 TP0] Load weight end. type=X")
    assert half == pytest.approx((begin + matcher.fraction) / 2)
    matcher.feed(
        "Capturing batches (bs=128 avail_mem=12.01 GB):  48%|████▊     | 11/22 [00:04<00:04,  2.61it/s]"
    )
    assert matcher.stage == "capturing CUDA graphs"
    assert matcher.fraction == pytest.approx((0.66 + 0.92) / 2)


def test_a_second_model_does_not_move_the_bar_back() -> None:
    matcher = Matcher(engines.get("sglang").to_wire())
    matcher.feed("Capture cuda graph end. max_total_num_tokens=5, x")
    before = matcher.fraction
    assert not matcher.feed("Load weight begin. avail mem=9 GB")
    assert matcher.fraction == before
