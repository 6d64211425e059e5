"""What restarts servers goes from host to host, and stops at the first that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.project import ProjectFolder
from tests.sshd import free_port


@pytest.mark.parametrize(
    ("more", "second"),
    [
        ((), "unreachable"),
        (("--launches", "2"), "skipped"),
        (("--launches", "2", "--serial", "all"), "unreachable"),
    ],
)
def test_a_benchmark_with_restarts_rolls_and_one_without_fans_out(
    tmp_path: Path, more: tuple[str, ...], second: str
) -> None:
    project = ProjectFolder(tmp_path / "project")
    nobody = {"ansible_host": "127.0.0.1", "ansible_port": free_port(), "stoker_profiles": ["p"]}
    project.hosts({"one": nobody, "two": nobody})
    project.write(
        "profiles/p.yml", "engine: openai\nserver: {name: s, model: m, port: 1, command: [/bin/true]}\n"
    )
    ended = project.inv("bench", "--host", "one,two", *more, "--json")
    assert ended.code == 4, ended.text
    hosts = ended.json["hosts"]
    assert [hosts[name]["status"] for name in ("one", "two")] == ["unreachable", second]
