"""Through other servers: the same host-key policy on every hop, and one connection for all behind it."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.errors import HostError, HostUnreachable
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings
from tests.sshd import SshServer, free_port, make_key, public_of

RELAY = """
import os, socket, sys, threading
link = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        link.sendall(data)
    link.shutdown(1)
threading.Thread(target=up, daemon=True).start()
while data := link.recv(65536):
    os.write(1, data)
"""


@pytest.fixture
def jump(tmp_path: Path, server: SshServer) -> Iterator[SshServer]:
    """A jump host of this test's own, which the server's key may log in to."""
    with SshServer(tmp_path / "jump") as running:
        (running.folder / "authorized_keys").write_text(server.key_file.with_suffix(".pub").read_text())
        yield running


def behind(server: SshServer, jump: SshServer, known: Path, name: str = "h1", more: str = "") -> Target:
    args = f"-J {jump.user}@{jump.address}:{jump.port} -o UserKnownHostsFile={known} {more}"
    return Target.of(name, {**server.variables(), "ansible_ssh_common_args": args})


def known_of(folder: Path, *servers: SshServer) -> Path:
    file = folder / "known_of_both"
    file.write_text("".join(server.known_hosts.read_text() for server in servers))
    return file


def failure(target: Target, **changes: object) -> HostUnreachable:
    with pytest.raises(HostUnreachable) as caught:
        Reach(settings(**changes)).connect(target)
    return caught.value


def test_agent_runs_behind_a_jump_host(server: SshServer, jump: SshServer, tmp_path: Path) -> None:
    target = behind(server, jump, known_of(tmp_path, server, jump))
    with Reach(settings(host_key_policy="strict")).connect(target) as agent:
        assert agent.call("exec", {"argv": ["echo", "far"]})["stdout"] == "far\n"
    assert "Accepted publickey" in jump.log.read_text()


def test_first_keys_of_both_hops_are_recorded(server: SshServer, jump: SshServer, tmp_path: Path) -> None:
    known = tmp_path / "new_known_hosts"
    Reach(settings()).transport(behind(server, jump, known)).close()
    recorded = {line.split()[0] for line in known.read_text().splitlines()}
    assert recorded == {f"[127.0.0.1]:{jump.port}", f"[127.0.0.1]:{server.port}"}


@pytest.mark.parametrize("unknown", ["jump", "server"])
def test_strict_policy_holds_on_each_hop(
    server: SshServer, jump: SshServer, tmp_path: Path, unknown: str
) -> None:
    known = known_of(tmp_path, server if unknown == "jump" else jump)
    error = failure(behind(server, jump, known), host_key_policy="strict")
    assert (error.kind, error.host) == ("host-key-unknown", "h1")
    assert str((jump if unknown == "jump" else server).port) in error.what


def test_changed_key_of_the_jump_host_fails(server: SshServer, jump: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    known = known_of(tmp_path, server, jump)
    known.write_text(known.read_text().replace(jump.host_key, public_of(tmp_path / "other")))
    error = failure(behind(server, jump, known))
    assert error.kind == "host-key-changed"
    assert str(jump.port) in error.what and f"{known}:2" in error.what


def test_host_behind_that_refuses_is_told_apart_from_the_jump_host(
    server: SshServer, jump: SshServer, tmp_path: Path
) -> None:
    port = free_port()
    target = behind(server, jump, known_of(tmp_path, jump))
    closed = Target.of(
        "h1",
        {
            **server.variables(),
            "ansible_port": port,
            "ansible_ssh_common_args": f"-J {jump.user}@{jump.address}:{jump.port} "
            f"-o UserKnownHostsFile={known_of(tmp_path, jump)}",
        },
    )
    assert target.port != port
    error = failure(closed)
    assert error.kind == "refused"
    assert f":{port} through " in error.what and "jump host could not connect" in error.what


def test_jump_host_that_does_not_forward_is_told(server: SshServer, tmp_path: Path) -> None:
    with SshServer(tmp_path / "shut", options=["AllowTcpForwarding no"]) as shut:
        (shut.folder / "authorized_keys").write_text(server.key_file.with_suffix(".pub").read_text())
        error = failure(behind(server, shut, known_of(tmp_path, server, shut)))
    assert error.kind == "refused"
    assert "AllowTcpForwarding" in error.next_step


def test_hosts_behind_one_jump_host_share_its_connection(
    server: SshServer, jump: SshServer, tmp_path: Path
) -> None:
    known = known_of(tmp_path, server, jump)
    reach = Reach(settings())
    agents, failures = [], []

    def connect(number: int) -> None:
        try:
            agents.append(reach.connect(behind(server, jump, known, f"h{number}")))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=connect, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert jump.log.read_text().count("Accepted publickey") == 1
    for agent in agents[:-1]:
        agent.close()
    assert agents[-1].call("exec", {"argv": ["true"]})["rc"] == 0
    agents[-1].close()
    with reach.connect(behind(server, jump, known)) as again:
        assert again.call("exec", {"argv": ["true"]})["rc"] == 0
    assert jump.log.read_text().count("Accepted publickey") == 2


def test_one_failure_of_a_jump_host_is_told_to_all_who_wait(server: SshServer, tmp_path: Path) -> None:
    """A jump host that never answers costs its time once, not once a host."""
    with SshServer(tmp_path / "gone") as gone:
        known = known_of(tmp_path, server, gone)
        gone.process.send_signal(signal.SIGSTOP)
        reach = Reach(settings(login_timeout_s=1.0))
        kinds: list[str] = []

        def connect(number: int) -> None:
            try:
                reach.connect(behind(server, gone, known, f"h{number}"))
            except HostError as error:
                kinds.append(f"{error.host} {error.kind}")

        threads = [threading.Thread(target=connect, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(3.0)
        assert sorted(kinds) == [f"h{number} banner" for number in range(5)]


def test_lost_jump_host_is_replaced_for_the_next(server: SshServer, jump: SshServer, tmp_path: Path) -> None:
    known, reach = known_of(tmp_path, server, jump), Reach(settings())
    first = reach.connect(behind(server, jump, known))
    jump.signal_sessions(signal.SIGKILL)
    with pytest.raises(HostUnreachable) as caught:
        first.call("exec", {"argv": ["true"]})
    assert caught.value.kind == "lost"
    with reach.connect(behind(server, jump, known)) as second:
        assert second.call("exec", {"argv": ["true"]})["rc"] == 0
    first.close()


def test_proxy_command_carries_the_connection_and_leaves_nothing(server: SshServer, tmp_path: Path) -> None:
    script = tmp_path / "re lay.py"
    script.write_text(RELAY)
    command = f"{sys.executable} '{script}' %h %p"
    args = f'-o "ProxyCommand={command}" -o UserKnownHostsFile={server.known_hosts}'
    target = Target.of("h1", {**server.variables(), "ansible_ssh_common_args": args})
    with Reach(settings()).connect(target) as agent:
        assert agent.call("exec", {"argv": ["true"]})["rc"] == 0
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(script) in cmdline(path)]


def cmdline(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_proxy_command_that_fails_is_told_with_its_words(server: SshServer) -> None:
    args = '-o "ProxyCommand=echo the way is shut >&2; exit 3"'
    target = Target.of("h1", {**server.variables(), "ansible_ssh_common_args": args})
    error = failure(target)
    assert error.kind == "banner"
    assert "the way is shut" in error.evidence
