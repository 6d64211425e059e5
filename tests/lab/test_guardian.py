"""Up, down, and what is left when the lab's own processes are killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.errors import InputError, StokerError
from stoker.lab import lab as control
from stoker.lab import procfs
from stoker.lab.state import LabState
from tests.lab.support import detach, eventually, ssh


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / ".lab"
    control.down(tmp_path / ".lab")


def living(root: Path) -> list[int]:
    return [process.pid for process in procfs.members({"": [root]})[""]]


def busy_host(state: LabState) -> list[int]:
    """Processes that are hard to find: detached, with an emptied environment, renamed with a wiped one."""
    host = state.hosts[0]
    plain = detach(state, host, "sleep 60")
    orphan = ssh(state, host, "(setsid env -i sleep 60 >/dev/null 2>&1 </dev/null & echo $!)").stdout
    model, python = f"{host.home}/models/Qwen3-8B", "venvs/sglang/bin/python -m sglang.launch_server"
    server = detach(
        state, host, f"env STANDIN_ESCAPE=1 STANDIN_FAULT=stall {python} --model-path {model} --tp-size 2"
    )

    def workers() -> list[int]:
        return [process.pid for process in procfs.descendants([server], procfs.table())]

    assert eventually(lambda: len(workers()) == 3)
    children = workers()
    os.kill(server, signal.SIGKILL)
    assert eventually(lambda: [gone([pid]) for pid in (server, *children)] == [True, False, False, True])
    return [plain, int(orphan), *children[:2]]


def gone(pids: list[int]) -> bool:
    found = [procfs.look(pid) for pid in pids]
    return all(process is None or process.gone for process in found)


def test_up_down_up_keeps_keys_and_addresses(root: Path) -> None:
    first = control.up(root, 1)
    assert control.up(root, 1).guardian == first.guardian, "a lab that is up stays as it is"
    keys = Path(first.known_hosts).read_text()
    assert control.down(root) == 0
    assert not control.status(root).running
    assert living(root) == []
    second = control.up(root, 1)
    assert Path(second.known_hosts).read_text() == keys
    assert second.hosts[0].address == first.hosts[0].address
    assert second.hosts[0].boot_id != first.hosts[0].boot_id
    assert ssh(second, second.hosts[0], "true").returncode == 0


def test_down_ends_everything_that_ever_started(root: Path) -> None:
    pids = busy_host(control.up(root, 1))
    assert control.down(root) >= len(pids)
    assert gone(pids)
    assert living(root) == []


def test_nothing_outlives_a_killed_server(root: Path) -> None:
    state = control.up(root, 1)
    pids = busy_host(state)
    os.kill(state.server[0], signal.SIGKILL)
    assert procfs.wait_gone(*state.guardian, within_s=10)
    assert gone(pids)
    assert not control.status(root).running


@pytest.mark.parametrize("then", ["up", "down"])
def test_the_next_command_ends_what_a_killed_guardian_left(root: Path, then: str) -> None:
    state = control.up(root, 1)
    pids = busy_host(state)
    os.kill(state.guardian[0], signal.SIGKILL)
    assert procfs.wait_gone(*state.server, within_s=10), "the server dies with its guardian"
    assert not gone(pids)
    if then == "up":
        assert control.up(root, 1).running
    else:
        control.down(root)
    assert gone(pids)


def test_a_lab_within_the_folder_is_another_lab(root: Path) -> None:
    """As the demo's, which runs while somebody brings the project's own up, and down again."""
    inner = control.up(root / "demo" / "lab", 1)
    try:
        detach(inner, inner.hosts[0], "sleep 60")
        control.up(root, 1)
        assert control.down(root) == 0
        now = control.status(Path(inner.root))
        assert (now.running, now.hosts[0].processes) == (True, 1)
    finally:
        control.down(Path(inner.root))


def test_a_stranger_that_looks_into_the_lab_is_left_alone(root: Path) -> None:
    state = control.up(root, 1)
    with open(state.log, "rb") as log:
        stranger = subprocess.Popen(["sleep", "60"], cwd=state.hosts[0].home, stdin=log)
    try:
        control.reboot(root, "node174")
        control.down(root)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_another_number_of_hosts_is_refused_while_it_is_up(root: Path) -> None:
    control.up(root, 1)
    with pytest.raises(InputError, match="up with 1 hosts, not 2"):
        control.up(root, 2)


@pytest.mark.parametrize(("hosts", "gpus"), [(0, 8), (251, 8), (1, 0), (1, 17)])
def test_senseless_numbers_are_refused(root: Path, hosts: int, gpus: int) -> None:
    with pytest.raises(InputError, match="must be from 1 to"):
        control.up(root, hosts, gpus=gpus)
    assert not root.exists()


def test_a_taken_port_makes_it_move_to_another_network(root: Path) -> None:
    before = control.up(root, 1).hosts[0]
    control.down(root)
    with socket.socket() as taken:
        taken.bind((before.address, before.port))
        taken.listen()
        state = control.up(root, 1)
        assert state.hosts[0].address != before.address
        assert ssh(state, state.hosts[0], "true").returncode == 0


def test_a_start_that_fails_says_why_and_leaves_nothing(root: Path) -> None:
    control.up(root, 1)
    control.down(root)
    (root / "machines" / "node174" / "ssh_host_ed25519_key").write_text("no key\n")
    with pytest.raises(StokerError, match="the lab did not start") as caught:
        control.up(root, 1)
    assert any("Invalid private key" in line for line in caught.value.evidence)
    assert living(root) == []


def test_an_unknown_host_is_not_rebooted(root: Path) -> None:
    with pytest.raises(InputError, match="the lab is down"):
        control.reboot(root, "node174")
    control.up(root, 1)
    with pytest.raises(InputError, match="no host 'node17'") as caught:
        control.reboot(root, "node17")
    assert "node174" in caught.value.next_step


def test_down_without_a_lab_does_nothing(tmp_path: Path) -> None:
    assert control.down(tmp_path / "none") == 0
    assert not (tmp_path / "none").exists()
