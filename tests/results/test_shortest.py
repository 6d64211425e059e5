"""The shortest end of an id names one run, and the same one that the store finds by it."""

from __future__ import annotations

import random
from pathlib import Path

from stoker.results.records.shortest import ends
from stoker.results.records.store import RECORD, Store


def test_the_end_is_as_short_as_it_can_be() -> None:
    ids = ["20260101-1-a-77aa", "20260102-2-a-88bb", "20260103-3-b-88bb"]
    assert ends(ids, ids) == {ids[0]: "77aa", ids[1]: "a-88bb", ids[2]: "b-88bb"}


def test_an_end_that_begins_another_id_is_none() -> None:
    ids = ["2026-x", "2027-y-2026"]
    assert ends(ids, ids) == {"2026-x": "x", "2027-y-2026": "y-2026"}


def test_an_id_without_an_end_of_its_own_is_told_whole() -> None:
    assert ends(["a", "b-a"], ["a", "b-a"]) == {"a": "a", "b-a": "b-a"}


def test_the_store_finds_by_it_the_run_that_is_meant(tmp_path: Path) -> None:
    dice = random.Random(7)
    store = Store(tmp_path / "results")
    parts = ["2026", "26", "a", "b", "77", "2026a"]
    for run_id in {"-".join(dice.choices(parts, k=dice.randint(1, 4))) for _ in range(60)}:
        home = store.path(run_id)
        home.mkdir(parents=True)
        (home / RECORD).write_text("{}")
    ids = store.ids()
    for run_id, end in ends(ids, ids).items():
        assert store.resolve(end) == run_id
