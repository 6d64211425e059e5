"""A measurement that is had is not lost, and one that is not whole is not called good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stoker.errors import EXIT_HOST_FAILED, HostFailed, InputError
from stoker.fleet.books.verbs import VERBS
from stoker.fleet.project import Project
from stoker.results.records.fromjson import build
from tests.fleet.test_verbs import Heard, _do, project
from tests.results import made

__all__ = ["project"]


def session(result: dict[str, Any]) -> Heard:
    return Heard({}, {"status": {"servers": []}, "bench": result})


def accepted(project: Project) -> None:
    launches = [
        build([made.result([80.0] * 5, run_id=f"2026010{day}-000000-a-0000")], made.subject(host="a"))
        for day in (1, 2, 3)
    ]
    project.baselines.accept(launches, by="ann")


def test_a_full_disk_of_the_host_costs_the_raw_files_and_not_the_measurement(project: Project) -> None:
    asked = session(made.result([80.0] * 5, path="", unkept="/root/.stoker/runs: No space left on device"))
    (outcome,) = _do(project, VERBS["bench"], asked)
    assert ("not kept on the host: /root/.stoker/runs: No space left on device", "yellow") in outcome.lines
    assert project.store.load(outcome.data["run_id"]).samples == ((80.0,) * 5,)


def test_results_that_cannot_be_written_are_told_before_anything_is_measured(project: Project) -> None:
    (project.root / "results").write_text("a file in the way")
    asked = session(made.result([80.0] * 5))
    with pytest.raises(InputError, match="results cannot be written there"):
        _do(project, VERBS["bench"], asked)
    assert "bench" not in [op for op, _ in asked.asked]


@pytest.mark.parametrize(
    "paces", [[80.0] * 4 + [0.0], [80.0] * 3], ids=["the last run failed", "runs are missing"]
)
def test_a_lucky_rest_of_the_runs_is_not_ok(project: Project, paces: list[float]) -> None:
    accepted(project)
    result = made.result([80.0] * 5, path="", run_id="20260105-000000-a-0000")
    result["runs"] = [
        made.run(i, pace) if pace else {**made.run(i, 80.0), "tok_s": None, "valid": False, "why": "reset"}
        for i, pace in enumerate(paces)
    ]
    with pytest.raises(HostFailed, match="runs are no measurement") as caught:
        _do(project, VERBS["bench"], session(result))
    assert (caught.value.kind, caught.value.exit_code) == ("incomplete", EXIT_HOST_FAILED)
    record = project.store.load("20260105-000000-a-0000")
    assert record.verdict is not None
    assert record.verdict.verdict == "inconclusive"
    assert "runs are no measurement" in record.verdict.line


def test_a_loss_that_the_rest_of_the_runs_shows_is_one(project: Project) -> None:
    accepted(project)
    result = made.result([40.0] * 5, path="", run_id="20260105-000000-a-0000")
    result["runs"] = result["runs"][:4]
    with pytest.raises(HostFailed, match="REGRESSED"):
        _do(project, VERBS["bench"], session(result))


def test_a_host_does_not_replace_the_record_with_the_raw_files(project: Project, tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    (folder / "server.log").write_text("a line\n")
    (outcome,) = _do(project, VERBS["bench"], session(made.result([80.0] * 5, path=str(folder))))
    here = project.store.path(outcome.data["run_id"])
    assert (here / "server.log").read_text() == "a line\n"
    assert project.store.load(here.name).samples == ((80.0,) * 5,)
