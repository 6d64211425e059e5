"""What held the machine back while something was measured."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.results.baselines.baseline import Baselines, Key
from stoker.results.compare import assess
from stoker.results.meanwhile import disturbed, shown
from tests.results.made import bad, good


def machine(**seen: int) -> dict[str, Any]:
    """Eight GPUs, of which 3 and 5 saw these reasons in so many of ten samples."""
    gpus = [
        {
            "index": index,
            "samples": 10,
            "clock_sm_mhz": 1980,
            "power_limit_w": 700.0,
            "throttle": {"mask": "0x0", "reasons": [], "seen": seen if index in (3, 5) else {"gpu_idle": 4}},
        }
        for index in range(8)
    ]
    return {"samples": 10, "cpus": 64, "load1": {"least": 3.0, "most": 9.5}, "cpu_busy": 0.31, "gpus": gpus}


def test_a_machine_that_was_left_alone_is_not_disturbed() -> None:
    assert disturbed(good(machine=machine())) == ()
    assert disturbed(good(machine={})) == ()


@pytest.mark.parametrize(
    "reason", ["hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"]
)
def test_a_slowdown_marks_the_run_however_short_it_was(reason: str) -> None:
    (text,) = disturbed(good(machine=machine(**{reason: 1})))
    assert text.startswith("GPU 3,5 was held back")
    assert f"{reason}, 10 % of the time" in text


def test_a_power_cap_marks_the_run_only_where_it_held_for_most_of_it() -> None:
    assert disturbed(good(machine=machine(sw_power_cap=4))) == ()
    (text,) = disturbed(good(machine=machine(sw_power_cap=8)))
    assert "at its power cap of 700 W (80 % of the time)" in text


def test_an_overloaded_host_marks_the_run() -> None:
    busy = {**machine(), "load1": {"least": 130.0, "most": 140.0}}
    assert disturbed(good(machine=busy)) == ("the host was overloaded: load 130 or more on 64 CPUs",)


@pytest.mark.parametrize(
    "odd",
    [
        {"gpus": "none"},
        {"gpus": [3]},
        {"gpus": [{"throttle": {"seen": {"hw_slowdown": "x"}}, "samples": 3}]},
        {"gpus": [{"throttle": {"seen": {"hw_slowdown": 2}}, "samples": 0}]},
        {"load1": {"least": "many"}, "cpus": 4},
    ],
)
def test_what_a_host_tells_oddly_is_no_mark(odd: dict[str, Any]) -> None:
    assert disturbed(good(machine=odd)) == ()
    shown(good(machine=odd))


def test_the_verdict_says_it_and_stays(tmp_path: Any) -> None:
    store = Baselines(tmp_path)
    base = store.accept([good(0), good(1), good(2)], by="me")
    verdict = assess(bad(machine=machine(hw_thermal_slowdown=5)), base)
    assert verdict.verdict == "regressed"
    assert "disturbed: GPU 3,5 was held back: it was too hot" in verdict.line
    assert Key.of(good()).where == "node174"


def test_the_machine_is_shown_on_one_line() -> None:
    assert shown(good(machine=machine())) == "1980 MHz, load 3.0–9.5 on 64 CPUs, CPUs 31 % busy"
