"""Figures and what was in force, as people read them."""

from __future__ import annotations

import pytest

from stoker.results.figures import figure, percent
from stoker.results.inforce import in_force
from stoker.results.records.fromjson import build
from tests.results import made


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (-0.0004, "0.0 %"),
        (0.0004, "0.0 %"),
        (0.0, "0.0 %"),
        (-0.0006, "-0.1 %"),
        (0.25, "+25.0 %"),
        (None, "-"),
    ],
)
def test_what_rounds_to_nothing_has_no_sign(change: float | None, text: str) -> None:
    assert percent(change) == text


def test_durations_are_in_milliseconds_and_all_else_keeps_its_unit() -> None:
    assert figure(0.2, "s") == "200.0 ms"
    assert figure(89.123, "tok/s") == "89.12 tok/s"
    assert figure(None, "s") == "-"


def test_a_run_tells_tuning_arguments_versions_and_gpus() -> None:
    resolved = {"server": {"args": {"tp-size": 8, "trust-remote-code": True, "api-key": {"secret": "KEY"}}}}
    told = dict(in_force(build([made.result([80.0])], made.subject(resolved=resolved))))
    assert "NCCL_ALGO=Ring" in told["tuning"]
    assert "NCCL_CUMEM_ENABLE=0" in told["set by the engine"]
    assert told["arguments"] == "--tp-size 8 --trust-remote-code --api-key (secret KEY)"
    assert told["versions"].startswith("engine 0.5.23, torch 2.9.1")
    assert told["GPUs"] == "8 × NVIDIA RTX PRO 6000, PCIe gen 5, x16, 600.0 W, 2400 MHz"


def test_a_server_by_hand_tells_its_command_line_and_what_is_not_proven() -> None:
    found = made.fingerprint(env_source="exec", unread=["gpus: no driver"], gpus=[])
    told = dict(in_force(build([made.result([80.0], fingerprint=found)], made.subject(resolved={}))))
    assert told["arguments"].startswith("python -m sglang.launch_server")
    assert "tuning (from exec: not proven)" in told
    assert told["not read"] == "gpus: no driver"
    assert "GPUs" not in told
