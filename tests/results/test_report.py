"""The report shows what came back and says what it leaves out."""

from __future__ import annotations

import json
import math
import random
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import InputError
from stoker.results.baselines.baseline import Baselines
from stoker.results.compare import assess
from stoker.results.history import series
from stoker.results.records.points import Point
from stoker.results.records.store import Store
from stoker.results.records.summary import Summary
from stoker.results.report import file, load, thin
from stoker.results.report.build import build
from stoker.results.report.gather import Material, gather
from stoker.results.report.model import Report, Section
from stoker.results.report.page import MARK, render
from tests.results import made

NOW = 1780000000.0
DAY = 86_400.0


def report(store: Store, baselines: Baselines) -> Report:
    return build(gather(store, baselines, store.list()), project="here", now=NOW)


def section(made_of: Report, name: str) -> Section:
    return next(section for section in made_of.sections if section.name == name)


def texts(part: object) -> str:
    """All text of a piece of a report, for a look at what it says."""
    return json.dumps(part, default=vars, ensure_ascii=False)


@pytest.fixture
def regressed(tmp_path: Path) -> tuple[Store, Baselines]:
    """Nine good launches, the first three accepted, then five without the six variables."""
    store, baselines = Store(tmp_path / "results"), Baselines(tmp_path / "baselines")
    records = [made.good(day % 3) for day in range(9)] + [made.bad() for _ in range(5)]
    for day, record in enumerate(records):
        again = made.record(
            record.samples[0],
            of=made.subject(profile="nccl-tuned"),
            run_id=f"run-{day:02}",
            started_at=1767268800 + day * DAY,
            fingerprint=record.fingerprint.to_json(),
        )
        store.save(again.judged(assess(again, baselines.find(again))))
        if day == 2:
            baselines.accept([store.load(f"run-{n:02}") for n in range(3)], by="me")
    return store, baselines


def test_a_loss_is_told_first_with_its_step_and_its_causes(regressed: tuple[Store, Baselines]) -> None:
    found = report(*regressed)
    assert [section.name for section in found.sections] == ["summary", "runs", "causes"]
    summary = found.sections[0]
    assert summary.lead is not None
    assert summary.lead.kind == "regressed"
    assert "regressed −29." in texts(summary)
    (part,) = section(found, "runs").parts
    assert "Step of nccl-tuned: 88.7 → 62.9 tok/s (−29.1 %), between 2026-01-09" in part.lines[0].text
    against, step = section(found, "causes").parts
    assert against.title.endswith("the newest run against its baseline")
    assert step.title.endswith("the step of 2026-01-10 (−29.1 %)")
    for part in (against, step):
        assert "6 tuning variables are gone; the host was restarted in between" in texts(part)
        assert "NCCL_PROTO is gone" in texts(part)
        assert "checked and equal" in texts(part)


def test_the_plot_has_runs_verdicts_baseline_and_step(regressed: tuple[Store, Baselines]) -> None:
    figure = section(report(*regressed), "runs").parts[0].plots[0].figure
    runs, baseline = figure["data"]
    assert runs["name"] == "nccl-tuned"
    assert len(runs["x"]) == len(runs["y"]) == 14
    assert runs["marker"]["symbol"][-1] == "triangle-down"
    assert runs["customdata"][-1] == ["run-13", "<br>regressed -29.3 %"]
    assert baseline["y"] == [pytest.approx(89.0, abs=0.1)] * 2
    (line,) = figure["layout"]["shapes"]
    assert line["x0"].startswith("2026-01-10")
    low, high = figure["layout"]["yaxis"]["range"]
    assert low < 62 < 91 < high


