"""What the demo says where the story went otherwise than it is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker import demo


@pytest.mark.parametrize(("load", "busy"), [(29.0, True), (0.5, False)])
def test_a_busy_machine_is_named_as_the_likely_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: float, busy: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    told = demo._after_failure(tmp_path / ".lab/demo/project")
    assert told.startswith("this machine is busy (load 29 on ") == busy
    assert "look at what it measured in .lab/demo/project (inv results, show, explain)" in told
