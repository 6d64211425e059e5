"""A history says where the speed changed for good, and keeps quiet about noise."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ruptures

from stoker.results.history import Series, change_points, series
from stoker.results.records.store import Store
from stoker.results.sparkline import shares, sparkline
from tests.results import made

DAY = 86_400.0


def noisy(seed: int, *parts: tuple[float, int], sd: float = 0.01) -> list[float]:
    """Launches around each centre, in order."""
    random_ = random.Random(seed)
    return [centre * math.exp(random_.gauss(0, sd)) for centre, count in parts for _ in range(count)]


def stored(folder: Path, paces: list[float], **fields: object) -> Store:
    """A launch a day, a record each."""
    store = Store(folder)
    for day, pace in enumerate(paces):
        run_id = f"run-{fields.get('profile', 'p')}-{day:04}"
        subject = made.subject(profile=str(fields.get("profile", "nccl-tuned")))
        store.save(made.record([pace] * 5, of=subject, run_id=run_id, started_at=1767268800 + day * DAY))
    return store


def test_a_loss_is_a_step_with_both_sides_and_its_date(tmp_path: Path) -> None:
    (found,) = series(stored(tmp_path, noisy(1, (89, 12), (63, 8))).list())
    (step,) = found.steps
    assert step.index == 12
    assert step.change == pytest.approx(63 / 89 - 1, abs=0.03)
    assert (step.last.run.run_id, step.first.run.run_id) == ("run-p-0011", "run-p-0012")
    assert step.first.point.at - step.last.point.at == DAY


def test_two_steps_are_told_apart() -> None:
    assert change_points(noisy(2, (89, 15), (63, 10), (89, 15))) == [15, 25]


@pytest.mark.parametrize("sd", [0.005, 0.01, 0.02])
def test_noise_is_hardly_ever_a_step(sd: float) -> None:
    alarms = sum(bool(change_points(noisy(seed, (80, 40), sd=sd))) for seed in range(400))
    assert alarms / 400 <= 0.012


def test_a_loss_of_a_tenth_is_seen_after_three_launches() -> None:
    seen = sum(bool(change_points(noisy(seed, (80, 30), (72, 3)))) for seed in range(200))
    assert seen / 200 >= 0.94


def test_one_outlier_is_no_step() -> None:
    values = noisy(3, (80, 20))
    values[10] = 20.0
    assert change_points(values) == []


def test_less_than_three_percent_is_no_step_however_sure() -> None:
    assert change_points([80.0] * 50 + [78.5] * 50) == []


def test_seven_launches_tell_no_step() -> None:
    assert change_points([89.0] * 4 + [63.0] * 3) == []
    assert change_points([89.0] * 4 + [63.0] * 4) == [4]


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_search_finds_what_pelt_finds(seed: int) -> None:
    y = np.log(noisy(seed, (80, 20 + seed), (70, 12), (76, 15), sd=0.015)).reshape(-1, 1)
    penalty = 4 * 0.015**2 * math.log(len(y))
    ours = ruptures.KernelCPD(kernel="linear", min_size=3, jump=1).fit(y).predict(pen=penalty)
    theirs = ruptures.Pelt("l2", min_size=3, jump=1).fit(y).predict(pen=penalty)
    assert [int(cut) for cut in ours] == theirs


def test_what_disturbed_runs_tell_does_not_count_but_is_kept(tmp_path: Path) -> None:
    store = stored(tmp_path, [89.0] * 9)
    store.save(made.record([30.0] * 5, run_id="zz", started_at=1.8e9, contaminated=["a stranger"]))
    (found,) = series(store.list())
    assert (len(found.runs), len(found.places), found.latest.run_id) == (10, 9, "zz")
    assert found.level is not None
    assert found.level.tok_s == pytest.approx(89.0)


def test_series_do_not_mix_what_is_unlike(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save(made.record([89.0] * 5, run_id="a"))
    store.save(made.record([89.0] * 4, run_id="more-runs"))
    store.save(made.record([89.0] * 5, run_id="b", simulated=True))
    bench = {"name": "decode", "runs": 5, "tokens": 500, "concurrency": 8}
    store.save(made.record([89.0] * 5, run_id="c", bench=bench))
    store.save(made.record([89.0] * 5, run_id="d", of=made.subject(profile="kimi-k25")))
    found = series(store.list())
    assert sorted(len(one.runs) for one in found) == [1, 1, 1, 2]


def test_how_fast_it_is_now_leaves_out_what_was_before_the_step(tmp_path: Path) -> None:
    (found,) = series(stored(tmp_path, noisy(4, (89, 12), (63, 8))).list())
    assert found.level is not None
    assert found.level.launches == 8
    assert found.level.low < 63 < found.level.high < 66


def test_the_interval_holds_the_truth_in_nineteen_of_twenty_cases(tmp_path: Path) -> None:
    (template,) = series(stored(tmp_path, [80.0] * 5).list())
    held = sum(holds(template, seed) for seed in range(400))
    assert held / 400 >= 0.95


def holds(template: Series, seed: int) -> bool:
    random_ = random.Random(seed)
    points = [replace(p.point, tok_s=80 * math.exp(random_.gauss(0, 0.01))) for p in template.places]
    places = tuple(replace(p, point=q) for p, q in zip(template.places, points, strict=True))
    level = replace(template, places=places).level
    assert level is not None
    return level.low < 80 < level.high


def test_the_index_gives_the_same_points_as_the_records(tmp_path: Path) -> None:
    store = stored(tmp_path, noisy(5, (89, 9)))
    cold = store.list()
    assert (tmp_path / ".index.sqlite").is_file()
    assert Store(tmp_path).list() == cold
    assert cold[0].points[0].runs == 5


def test_a_sparkline_fits_and_shows_the_step() -> None:
    line = sparkline(noisy(6, (89, 200), (63, 100)), 20)
    assert len(line) == 20
    assert set(line[:13]) <= set("▇█")
    assert set(line[14:]) <= set("▁▂")


def test_a_sparkline_keeps_noise_flat() -> None:
    assert sparkline([80.0, 80.4, 79.8, 80.1]) == "▅▅▅▅"
    assert sparkline([]) == ""


@pytest.mark.parametrize("count", [1, 2, 7, 24])
def test_shares_are_never_empty_and_keep_order(count: int) -> None:
    for n in range(1, 60):
        found = shares([float(i) for i in range(1, n + 1)], count)
        assert len(found) == min(n, count)
        assert found == sorted(found)
