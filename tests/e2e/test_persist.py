"""``inv persist`` with a real llama-server: a unit (of the stand-in for systemctl), or an entry point."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.launched import PROGRAMS
from tests.e2e.conftest import PLAIN
from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer, free_port

pytestmark = pytest.mark.engine


@pytest.fixture(params=["systemd", "none"])
def init(request: pytest.FixtureRequest) -> str:
    """What the host's init is."""
    return str(request.param)


@pytest.fixture
def box(tmp_path: Path, home: Path, init: str) -> Iterator[SshServer]:
    """A host whose services a stand-in for systemd keeps, or nobody."""
    folder = tmp_path / "systemd"
    (folder / "units").mkdir(parents=True)
    tool = tmp_path / "bin" / "systemctl"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S {PROGRAMS}/systemctl.py {folder} "$@"\n')
    tool.chmod(0o755)
    facts = {
        "systemd_dir": str(folder if init == "systemd" else tmp_path / "absent"),
        "unit_dir": str(folder / "units"),
        "lock_dir": str(tmp_path / "locks"),
    }
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    env = {
        "HOME": str(home),
        "PATH": f"{tool.parent}:{os.environ['PATH']}",
        "STOKER_HOST_FACTS": str(tmp_path / "facts.json"),
    }
    server = SshServer(tmp_path / "sshd", env=env)
    yield server
    server.stop()


@pytest.fixture
def project(tmp_path: Path, box: SshServer, tiny_model: Path, llama_server: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path / "project")
    folder.hosts({"box": box.variables()})
    port = free_port("127.0.0.1")
    folder.write("profiles/plain.yml", PLAIN.format(model=tiny_model, server=llama_server, port=port))
    return folder


def inv(project: ProjectFolder, command: str, *words: str, profile: bool = True) -> dict[str, Any]:
    named = ("--profile", "plain") if profile else ("--slot", "tiny")
    ended = project.inv(command, "--host", "box", *named, *words, "--json")
    assert ended.code == 0, ended.text
    found: dict[str, Any] = ended.json["hosts"]["box"]
    return found


@pytest.mark.parametrize("init", ["systemd"], indirect=True)
@pytest.mark.long
def test_a_persisted_server_lives_in_its_unit_and_every_command_minds_it(
    project: ProjectFolder, tmp_path: Path
) -> None:
    planned = project.inv("persist", "--host", "box", "--profile", "plain", "--check", "--diff")
    assert planned.code == 0, planned.text
    assert "+ExecStart=" in planned.out
    assert not list((tmp_path / "systemd" / "units").iterdir())
    done = inv(project, "persist")
    assert (done["changed"], done["results"][0]["enabled"]) == (True, True)
    assert not inv(project, "persist")["changed"]
    launched = inv(project, "restart")["results"][0]["launch"]
    assert launched["unit"] == "stoker-tiny.service"
    assert inv(project, "start")["results"][0]["already_running"]
    calls = (tmp_path / "systemd" / "calls").read_text()
    assert calls.count("\nstart stoker-tiny.service") == 1
    assert inv(project, "stop")["changed"]
    assert "\nstop stoker-tiny.service" in (tmp_path / "systemd" / "calls").read_text()
    assert inv(project, "persist", "--remove", profile=False)["changed"]
    assert not list((tmp_path / "systemd" / "units").iterdir())


@pytest.mark.parametrize("init", ["none"], indirect=True)
def test_without_systemd_the_entry_point_that_is_told_gives_a_server_that_is_ready(
    project: ProjectFolder, tmp_path: Path
) -> None:
    told = project.inv("persist", "--host", "box", "--profile", "plain")
    assert told.code == 0, told.text
    assert "@reboot " in told.out
    (script,) = (tmp_path / "home").glob(".stoker/slots/tiny/persist/start.sh")
    assert str(script) in told.out
    process = subprocess.Popen([script], env={"PATH": "/usr/bin:/bin"}, cwd="/", start_new_session=True)
    try:
        current = script.parent.parent / "current"
        while not current.exists():
            assert process.poll() is None
            time.sleep(0.02)
        ready = inv(project, "wait")["results"][0]
        assert ready["launch"]["profile"] == "plain"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
