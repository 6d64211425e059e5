"""Hosts with certificates, against real OpenSSH servers and certificates that ssh-keygen signed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from stoker.errors import HostUnreachable
from stoker.reach.bare import run_bare
from stoker.reach.hostcert import parse
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings
from tests.sshd import SshServer, known_name, make_key, public_of


def sign(folder: Path, kind: str = "ed25519", names: str = "127.0.0.1", *options: str) -> SshServer:
    """A server whose key an authority has signed (``folder/ca``), and which shows no key of another kind.

    It has the key of ``SshServer`` as well; a client that knows the authority asks for the certificate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "ca").exists():
        make_key(folder / "ca")
    make_key(folder / "signed", kind)
    command: list[str | Path] = [
        "ssh-keygen",
        "-q",
        "-s",
        folder / "ca",
        "-I",
        "the host",
        "-h",
        "-n",
        names,
        *options,
    ]
    subprocess.run([*command, folder / "signed.pub"], check=True, capture_output=True)
    return SshServer(
        folder / "sshd", options=[f"HostKey {folder}/signed", f"HostCertificate {folder}/signed-cert.pub"]
    )


def login(server: SshServer, file: Path, lines: Sequence[str], *options: str) -> str:
    """What a strict login with these lines of known_hosts gives."""
    file.write_text("".join(f"{line}\n" for line in lines))
    args = " ".join([f"-o UserKnownHostsFile={file}", *options])
    target = Target.of("h1", {**server.variables(), "ansible_ssh_common_args": args})
    return run_bare(target, "echo in", Reach(settings(host_key_policy="strict"))).stdout


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("names", ["*", "[127.0.0.1]:*", "127.0.0.?"])
def test_known_authority_vouches_for_a_host_that_was_never_seen(
    tmp_path: Path, kind: str, names: str
) -> None:
    with sign(tmp_path / "a", kind) as server:
        authority = f"@cert-authority {names} {public_of(tmp_path / 'a/ca')}"
        assert login(server, tmp_path / "known", [authority]) == "in\n"


def test_names_of_a_certificate_are_patterns(tmp_path: Path) -> None:
    with sign(tmp_path / "a", "ed25519", "other.example,127.*") as server:
        authority = f"@cert-authority * {public_of(tmp_path / 'a/ca')}"
        assert login(server, tmp_path / "known", [authority]) == "in\n"


@pytest.mark.parametrize(
    ("names", "options", "says"),
    [
        ("other.example", (), "is for other.example"),
        ("127.0.0.1", ("-V", "20200101:20200201"), "has expired"),
        ("127.0.0.1", ("-V", "20900101:20910101"), "is not valid yet"),
    ],
)
def test_wrong_certificate_of_a_known_authority_is_told_by_its_flaw(
    tmp_path: Path, names: str, options: tuple[str, ...], says: str
) -> None:
    with sign(tmp_path / "a", "ed25519", names, *options) as server:
        authority = f"@cert-authority * {public_of(tmp_path / 'a/ca')}"
        with pytest.raises(HostUnreachable) as failed:
            login(server, tmp_path / "known", [authority])
        assert failed.value.kind == "host-key-unknown"
        assert says in failed.value.what
        own = f"{known_name(server.address, server.port)} {public_of(tmp_path / 'a/signed')}"
        assert login(server, tmp_path / "known", [authority, own]) == "in\n"


def test_another_authority_vouches_for_nobody(tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    with sign(tmp_path / "a") as server, pytest.raises(HostUnreachable) as failed:
        login(server, tmp_path / "known", [f"@cert-authority * {public_of(tmp_path / 'other')}"])
    assert failed.value.kind == "host-key-unknown"


def test_authority_of_other_hosts_does_not_vouch_for_this_one(tmp_path: Path) -> None:
    with sign(tmp_path / "a") as server, pytest.raises(HostUnreachable) as failed:
        login(server, tmp_path / "known", [f"@cert-authority *.example {public_of(tmp_path / 'a/ca')}"])
    assert failed.value.kind == "host-key-unknown"


@pytest.mark.parametrize("revoked", ["ca", "signed"])
def test_revoked_key_or_authority_is_refused(tmp_path: Path, revoked: str) -> None:
    with sign(tmp_path / "a") as server, pytest.raises(HostUnreachable) as failed:
        lines = [f"@cert-authority * {public_of(tmp_path / 'a/ca')}"]
        lines.append(f"@revoked * {public_of(tmp_path / 'a' / revoked)}")
        login(server, tmp_path / "known", lines)
    assert failed.value.kind == "host-key-revoked"


def test_alias_is_the_name_that_a_certificate_must_have(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host 127.0.0.1\n  HostKeyAlias gpu.example\n")
    with sign(tmp_path / "a", "ed25519", "gpu.example") as server:
        file = tmp_path / "known"
        file.write_text(f"@cert-authority gpu.example {public_of(tmp_path / 'a/ca')}\n")
        said = {**server.variables(), "ansible_ssh_common_args": f"-o UserKnownHostsFile={file}"}
        reach = Reach(settings(host_key_policy="strict", ssh_config=str(config)))
        assert run_bare(Target.of("h1", said), "echo in", reach).stdout == "in\n"


def test_certificate_that_was_tampered_with_is_not_signed(tmp_path: Path) -> None:
    import base64

    sign(tmp_path / "a").stop()
    blob = base64.b64decode((tmp_path / "a/signed-cert.pub").read_text().split()[1])
    whole = parse(blob)
    assert whole is not None
    assert whole.flaw("127.0.0.1") == ""
    changed = parse(blob.replace(b"127.0.0.1", b"127.0.0.2"))
    assert changed is not None
    assert changed.flaw("127.0.0.2") == "is not signed by that authority"
    assert all(parse(blob[:size]) is None for size in range(len(blob)))


def test_certificate_of_a_user_vouches_for_no_host(tmp_path: Path) -> None:
    import base64

    make_key(tmp_path / "ca")
    make_key(tmp_path / "user")
    command: list[str | Path] = [
        "ssh-keygen",
        "-q",
        "-s",
        tmp_path / "ca",
        "-I",
        "me",
        "-n",
        "127.0.0.1",
        tmp_path / "user.pub",
    ]
    subprocess.run(command, check=True, capture_output=True)
    found = parse(base64.b64decode((tmp_path / "user-cert.pub").read_text().split()[1]))
    assert found is not None
    assert found.flaw("127.0.0.1") == "is a user's certificate"
