"""A verdict once more launches were added on both sides."""

from __future__ import annotations

from pathlib import Path

from stoker.results.baselines.baseline import Baseline, Baselines
from stoker.results.compare import assess, settle, slower
from tests.results.made import bad, good, record

RUNS = (89.0, 89.1, 88.9, 89.2, 89.0)


def accepted(folder: Path) -> Baseline:
    return Baselines(folder).accept([good(0), good(1), good(2)], by="me")


def scaled(factor: float) -> tuple[float, ...]:
    return tuple(factor * run for run in RUNS)


def test_a_pair_confirms_a_loss_and_says_what_it_rests_on(tmp_path: Path) -> None:
    found = settle(bad(), accepted(tmp_path), [RUNS], [scaled(0.71)])
    assert found.verdict == "regressed"
    assert found.line.startswith("2 launches × 5 runs against 4 × 5; loss 29")
    assert "of these 1 launched again as accepted and 1 launched again as it is" in found.line


def test_a_pair_takes_a_false_alarm_back(tmp_path: Path) -> None:
    base = accepted(tmp_path)
    alarm = record(scaled(0.93))
    assert assess(alarm, base).verdict == "regressed"
    assert settle(alarm, base, [scaled(0.99)], [scaled(1.0)]).verdict != "regressed"


def test_what_was_disturbed_counts_for_nothing(tmp_path: Path) -> None:
    base = accepted(tmp_path)
    disturbed = bad(contaminated=["3 requests of others ended while it was measured"])
    found = settle(disturbed, base, [RUNS], [scaled(1.0), scaled(1.001)])
    assert found.verdict == "ok"
    assert found.line.startswith("2 launches × 5 runs")
    assert settle(disturbed, base, [], []).verdict == "inconclusive"


def test_an_accepted_setting_that_is_itself_slower_is_seen(tmp_path: Path) -> None:
    base = accepted(tmp_path)
    assert slower(base, [scaled(0.7)])
    assert not slower(base, [scaled(0.99)])
