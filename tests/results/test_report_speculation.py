"""What ``inv spec`` measured, out of the records of its launches, as a chapter of the report."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from stoker import engines
from stoker.engines.speculation import with_steps, without
from stoker.results.baselines.baseline import Baselines
from stoker.results.records.record import Record
from stoker.results.records.store import Store
from stoker.results.report.build import build
from stoker.results.report.gather import gather
from stoker.results.report.model import Section
from stoker.results.report.page import render
from stoker.results.trials import AGE_S, trials
from tests.results import made

AT = 1767268800.0
BATCHES = (1, 8, 64)
EAGLE: dict[str, Any] = {
    "engine": "sglang",
    "server": {"name": "kimi", "args": {"speculative-algorithm": "EAGLE3"}},
    "env": dict(made.TUNING),
}
# What drafting gains at each batch size, with 1 and with 3 steps; tokens that a step yields.
GAIN = {1: (1.45, 1.8), 8: (1.2, 1.25), 64: (0.93, 0.7)}
YIELDS = {1: 1.7, 3: 2.6}
HOW = engines.get("sglang").speculation


def launch(number: int, at: float, steps: int, batch: int, pace: float, **subject: Any) -> Record:
    resolved = with_steps(EAGLE, HOW, steps) if steps else without(EAGLE, HOW)
    of = made.subject(**{"profile": "eagle~spec", "resolved": resolved, **subject})
    dice = random.Random(number)
    tokens = 10000
    accepted = round(tokens * (1 - 1 / YIELDS[steps])) if steps else 0
    seen = {"source": "counters", "tokens": tokens, "accepted": accepted, "drafted": 2 * accepted}
    return made.record(
        [pace * dice.gauss(1, 0.005) for _ in range(5)],
        of=of,
        run_id=f"spec-{number:04}",
        started_at=at + 60 * number,
        bench={"name": "decode", "runs": 5, "tokens": 500, "concurrency": batch},
        machine={"speculation": seen} if steps else {},
    )


def experiment(at: float = AT, first: int = 0, plain: float = 90.0, **subject: Any) -> list[Record]:
    """Two launches of each setting, each measured at three batch sizes."""
    found: list[Record] = []
    for _ in range(2):
        for place, steps in enumerate((0, 1, 3)):
            for batch in BATCHES:
                gain = GAIN[batch][place - 1] if steps else 1.0
                pace = plain * batch**0.6 * gain
                found.append(launch(first + len(found), at, steps, batch, pace, **subject))
    return found


def chapter(folder: Path, records: list[Record]) -> tuple[Section, str]:
    store, baselines = Store(folder / "results"), Baselines(folder / "baselines")
    for record in records:
        store.save(record)
    made_of = build(gather(store, baselines, store.list()), project="here", now=AT + 9e5)
    return next(one for one in made_of.sections if one.name == "speculation"), render(made_of)


def test_each_batch_and_number_of_steps_is_weighed_against_the_same_server_without(tmp_path: Path) -> None:
    section, page = chapter(tmp_path, experiment())
    (part,) = section.parts
    (table,) = part.tables
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("1", "1 step", "pays"),
        ("1", "3 steps", "pays"),
        ("8", "1 step", "pays"),
        ("8", "3 steps", "pays"),
        ("64", "1 step", "costs"),
        ("64", "3 steps", "costs"),
    ]
    assert [float(row[3].split()[0]) for row in rows] == pytest.approx(
        [gain for batch in BATCHES for gain in GAIN[batch]], rel=0.02
    )
    assert {row[6] for row in rows} == {"1.70", "2.60"}
    assert float(rows[5][7]) == pytest.approx(2.6 / 0.7, rel=0.02)
    assert "Batch 64: costs (1 step, 0.93 × as fast" in json.dumps(part, default=vars, ensure_ascii=False)
    assert "Does speculative decoding pay?" in page
    assert "18 runs on 1 host" in page
    assert "Runs over time" not in page, "a line through several settings says nothing"


def test_the_plots_draw_what_a_step_yields_and_what_it_has_to(tmp_path: Path) -> None:
    section, _ = chapter(tmp_path, experiment())
    lengths, speedups = section.parts[0].plots
    drawn = {trace["name"]: trace for trace in lengths.figure["data"]}
    assert list(drawn) == ["1 step: yields", "1 step: pays from", "3 steps: yields", "3 steps: pays from"]
    assert drawn["3 steps: yields"]["x"] == list(BATCHES)
    assert drawn["3 steps: yields"]["y"] == pytest.approx([2.6] * 3, rel=0.01)
    above = [
        y > need
        for y, need in zip(drawn["3 steps: yields"]["y"], drawn["3 steps: pays from"]["y"], strict=True)
    ]
    assert above == [True, True, False]
    assert [trace["name"] for trace in speedups.figure["data"]] == [
        "1 step",
        "3 steps",
        "without speculation",
    ]


def test_of_several_experiments_the_newest_counts_and_another_profile_is_none_of_it() -> None:
    old = experiment(plain=50.0)
    new = experiment(at=AT + 3 * AGE_S, first=100)
    other = experiment(at=AT, first=200, host="node175")
    found = trials([*other, *old, *new])
    assert [(one.host, one.profile) for one in found] == [("node174", "eagle"), ("node175", "eagle")]
    assert {round(row.plain_tok_s) for row in found[0].rows if row.batch == 1} == {90}


def test_half_an_experiment_says_nothing() -> None:
    only_with = [one for one in experiment() if one.resolved != without(EAGLE, HOW)]
    assert trials(only_with) == ()
    assert trials([]) == ()


@pytest.mark.parametrize(
    "odd", [{}, {"server": 5}, {"server": {"args": [1]}}, {"server": {}, "env": "x"}, {"server": None}]
)
def test_a_record_whose_profile_is_no_profile_is_left_out(odd: dict[str, Any]) -> None:
    whole = experiment()
    strange = launch(900, AT, 1, 1, 10.0, resolved=odd)
    assert [one.rows for one in trials([*whole, strange])] == [one.rows for one in trials(whole)]


def test_a_server_that_tells_nothing_of_its_drafts_still_has_a_speed_up(tmp_path: Path) -> None:
    silent = [
        made.record(
            one.samples[0],
            of=made.subject(profile="eagle~spec", resolved=one.resolved),
            run_id=one.run_id,
            started_at=one.created,
            bench=one.bench.to_wire(),
        )
        for one in experiment()
    ]
    section, _ = chapter(tmp_path, silent)
    (part,) = section.parts
    assert [plot.title for plot in part.plots] == ["Speed-up"]
    assert {row.cells[7].text for row in part.tables[0].rows} == {"–"}
