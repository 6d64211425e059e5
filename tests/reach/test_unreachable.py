"""Each way of not reaching a host has its own kind, its evidence and its next step."""

from __future__ import annotations

import errno
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import paramiko
import pytest

from stoker.errors import HostUnreachable
from stoker.reach.door import translate
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer, free_port, make_key


def failure(target: Target, **changes: object) -> HostUnreachable:
    """How connecting fails."""
    with pytest.raises(HostUnreachable) as caught:
        Reach(settings(**changes)).connect(target)
    assert caught.value.exit_code == 4
    assert caught.value.next_step
    return caught.value


@contextmanager
def listening(*, backlog: int = 8) -> Iterator[socket.socket]:
    """A TCP port that accepts and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(backlog)
        yield listener


def at(listener: socket.socket) -> Target:
    return Target.of("h1", {"ansible_host": "127.0.0.1", "ansible_port": listener.getsockname()[1]})


def test_closed_port_is_refused() -> None:
    error = failure(Target.of("h1", {"ansible_host": "127.0.0.1", "ansible_port": free_port()}))
    assert (error.kind, error.host) == ("refused", "h1")
    assert "127.0.0.1" in error.what
    assert "inv lab.up" in error.next_step, "it was most likely a lab's"


@pytest.mark.parametrize("place", ["root@10.1.230.174:22", "root@gpu127.example:22", "a127.0.0.1@h:22"])
def test_no_lab_is_named_for_a_host_elsewhere(place: str) -> None:
    refused = translate(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), place)
    assert "lab" not in refused.next_step
    assert "sshd" in refused.next_step


def test_port_that_accepts_and_never_speaks_is_a_missing_banner_in_time() -> None:
    with listening() as listener:
        begun = time.monotonic()
        error = failure(at(listener), login_timeout_s=0.6)
        assert time.monotonic() - begun < 3
    assert error.kind == "banner"
    assert "0.6 s" in error.what


def test_port_that_speaks_something_else_is_told_with_its_words() -> None:
    with listening() as listener:

        def speak() -> None:
            link, _ = listener.accept()
            with link:
                link.sendall(b"HTTP/1.1 400 Bad Request\r\n" * 200)

        threading.Thread(target=speak, daemon=True).start()
        error = failure(at(listener))
    assert error.kind == "banner"
    assert "something else than SSH" in error.what


def test_full_backlog_is_a_timeout_in_time() -> None:
    with listening(backlog=0) as listener:
        address = listener.getsockname()
        filling = [socket.socket() for _ in range(4)]
        for link in filling:
            link.setblocking(False)
            link.connect_ex(address)
        begun = time.monotonic()
        error = failure(at(listener), connect_timeout_s=0.5)
        assert time.monotonic() - begun < 2
        for link in filling:
            link.close()
    assert error.kind == "timeout"
    assert "0.5 s" in error.what


def test_unknown_name_is_told_as_such() -> None:
    assert failure(Target.of("no-such-host.invalid", {})).kind == "name-unknown"


def test_server_that_drops_the_first_connection_is_tried_once_more(server: SshServer) -> None:
    """As sshd does above MaxStartups. The first connection is dropped, the second one leads to the server."""
    with listening() as listener:
        threading.Thread(target=drop_then_relay, args=(listener, server), daemon=True).start()
        target = target_of(
            server,
            ansible_port=listener.getsockname()[1],
            ansible_ssh_common_args="-o UserKnownHostsFile=none",
        )
        with Reach(settings()).connect(target) as agent:
            assert agent.call("exec", {"argv": ["true"]})["rc"] == 0


def drop_then_relay(listener: socket.socket, server: SshServer) -> None:
    listener.accept()[0].close()
    near, _ = listener.accept()
    far = socket.create_connection((server.address, server.port))
    threading.Thread(target=copy, args=(near, far), daemon=True).start()
    copy(far, near)


def copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other direction has ended already


def test_server_that_drops_every_connection_is_given_up(server: SshServer) -> None:
    with listening() as listener:
        seen = []

        def drop() -> None:
            while True:
                try:
                    link, _ = listener.accept()
                except OSError:
                    return
                seen.append(link)
                link.close()

        threading.Thread(target=drop, daemon=True).start()
        error = failure(at(listener))
    assert error.kind == "banner"
    assert "MaxStartups" in error.next_step
    assert len(seen) == 2


def test_wrong_key_is_denied_and_named(server: SshServer, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong_key"
    make_key(wrong)
    error = failure(target_of(server, ansible_private_key_file=str(wrong)))
    assert error.kind == "login-denied"
    assert any(str(wrong) in line and "SHA256:" in line and "refused" in line for line in error.evidence)
    assert "PRIVATE KEY" not in "".join(error.evidence)


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), ("no key at all\n", "is no private key")],
)
def test_unusable_key_file_is_named_with_what_is_wrong(
    server: SshServer, tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    error = failure(target_of(server, ansible_private_key_file=str(file)))
    assert error.kind == "login-denied"
    assert any(str(file) in line and said in line for line in error.evidence)


def test_key_with_a_passphrase_is_sent_to_the_ssh_agent(server: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "key", "ed25519", "-N", "secret phrase")
    error = failure(target_of(server, ansible_private_key_file=str(tmp_path / "key")))
    assert any("ssh-add" in line for line in error.evidence)
    assert "secret phrase" not in str(vars(error))


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("form", [(), ("-m", "PEM")])
def test_keys_of_each_kind_log_in(tmp_path: Path, kind: str, form: tuple[str, ...]) -> None:
    with SshServer(tmp_path / "sshd") as server:
        make_key(tmp_path / "key", kind, *form)
        public = (tmp_path / "key.pub").read_text()
        (server.folder / "authorized_keys").write_text(public)
        Reach(settings()).transport(target_of(server, ansible_private_key_file=str(tmp_path / "key"))).close()


def test_key_held_by_the_ssh_agent_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has a passphrase; the ssh-agent has the key."""
    with SshServer(tmp_path / "sshd") as server, ssh_agent(tmp_path, monkeypatch):
        subprocess.run(["ssh-add", "-q", server.key_file], check=True)
        lock = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret phrase", "-f", str(server.key_file)]
        subprocess.run(lock, check=True)
        Reach(settings()).transport(target_of(server)).close()


