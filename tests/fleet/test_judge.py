"""What explain, compare and bench say about two measurements, and what to type next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.fleet import judge, life
from stoker.fleet.job import Job
from stoker.fleet.measuring import benchlines
from stoker.fleet.project import Project
from stoker.results.baselines.baseline import Baselines
from stoker.results.compare import assess
from stoker.results.records.record import Record
from tests.fleet.test_verbs import project
from tests.results import made

__all__ = ["project"]

BACK = "next: inv restart --host node174 --profile nccl-tuned (as it was)"
BUSY = {"load1": {"least": 130.0, "most": 140.0}, "cpus": 64}


def _said(record: Record, base: Any) -> list[str]:
    return [text for text, _ in judge.explained(record, base).lines]


def test_a_loss_with_a_profiles_setting_says_how_to_get_it_back(tmp_path: Path) -> None:
    base = Baselines(tmp_path).accept([made.good(0), made.good(1), made.good(2)], by="me")
    *_, back, proof = _said(made.bad(), base)
    assert back == BACK
    assert proof.startswith("or: inv explain --verify --host node174 ")
    assert _said(made.bad(), made.good())[-2] == BACK


def test_the_way_back_of_a_simulated_host_is_none_of_the_real_one_of_its_name() -> None:
    *_, back, _ = _said(made.bad(simulated=True), made.good(simulated=True))
    assert back == f"{BACK}; simulated: with the lab's --inventory"


@pytest.mark.parametrize("profile", ["", "nccl-tuned~spec"])
def test_no_command_is_made_up_where_no_profile_is_known(profile: str) -> None:
    base = replace(made.good(), subject=replace(made.good().subject, profile=profile))
    assert not any("inv restart" in text for text in _said(made.bad(), base))


def test_nothing_is_to_be_got_back_from_what_is_slower_or_the_same() -> None:
    for record, base in ((made.good(), made.bad()), (made.good(), made.good(1))):
        assert not any("inv restart" in text for text in _said(record, base))


def test_what_became_faster_is_told_as_a_gain_and_a_loss_is_not() -> None:
    assert "% faster" in _said(made.good(), made.bad())[1]
    assert not any("faster" in text for text in _said(made.bad(), made.good()))


def test_a_comparison_says_which_measurement_stands_in_which_column(project: Project) -> None:
    old, new = made.good(), made.bad()
    for record in (old, new):
        project.store.save(record)
    project.baselines.accept([old], by="me")
    size = "500 tokens, concurrency 1"
    runs = judge.compare_runs(project, old.run_id, new.run_id).data["sides"]
    assert runs == {
        "A": f"{old.run_id}: nccl-tuned on node174, decode 5 × {size}",
        "B": f"{new.run_id}: kimi-k25 on node174, decode 5 × {size}",
    }
    against = judge.compare_runs(project, "baseline", new.run_id).data["sides"]["A"]
    assert against.startswith("the baseline of 20")
    assert against.endswith(f": nccl-tuned on node174, decode {size}")


def test_what_disturbed_a_run_is_said_once(tmp_path: Path) -> None:
    base = Baselines(tmp_path).accept([made.good()], by="me")
    job: Job = SimpleNamespace(host=SimpleNamespace(name="node174"))  # type: ignore[assignment]
    record = made.bad(machine=BUSY)
    for judged in (record, record.judged(assess(record, base))):
        told = benchlines.outcome(job, judged, base)
        assert sum("the host was overloaded" in text for text, _ in told.lines) == 1
        assert told.data["disturbed"] == ["the host was overloaded: load 130 or more on 64 CPUs"]
    lines = [text for text, _ in benchlines.outcome(job, record.judged(assess(record, base)), base).lines]
    assert lines[-1] == "and 5 more: inv explain --host node174", "what to do is no cause"


def test_a_proof_of_one_worker_is_told_as_of_one() -> None:
    proof: dict[str, Any] = {"verdict": "in-force", "variables": ["A"], "workers": [{"source": "memory"}]}
    assert life.describe(proof) == "1 variable in force in 1 of 1 worker"
    assert life.describe({**proof, "workers": proof["workers"] * 8}).endswith("in 8 of 8 workers")
