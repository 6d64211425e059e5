"""``inv exec`` on several hosts: folded output, odd bytes, and a fleet of which not all is well."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with SshServer(tmp_path / "sshd") as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    made = ProjectFolder(tmp_path / "project")
    made.write("invoke.yaml", "stoker: {ssh_config: none, login_timeout_s: 3, connect_timeout_s: 3}\n")
    return made


def test_same_output_is_shown_once_with_its_hosts(project: ProjectFolder, server: SshServer) -> None:
    project.hosts({f"h{n}": {**server.variables(), "ansible_user": server.user} for n in range(4)})
    code = "case $SSH_CONNECTION in *) echo same; echo to-err >&2;; esac"
    ended = project.inv("exec", "--host", "all", "--cmd", code, "--fold")
    assert ended.code == 0, ended.text
    assert ended.out.count("same") == 1
    assert ended.out.count("to-err") == 1
    assert "h0, h1, h2, h3 (4 hosts): exit 0" in ended.out


def test_hosts_that_differ_and_that_fail_stand_apart(
    project: ProjectFolder, server: SshServer, tmp_path: Path
) -> None:
    project.hosts({f"h{n}": server.variables() for n in range(4)})
    # The first one that comes makes the folder, and is the only one.
    command = f"if mkdir {tmp_path}/first 2>/dev/null; then echo first; exit 9; fi; echo others"
    ended = project.inv("exec", "--host", "all", "--cmd", command, "--fold", "--json", "--forks", "1")
    assert ended.code == 3, ended.text
    folded = [(group["rc"], group["stdout"], len(group["hosts"])) for group in ended.json["folded"]]
    assert folded == [(0, "others\n", 3), (9, "first\n", 1)]
    assert ended.json["hosts"]["h0"]["error"]["detail"]["rc"] == 9


def test_bytes_that_are_no_utf_8_are_a_clear_mistake(project: ProjectFolder, server: SshServer) -> None:
    project.hosts({"h1": server.variables()})
    done = subprocess.run(
        [sys.executable, "-m", "invoke", "exec", "--host", "h1", "--cmd", b"echo \xe9"],
        cwd=project.root,
        capture_output=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 2, done
    assert b"--cmd: holds bytes that are no UTF-8" in done.stderr


def test_one_hung_host_in_twenty_keeps_nobody_waiting(project: ProjectFolder, server: SshServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = {f"h{n:02}": server.variables() for n in range(19)}
        hosts["hung"] = {**server.variables(), "ansible_port": silent.getsockname()[1]}
        project.hosts(hosts)
        begun = time.monotonic()
        ended = project.inv("exec", "--host", "all", "--cmd", "echo in", "--json", "--forks", "5")
        assert time.monotonic() - begun < 30
    assert ended.code == 4, ended.text
    told = {name: host["status"] for name, host in ended.json["hosts"].items()}
    assert told == {**{f"h{n:02}": "ok" for n in range(19)}, "hung": "unreachable"}
    assert ended.json["hosts"]["hung"]["error"]["kind"] == "banner"


def test_host_that_hangs_in_a_command_is_ended_at_the_deadline(
    project: ProjectFolder, server: SshServer, tmp_path: Path
) -> None:
    project.hosts({f"h{n}": server.variables() for n in range(3)})
    command = f"mkdir {tmp_path}/first 2>/dev/null && exec sleep 60; echo in"
    ended = project.inv("exec", "--host", "all", "--cmd", command, "--timeout", "2", "--json")
    assert ended.code == 3, ended.text
    statuses = sorted(host["status"] for host in ended.json["hosts"].values())
    assert statuses == ["failed", "ok", "ok"]
    assert {host["error"]["kind"] for host in ended.json["hosts"].values() if "error" in host} == {"timeout"}


def test_host_that_reboots_in_the_middle_is_lost_and_the_others_are_kept(
    project: ProjectFolder, server: SshServer, tmp_path: Path
) -> None:
    with SshServer(tmp_path / "other") as other:
        project.hosts({"stays": other.variables(), "reboots": server.variables()})
        command = f"touch {tmp_path}/began; echo in; sleep 2"
        running = project.start("exec", "--host", "all", "--cmd", command, "--json")
        wait_for(tmp_path / "began")
        wait_for_sessions(server)
        server.stop()
        out, err = running.communicate(timeout=60)
        told = json.loads(out)
        assert running.returncode == 4, err
        assert told["hosts"]["stays"]["status"] == "ok"
        assert told["hosts"]["stays"]["results"][0]["stdout"] == "in\n"
        assert told["hosts"]["reboots"]["error"]["kind"] in ("lost", "refused", "banner")
    with SshServer(tmp_path / "sshd", port=server.port) as back:
        project.hosts({"reboots": back.variables()})
        assert project.inv("exec", "--host", "all", "--cmd", "true").code == 0


def test_interrupted_fleet_keeps_what_is_done(
    project: ProjectFolder, server: SshServer, tmp_path: Path
) -> None:
    project.hosts({f"h{n}": server.variables() for n in range(3)})
    command = (
        f"mkdir {tmp_path}/first 2>/dev/null && echo mine && exec sleep 60; echo in; touch {tmp_path}/done"
    )
    running = project.start("exec", "--host", "all", "--cmd", command, "--json", "--forks", "2")
    wait_for(tmp_path / "first")
    wait_for(tmp_path / "done")
    time.sleep(1.5)  # until the two others have told their end
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    told = json.loads(out)
    assert running.returncode == 130, err
    assert sorted(host["status"] for host in told["hosts"].values()) == ["interrupted", "ok", "ok"]


def wait_for(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.02)


def wait_for_sessions(server: SshServer) -> None:
    end = time.monotonic() + 20
    while not server.sessions():
        assert time.monotonic() < end, "nobody logged in"
        time.sleep(0.02)
