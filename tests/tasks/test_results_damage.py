"""What is damaged is named, and does not bury the list."""

from __future__ import annotations

import json
from pathlib import Path

from stoker.results.records.store import Store
from tests.results import made
from tests.tasks.test_typed import Typist, typist

__all__ = ["typist"]


def test_of_many_damaged_records_the_newest_are_named(typist: Typist, tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    store.save(made.good())
    for number in range(50):
        home = store.folder / f"2025-damaged-{number:02}"
        home.mkdir()
        (home / "run.json").write_text("{")
    code, out, err = typist.type("results")
    assert (code, err) == (0, "")
    named = [number for number in range(50) if f"2025-damaged-{number:02}/" in out.replace("\n", "")]
    assert named == list(range(30, 50))
    assert "and 30 older ones" in out
    assert made.good().run_id.rsplit("-", 1)[1] in out
    code, out, _ = typist.type("results", "--json")
    document = json.loads(out)
    assert (code, len(document["results"]), len(document["damaged"])) == (0, 1, 50)
    assert document["damaged"][0]["path"].endswith("/2025-damaged-00/run.json")
    assert document["damaged"][0]["what"]
