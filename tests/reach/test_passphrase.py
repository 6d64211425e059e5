"""Private keys with a passphrase: asked once, before anybody is connected to, and by no worker."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import HostUnreachable
from stoker.reach.bare import run_bare
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.e2e.project import ProjectFolder
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer, make_key

PHRASE = "open söme"
# Makes the terminal its own, as a shell does, and becomes inv.
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'invoke', *sys.argv[1:]])"
)


def with_key(folder: Path, kind: str, *form: str) -> tuple[SshServer, Path]:
    """A server that takes only a key with a passphrase."""
    key = folder / "locked"
    make_key(key, kind, "-N", PHRASE, *form)
    server = SshServer(folder / "sshd")
    (server.folder / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    return server, key


class Asked:
    """Answers for a terminal, and who asked."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.paths: list[str] = []

    def __call__(self, path: str) -> str:
        assert threading.current_thread() is threading.main_thread()
        self.paths.append(path)
        return self.answers.pop(0)


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
@pytest.mark.parametrize("form", [(), ("-m", "PEM")])
def test_key_is_asked_for_once_for_all_hosts(tmp_path: Path, kind: str, form: tuple[str, ...]) -> None:
    server, key = with_key(tmp_path, kind, *form)
    with server:
        targets = [target_of(server, f"h{n}", ansible_private_key_file=str(key)) for n in range(3)]
        reach, asked = Reach(settings()), Asked(PHRASE)
        reach.unlock(targets, asked)
        assert asked.paths == [str(key)]
        assert {run_bare(target, "echo in", reach).stdout for target in targets} == {"in\n"}


def test_wrong_passphrase_is_asked_for_again_and_given_up(tmp_path: Path) -> None:
    server, key = with_key(tmp_path, "ed25519")
    with server:
        target = target_of(server, ansible_private_key_file=str(key))
        asked = Asked("wrong", PHRASE)
        reach = Reach(settings())
        reach.unlock([target], asked)
        assert run_bare(target, "echo in", reach).stdout == "in\n"
        given_up = Asked("wrong", "wrong", "wrong")
        reach = Reach(settings())
        reach.unlock([target], given_up)
        assert given_up.answers == []
        with pytest.raises(HostUnreachable) as failed:
            run_bare(target, "true", reach)
        assert failed.value.kind == "login-denied"
        assert "has a passphrase" in failed.value.evidence[0]


def test_key_of_a_jump_host_is_asked_for_too(tmp_path: Path, server: SshServer) -> None:
    jump, key = with_key(tmp_path, "ed25519")
    with jump:
        config = tmp_path / "config"
        config.write_text(
            f"Host jump\n  HostName {jump.address}\n  Port {jump.port}\n  User {jump.user}\n"
            f"  IdentityFile {key}\n  UserKnownHostsFile {jump.known_hosts}\n"
        )
        variables = {**server.variables(), "ansible_ssh_common_args": "-J jump -o StrictHostKeyChecking=no"}
        reach, asked = Reach(settings(ssh_config=str(config))), Asked(PHRASE)
        target = Target.of("h1", variables)
        reach.unlock([target], asked)
        assert asked.paths == [str(key)]


def test_open_keys_are_not_asked_for(server: SshServer) -> None:
    Reach(settings()).unlock([target_of(server)], Asked())


def typed(project: ProjectFolder, argv: list[str], phrase: str) -> tuple[int, str]:
    """``inv ARGV`` on a terminal of its own, where a passphrase is typed when it is asked for."""
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *argv],
        cwd=project.root,
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        start_new_session=True,
        env={**os.environ, "TERM": "dumb"},
    )
    os.close(secondary)
    said, end, is_told = b"", time.monotonic() + 30, False
    with contextlib.suppress(OSError):  # the terminal is gone once the program is
        while time.monotonic() < end:
            if select.select([primary], [], [], 0.1)[0]:
                data = os.read(primary, 4096)
                if not data:
                    break
                said += data
            if b"Enter passphrase" in said and not is_told:
                is_told = True
                os.write(primary, phrase.encode() + b"\n")
    process.kill() if time.monotonic() >= end else None
    code = process.wait()
    os.close(primary)
    return code, said.decode(errors="replace")


def project_of(folder: Path, server: SshServer, key: Path) -> ProjectFolder:
    project = ProjectFolder(folder)
    project.write("invoke.yaml", "stoker: {ssh_config: none}\n")
    said: dict[str, Any] = {**server.variables(), "ansible_private_key_file": str(key)}
    project.hosts({f"h{n}": said for n in range(3)})
    return project


def test_terminal_is_asked_once_and_the_passphrase_is_not_shown(tmp_path: Path) -> None:
    server, key = with_key(tmp_path, "ed25519")
    with server:
        project = project_of(tmp_path / "project", server, key)
        code, said = typed(project, ["exec", "--host", "all", "--cmd", "echo in"], PHRASE)
        assert code == 0, said
        assert said.count("Enter passphrase") == 1
        assert said.count("in\r\n") >= 3
        assert PHRASE not in said


def test_without_a_terminal_nobody_is_asked_and_the_end_is_clear(tmp_path: Path) -> None:
    server, key = with_key(tmp_path, "ed25519")
    with server:
        ended = project_of(tmp_path / "project", server, key).inv("ping", "--json")
    assert ended.code == 4, ended.text
    error = ended.json["hosts"]["h0"]["error"]
    assert error["kind"] == "login-denied"
    assert "ssh-agent" in error["evidence"][0]
