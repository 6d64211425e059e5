"""What a host is, and what a declared file says in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.agent import facts
from stoker.agent.facts import FactsError


def test_without_a_declared_file_the_kernel_tells(tmp_path: Path) -> None:
    found = facts.load({})
    assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.init_start > 0
    assert found.pid_ns.startswith("pid:[")
    assert (found.simulated, found.gpu_device_dir, found.shm_dir) == (False, "/dev", "/dev/shm")
    assert (found.lock_dir, found.process_env) == ("", {})


def test_a_declared_file_replaces_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps({"simulated": True, "init_start": 7, "process_env": {"A": "b"}, "unknown": 1}))
    found = facts.load({facts.VARIABLE: str(path)})
    assert (found.simulated, found.init_start, found.process_env) == (True, 7, {"A": "b"})
    assert found.boot_id == facts.real().boot_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[]",
        '{"simulated": "yes"}',
        '{"init_start": true}',
        '{"shm_dir": 5}',
        '{"process_env": {"A": 1}}',
        '{"process_env": ["A"]}',
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "facts.json"
    path.write_text(text)
    with pytest.raises(FactsError, match=r"facts\.json"):
        facts.load({facts.VARIABLE: str(path)})


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(FactsError, match="/no/such/file"):
        facts.load({facts.VARIABLE: "/no/such/file"})