@contextmanager
def ssh_agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    socket_file = folder / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", socket_file], stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 5
        while not socket_file.exists() and time.monotonic() < end:
            time.sleep(0.01)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket_file))
        yield
    finally:
        process.kill()
        process.wait()


def test_too_many_keys_are_told_as_such(tmp_path: Path) -> None:
    options = ["MaxAuthTries 2"]
    with SshServer(tmp_path / "sshd", options=options) as server:
        args = [server.variables()["ansible_ssh_common_args"]]
        for number in range(4):
            make_key(tmp_path / f"key{number}")
            args.append(f"-o IdentityFile={tmp_path}/key{number}")
        target = target_of(
            server, ansible_private_key_file="", ansible_ssh_common_args=" ".join(map(str, args))
        )
        error = failure(target)
    assert error.kind == "login-denied"
    assert "so many keys" in error.what
    assert "ansible_private_key_file" in error.next_step


def test_second_factor_is_told_quickly(tmp_path: Path) -> None:
    options = ["AuthenticationMethods publickey,password", "PasswordAuthentication yes"]
    with SshServer(tmp_path / "sshd", options=options) as server:
        begun = time.monotonic()
        error = failure(target_of(server))
    assert error.kind == "second-factor"
    assert "password" in error.what
    assert time.monotonic() - begun < 5


def test_server_that_allows_no_session_refuses_the_channel(tmp_path: Path) -> None:
    with SshServer(tmp_path / "sshd", options=["MaxSessions 0"]) as server:
        error = failure(target_of(server))
    assert error.kind == "refused"
    assert "MaxSessions" in error.next_step


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), "no-route"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "no-route"),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "lost"),
        (EOFError(), "lost"),
        (paramiko.SSHException("Incompatible ssh peer"), "lost"),
        (paramiko.ssh_exception.IncompatiblePeer("no kex"), "incompatible"),
        (paramiko.ChannelException(2, "Connect failed"), "refused"),
        (OSError("something new"), "lost"),
    ],
)
def test_foreign_errors_become_ours(error: Exception, kind: str) -> None:
    translated = translate(error, "root@h:22")
    assert translated.kind == kind
    assert translated.what.startswith("root@h:22")
