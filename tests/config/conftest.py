"""What the tests of the configuration share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

CASES = Path(__file__).parent.parent / "cases"


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Writes files, given by their path relative to a fresh folder, and returns the folder."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write
