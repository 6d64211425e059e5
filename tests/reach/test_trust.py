"""Host keys recorded on purpose, against real OpenSSH servers."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from stoker.errors import HostUnreachable
from stoker.reach.bare import run_bare
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.e2e.project import ProjectFolder
from tests.reach.conftest import settings
from tests.sshd import SshServer, known_name, make_key, public_of


def strict(server: SshServer, file: Path) -> tuple[Reach, Target]:
    variables = {**server.variables(), "ansible_ssh_common_args": f"-o UserKnownHostsFile={file}"}
    return Reach(settings(host_key_policy="strict")), Target.of("h1", variables)


def several_kinds(folder: Path) -> SshServer:
    """A server with a key of each kind."""
    folder.mkdir()
    for kind in ("rsa", "ecdsa"):
        make_key(folder / kind, kind)
    return SshServer(folder, options=[f"HostKey {folder}/{kind}" for kind in ("rsa", "ecdsa")])


def test_every_kind_of_key_is_shown_and_recorded_and_then_known(tmp_path: Path) -> None:
    file = tmp_path / "known"
    with several_kinds(tmp_path / "sshd") as server:
        reach, target = strict(server, file)
        shown = reach.shown(target)
        assert shown.state == "new"
        told = {public_of(server.folder / name) for name in ("host_key", "rsa", "ecdsa")}
        assert {f"{key.kind} {key.blob}" for key in shown.keys} == told
        assert not file.exists()
        assert reach.trust("h1", shown) == []
        assert run_bare(target, "echo in", reach).stdout == "in\n"
        assert reach.shown(target).state == "known"
        found = subprocess.run(
            ["ssh-keygen", "-f", file, "-F", known_name(server.address, server.port)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert found.count(server.host_key.split()[1]) == 1


def test_fingerprints_are_those_of_ssh_keygen(server: SshServer, tmp_path: Path) -> None:
    reach, target = strict(server, tmp_path / "known")
    told = subprocess.run(
        ["ssh-keygen", "-l", "-f", server.folder / "host_key.pub"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert [key.fingerprint for key in reach.shown(target).keys] == [told]


@pytest.mark.parametrize("hashed", [False, True])
def test_changed_key_is_replaced_and_all_other_lines_stay(
    server: SshServer, tmp_path: Path, hashed: bool
) -> None:
    make_key(tmp_path / "old")
    old, name = public_of(tmp_path / "old"), known_name(server.address, server.port)
    file = tmp_path / "known"
    file.write_text(f"{name} {old}\n")
    if hashed:
        subprocess.run(["ssh-keygen", "-H", "-f", file], check=True, capture_output=True)
    own = file.read_text()
    others = f"# mine\n\nother.example {old}\n@revoked * {old.replace('AAAA', 'AAAB', 1)}\n*.example {old}\n"
    file.write_text(others + own + f"here,{name.upper()} {old}")
    file.chmod(0o640)
    reach, target = strict(server, file)
    shown = reach.shown(target)
    assert shown.state == "changed"
    assert len(shown.others) == 2
    reach.trust("h1", shown)
    assert file.read_text() == others + f"here {old}\n{name} {server.host_key}\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert run_bare(target, "echo in", reach).stdout == "in\n"


def test_other_keys_that_a_pattern_names_are_left_and_told(server: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "old")
    file = tmp_path / "known"
    file.write_text(f"[127.*]:* {public_of(tmp_path / 'old')}\n")
    reach, target = strict(server, file)
    assert [entry.line for entry in reach.trust("h1", reach.shown(target))] == [1]
    assert run_bare(target, "echo in", reach).stdout == "in\n"


def test_revoked_key_is_never_recorded(server: SshServer, tmp_path: Path) -> None:
    file = tmp_path / "known"
    file.write_text(f"@revoked * {server.host_key}\n")
    reach, target = strict(server, file)
    with pytest.raises(HostUnreachable) as failed:
        reach.shown(target)
    assert failed.value.kind == "host-key-revoked"


def test_host_behind_a_jump_host_is_asked_through_it(
    server: SshServer, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    with SshServer(tmp_path_factory.mktemp("jump")) as jump:
        said = (
            f"-o UserKnownHostsFile={tmp_path / 'known'} -J {jump.user}@{jump.address}:{jump.port} "
            f"-i {jump.key_file}"
        )
        target = Target.of("h1", {**server.variables(), "ansible_ssh_common_args": said})
        shown = Reach(settings()).shown(target)
        assert [key.blob for key in shown.keys] == [server.host_key.split()[1]]
        end = time.monotonic() + 10
        while jump.sessions() and time.monotonic() < end:
            time.sleep(0.02)
        assert not jump.sessions()


def test_inv_trust_shows_first_and_records_with_yes(server: SshServer, tmp_path: Path) -> None:
    project = ProjectFolder(tmp_path / "project")
    project.write(
        "invoke.yaml", "stoker: {ssh_config: none, host_key_policy: strict, known_hosts: [known]}\n"
    )
    said = {k: v for k, v in server.variables().items() if k != "ansible_ssh_common_args"}
    project.hosts({"h1": said, "here": {"ansible_connection": "local"}})
    refused = project.inv("trust", "--host", "all")
    assert refused.code == 2, refused.text
    assert "SHA256:" in refused.out
    assert not (project.root / "known").exists()
    assert project.inv("exec", "--host", "h1", "--cmd", "true").code == 4
    every = project.inv("trust")
    assert (every.code, "SHA256:" in every.out) == (2, True), "all are shown, and nobody is there to confirm"
    unseen = project.inv("trust", "--yes")
    assert (unseen.code, "SHA256:" in unseen.out) == (2, False)
    assert not (project.root / "known").exists()
    done = project.inv("trust", "--host", "all", "--yes", "--json")
    assert done.code == 0, done.text
    assert done.json["hosts"]["h1"]["results"][0]["recorded"] is True
    assert project.inv("exec", "--host", "h1", "--cmd", "true").code == 0
    again = project.inv("trust", "--host", "h1")
    assert again.code == 0, again.text
    assert "its keys are known" in again.out
