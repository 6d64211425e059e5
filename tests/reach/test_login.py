"""Ways to log in and to get there that need a server of their own kind."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from stoker.errors import HostUnreachable
from stoker.reach.bare import run_bare
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings, target_of
from tests.reach.test_unreachable import ssh_agent
from tests.sshd import SshServer, make_key


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("form", ["variable", "name"])
def test_host_is_reached_over_ipv6(tmp_path: Path, form: str) -> None:
    with SshServer(tmp_path / "sshd", address="::1") as server:
        said = server.variables()
        name = "h1"
        if form == "name":
            name = f"[{said.pop('ansible_host')}]:{said.pop('ansible_port')}"
        done = run_bare(Target.of(name, said), "echo in", Reach(settings(host_key_policy="strict")))
    assert done.stdout == "in\n"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_certificate_of_the_user_beside_its_key_logs_in(tmp_path: Path, kind: str) -> None:
    make_key(tmp_path / "ca")
    make_key(tmp_path / "key", kind)
    options = [f"TrustedUserCAKeys {tmp_path}/ca.pub"]
    with SshServer(tmp_path / "sshd", options=options, authorized=False) as server:
        target = target_of(server, ansible_private_key_file=str(tmp_path / "key"))
        with pytest.raises(HostUnreachable):
            run_bare(target, "true", Reach(settings()))
        command: list[str | Path] = [
            "ssh-keygen",
            "-q",
            "-s",
            tmp_path / "ca",
            "-I",
            "me",
            "-n",
            server.user,
            tmp_path / "key.pub",
        ]
        subprocess.run(command, check=True, capture_output=True)
        assert run_bare(target, "echo in", Reach(settings())).stdout == "in\n"


def test_expired_certificate_of_the_user_is_refused_by_its_name(tmp_path: Path) -> None:
    make_key(tmp_path / "ca")
    make_key(tmp_path / "key")
    command: list[str | Path] = [
        "ssh-keygen",
        "-q",
        "-s",
        tmp_path / "ca",
        "-I",
        "me",
        "-n",
        "root",
        "-V",
        "20200101:20200201",
    ]
    subprocess.run([*command, tmp_path / "key.pub"], check=True, capture_output=True)
    options = [f"TrustedUserCAKeys {tmp_path}/ca.pub"]
    with SshServer(tmp_path / "sshd", options=options, authorized=False) as server:
        target = target_of(server, ansible_private_key_file=str(tmp_path / "key"))
        with pytest.raises(HostUnreachable) as failed:
            run_bare(target, "true", Reach(settings()))
    assert failed.value.kind == "login-denied"
    assert any(str(tmp_path / "key") in line for line in failed.value.evidence)


@pytest.mark.parametrize(
    ("said", "is_in"), [("{socket}", True), ("~/agent.sock", True), ("none", False), ("", False)]
)
def test_ssh_agent_is_the_one_that_ssh_config_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, is_in: bool
) -> None:
    config = tmp_path / "config"
    monkeypatch.setenv("HOME", str(tmp_path))
    with SshServer(tmp_path / "sshd") as server, ssh_agent(tmp_path, monkeypatch):
        subprocess.run(["ssh-add", "-q", server.key_file], check=True)
        if said != "none":
            monkeypatch.delenv("SSH_AUTH_SOCK")
        named = said.format(socket=tmp_path / "agent.sock")
        config.write_text(f"Host *\n  {f'IdentityAgent {named}' if named else 'Compression no'}\n")
        variables = server.variables()
        del variables["ansible_private_key_file"]
        target, reach = Target.of("h1", variables), Reach(settings(ssh_config=str(config)))
        if is_in:
            assert run_bare(target, "echo in", reach).stdout == "in\n"
        else:
            with pytest.raises(HostUnreachable):
                run_bare(target, "true", reach)
