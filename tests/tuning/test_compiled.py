"""The catalogue is read from one JSON file, which is never anything but the data files."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.tuning import compiled


def test_shipped_file_is_of_the_data_files() -> None:
    assert compiled.FILE.read_text() == compiled.dumps(), "run inv dev.docs"


@pytest.mark.parametrize("text", ["", "{}", "[]", "nothing", '{"digest": "of others", "data": []}'])
def test_file_that_is_of_others_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    whole = compiled.load()
    (tmp_path / "catalogue.json").write_text(text)
    monkeypatch.setattr(compiled, "FILE", tmp_path / "catalogue.json")
    assert compiled.load() == whole
    (tmp_path / "catalogue.json").unlink()
    assert compiled.load() == whole