def test_profiles_are_compared_with_their_intervals(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for number, (profile, pace) in enumerate([("a", 80.0), ("b", 90.0), ("a", 80.4), ("b", 90.2)]):
        of = made.subject(profile=profile)
        store.save(made.record([pace] * 5, of=of, run_id=f"r{number}", started_at=1.7e9 + number))
    found = section(report(store, Baselines(tmp_path)), "profiles").parts[0]
    fastest, other = found.tables[0].rows
    assert [cell.text for cell in fastest.cells[1:]] == ["b", "90.1", "88.6 – 91.6", "2", "0.0 %"]
    assert other.cells[1].text == "a"
    assert other.cells[5].text == "−11.0 %"
    assert len(found.plots[0].figure["data"]) == 2


def test_latency_is_drawn_against_load_where_nothing_else_differs(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for concurrency in (1, 4, 32):
        bench = {"name": "decode", "runs": 3, "tokens": 500, "concurrency": concurrency}
        runs = [made.run(i, 80.0 * concurrency, concurrency=concurrency) for i in range(3)]
        store.save(made.record([1], run_id=f"c{concurrency}", bench=bench, runs=runs))
    other = {"name": "decode", "runs": 3, "tokens": 50, "concurrency": 8}
    store.save(made.record([80.0] * 3, run_id="other", bench=other))
    (part,) = section(report(store, Baselines(tmp_path)), "load").parts
    throughput, ttft, _ = part.plots
    assert throughput.figure["data"][0]["x"] == [1.0, 4.0, 32.0]
    assert throughput.figure["data"][0]["y"] == [80.0, 320.0, 2560.0]
    assert throughput.figure["layout"]["xaxis"]["type"] == "log"
    assert ttft.figure["data"][0]["y"] == [200.0, 200.0, 200.0]
    assert ttft.figure["layout"]["yaxis"]["title"]["text"] == "ms"


def test_metrics_are_named_as_people_name_them() -> None:
    assert load.title("ttft_p99_s", "s") == "TTFT p99"
    assert load.title("output_tok_s", "tok/s") == "output throughput"
    assert load.title("requests_s", "requests/s") == "requests throughput"
    assert load.title("hit_rate", "") == "hit rate"


def test_concurrency_and_rates_are_loads() -> None:
    assert all(map(load.is_load, ("concurrency", "rate", "request_rate")))
    assert not any(map(load.is_load, ("tokens", "seed", "runs")))


def test_a_disturbed_run_is_drawn_apart_and_is_no_step(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for day in range(12):
        fields: dict[str, Any] = {"contaminated": ["a stranger"]} if day > 8 else {}
        pace = 40.0 if day > 8 else 89.0
        store.save(made.record([pace] * 5, run_id=f"r{day:02}", started_at=1.7e9 + day * DAY, **fields))
    (part,) = section(report(store, Baselines(tmp_path)), "runs").parts
    runs, disturbed = part.plots[0].figure["data"]
    assert (len(runs["x"]), len(disturbed["x"])) == (9, 3)
    assert disturbed["name"] == "disturbed"
    assert part.lines == ()


def test_what_cannot_be_read_is_named(regressed: tuple[Store, Baselines], tmp_path: Path) -> None:
    store, baselines = regressed
    (tmp_path / "results" / "run-01" / "run.json").write_text("{")
    next(iter((tmp_path / "baselines").iterdir())).write_text("schema: [")
    facts = "\n".join(report(store, baselines).facts)
    assert re.search(r"Left out: .*run-01/run\.json: ", facts)
    assert "no baseline is shown: baselines/" in facts


def test_simulated_runs_are_said_to_be(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(made.record([80.0] * 5, run_id="a", simulated=True))
    found = report(store, Baselines(tmp_path))
    assert "1 run of a simulated server: no figure of a real one." in found.facts
    assert "simulated" in texts(section(found, "summary"))


def rows(count: int, hosts: int = 1) -> list[Summary]:
    """Summaries as the index has them, a launch each, with a step in the middle."""
    random_ = random.Random(1)
    found = []
    for number in range(count):
        at = 1.7e9 + number * 3600
        pace = (89 if number < count / 2 else 63) * math.exp(random_.gauss(0, 0.01))
        verdict = "regressed" if number == 1 else "ok"
        point = Point(at, pace, 5, 0.004)
        row = Summary(f"r{number:06}", "", at, host=f"h{number % hosts}", profile="p", measured="decode")
        found.append(replace(row, tok_s=pace, verdict=verdict, points=(point,)))
    return found


def test_many_launches_are_drawn_as_marks_that_say_how_many_they_stand_for() -> None:
    (one,) = series(rows(10_000))
    marks = thin.marks(one, 500)
    assert len(marks) <= 502
    assert sum(len(mark.places) for mark in marks) == 10_000
    (step,) = one.steps
    assert step.index == 5_000
    assert all(mark.places[-1].point.tok_s > 75 or mark.places[0].point.tok_s < 75 for mark in marks)
    low, high = marks[0].range
    assert low < marks[0].tok_s < high
    assert marks[0].verdict == "regressed"
    assert thin.marks(one, 20_000)[0].range[0] == thin.marks(one, 20_000)[0].range[1]


def test_ten_thousand_runs_take_seconds_and_a_page_of_sane_size() -> None:
    begin = time.monotonic()
    material = Material(series(rows(10_000, hosts=40)), {}, {}, ())
    page = render(build(material, project="here", now=NOW))
    assert time.monotonic() - begin < 15
    assert len(page) < 9e6
    assert "A mark stands for" not in page
    (one,) = series(rows(10_000))
    page = render(build(Material((one,), {}, {}, ()), project="here", now=NOW))
    assert "A mark stands for up to 20 launches" in page
    assert len(page) < 5.5e6


def test_tables_stand_in_the_page_without_scripts(regressed: tuple[Store, Baselines]) -> None:
    page = render(report(*regressed))
    body = page.split("<body>")[1].split('<script type="application/json"')[0]
    for text in ("run-13", "regressed −29.3 %", "NCCL_PROTO is gone", "▁", "Plots need scripts"):
        assert text in body


def test_a_file_that_is_no_report_is_never_replaced(tmp_path: Path) -> None:
    theirs = tmp_path / "profile.yml"
    theirs.write_text("engine: vllm")
    with pytest.raises(InputError, match="is there already and is no report"):
        file.check(theirs)
    ours = tmp_path / "new" / "report.html"
    file.check(ours)
    assert file.write(ours, MARK + "a") == len(MARK) + 1
    file.check(ours)
    file.write(ours, MARK + "bc")
    assert ours.read_text().endswith("bc")
    assert [path.name for path in ours.parent.iterdir()] == ["report.html"]
