"""``serve`` as a command: a record and a verdict for each load, and none compared with another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stoker.errors import HostFailed, InputError
from stoker.fleet.books.verbs import VERBS
from stoker.fleet.job import Outcome
from stoker.fleet.measuring import benchrun
from stoker.fleet.project import Project
from stoker.results.baselines.accepted import Key
from stoker.results.compare import compare
from stoker.results.report import gather, load
from tests.agent.programs_paced import Paced
from tests.fleet.test_verbs import Heard, _do, project

__all__ = ["project"]

FEW = {"bench": "serve", "requests": 8, "runs": 3, "input": "20", "output": "8"}


@pytest.fixture
def server() -> Iterator[Paced]:
    with Paced("--model", "ok@400@0.02") as running:
        yield running


def bench(project: Project, server: Paced, **given: Any) -> Outcome:
    (outcome,) = _do(project, VERBS["bench"], Heard({}), port=server.port, **{**FEW, **given})
    return outcome


def test_each_load_has_its_record_and_its_verdict(project: Project, server: Paced) -> None:
    outcome = bench(project, server, rate="40,80")
    assert [row["level"] for row in outcome.data["rows"]] == ["40/s poisson", "80/s poisson"]
    assert [row["verdict"] for row in outcome.data["rows"]] == ["no-baseline"] * 2
    records = [project.store.load(row["run_id"]) for row in outcome.data["rows"]]
    assert [record.bench.rate for record in records] == [40.0, 80.0]
    assert all(record.pace == record.metrics["user_tok_s"] for record in records)
    (first, *_), *_ = outcome.lines
    assert first.startswith("40/s poisson: ")
    assert any("TTFT" in text and "p99" in text for text, _ in outcome.lines)
    assert {row.size for row in project.store.list()} == {"20+8 40/s", "20+8 80/s"}


def test_a_load_is_judged_against_a_baseline_of_the_same_load_only(project: Project, server: Paced) -> None:
    one = project.store.load(bench(project, server, rate="40").data["run_id"])
    baseline = project.baselines.accept([one], by="ann")
    assert project.baselines.all() == (baseline,)
    assert bench(project, server, rate="40").data["verdict"] != "no-baseline"
    other = bench(project, server, rate="80")
    assert other.data["verdict"] == "no-baseline"
    assert "load: rate 80" in other.data["line"]
    closed = project.store.load(bench(project, server, concurrency="2").data["run_id"])
    assert closed.pace == closed.metrics["output_tok_s"]
    assert Key.of(closed).load.startswith("concurrency 2, requests 8, input 20")
    assert compare(one, closed).verdict.verdict == "no-baseline"


def test_a_load_with_failures_is_told_and_the_others_are_kept(project: Project) -> None:
    with Paced("--model", "stops") as server, pytest.raises(HostFailed, match="no run was valid") as caught:
        bench(project, server, rate="40,80")
    assert caught.value.kind == "invalid"
    assert caught.value.what.startswith("40/s poisson: ")
    assert any("short" in text for text in caught.value.evidence)


def test_several_loads_are_a_curve_of_the_report(project: Project, server: Paced) -> None:
    bench(project, server, rate="20,40,80")
    material = gather.gather(project.store, project.baselines, project.store.list())
    (part,) = load.section(material).parts
    assert part.title == "a against rate"
    assert part.plots[0].title == "user throughput"


def test_an_experiment_measures_one_load_exactly_as_it_was(project: Project, server: Paced) -> None:
    record = project.store.load(bench(project, server, rate="40").data["run_id"])
    again = project.store.load(bench(project, server, **benchrun.said_of(record.bench)).data["run_id"])
    assert again.bench == record.bench


def test_a_parameter_that_cannot_be_used_is_refused_before_anything_is_asked(project: Project) -> None:
    flags = {flag.name: flag for flag in VERBS["bench"].flags}
    with pytest.raises(InputError, match="is not a number"):
        flags["rate"].parse("fast")
    with pytest.raises(InputError, match="concurrency goes from 1 to 4096"):
        flags["concurrency"].parse("0")
