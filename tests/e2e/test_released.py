"""What the end of a server gave back is told where people read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.box import Box
from tests.sshd import SshServer


@pytest.mark.long
def test_the_shared_memory_that_was_removed_is_named(tmp_path: Path) -> None:
    box = Box(tmp_path, lambda folder, env: SshServer(folder, env=env))
    shm = tmp_path / "shm"
    shm.mkdir()
    box.facts.write_text(json.dumps({**json.loads(box.facts.read_text()), "shm_dir": str(shm)}))
    try:
        for command in (("kill", "--slot", "plain", "--yes"), ("restart", "--profile", "plain"), ("stop",)):
            box.restart("plain")
            for name in ("psm_one", "psm_two", "kept"):
                (shm / name).write_bytes(b"x")
            ended = box.inv(*command)
            assert ended.code == 0, ended.text
            assert f"removed 2 files of shared memory: {shm}/psm_one, {shm}/psm_two" in ended.text, ended.text
            assert [path.name for path in shm.iterdir()] == ["kept"]
    finally:
        box.end()
