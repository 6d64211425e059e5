"""Host keys are judged as OpenSSH judges them, and a changed one always fails."""

from __future__ import annotations

import fcntl
import multiprocessing
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from stoker.errors import HostUnreachable
from stoker.reach.door import Unreachable
from stoker.reach.hostkeys import HostKey, KeyFile
from stoker.reach.known_hosts import KnownHosts
from stoker.reach.reach import Reach
from stoker.reach.route import Hop
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer, make_key, public_of

ED, ED2 = (HostKey("ssh-ed25519", f"AAAAC3NzaC1lZDI1NTE5AAAAI{letter * 43}") for letter in "AB")
RSA = HostKey("ssh-rsa", "AAAAB3NzaC1yc2EAAAADAQABAAABAQC7")


def hop(
    file: Path, address: str = "node174", port: int = 22, *, strict: bool = False, alias: str = ""
) -> Hop:
    return Hop(address, port, "root", key_name=alias, known_hosts=(file,), strict=strict)


def line(names: str, key: HostKey) -> str:
    return f"{names} {key.kind} {key.blob}\n"


def refusal(file: Path, key: HostKey, **where: object) -> Unreachable:
    with pytest.raises(Unreachable) as caught:
        KnownHosts().verify(hop(file, **where), key)  # type: ignore[arg-type]
    return caught.value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


def test_first_key_is_recorded_and_then_known(file: Path) -> None:
    KnownHosts().verify(hop(file), ED)
    assert file.read_text() == line("node174", ED)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    KnownHosts().verify(hop(file, strict=True), ED)
    assert file.read_text() == line("node174", ED)


def test_first_key_is_recorded_with_its_port_and_in_a_new_folder(tmp_path: Path) -> None:
    file = tmp_path / "new" / "known_hosts"
    KnownHosts().verify(hop(file, "Node174", 2222), ED)
    assert file.read_text() == line("[node174]:2222", ED)


def test_last_line_without_an_end_is_not_glued_to_the_new_one(file: Path) -> None:
    file.write_text(line("other", ED2).rstrip("\n"))
    KnownHosts().verify(hop(file), ED)
    assert file.read_text() == line("other", ED2) + line("node174", ED)


def test_strict_refuses_a_first_key_and_says_which_line_to_add(file: Path) -> None:
    error = refusal(file, ED, strict=True)
    assert error.kind == "host-key-unknown"
    assert line("node174", ED).strip() in error.next_step
    assert any(ED.fingerprint in text for text in error.evidence)
    assert not file.exists()


def test_changed_key_names_the_line_both_fingerprints_and_the_command(file: Path) -> None:
    file.write_text("# mine\n\n" + line("other", RSA) + line("[node174]:2222", ED))
    error = refusal(file, ED2, port=2222)
    assert error.kind == "host-key-changed"
    assert f"{file}:4" in error.what
    shown = "\n".join(error.evidence)
    assert ED.fingerprint in shown and ED2.fingerprint in shown
    assert f"ssh-keygen -f {file} -R '[node174]:2222'" in error.next_step


def test_command_of_a_changed_key_repairs_it(file: Path) -> None:
    file.write_text(line("node174", ED))
    command = refusal(file, ED2).next_step.rpartition(": ")[2]
    subprocess.run(command, shell=True, check=True, capture_output=True)
    KnownHosts().verify(hop(file), ED2)


def test_another_kind_of_key_than_the_known_ones_is_a_change(file: Path) -> None:
    file.write_text(line("node174", RSA))
    assert refusal(file, ED).kind == "host-key-changed"


def test_several_keys_of_one_host_are_all_right(file: Path) -> None:
    file.write_text(line("node174", RSA) + line("node174", ED) + line("node174", ED2))
    for key in (RSA, ED, ED2):
        KnownHosts().verify(hop(file, strict=True), key)
    assert KnownHosts().kinds(hop(file)) == ("ssh-rsa", "ssh-ed25519")


def test_revoked_key_is_refused_even_where_it_is_known(file: Path) -> None:
    file.write_text(line("node174", ED) + "@revoked " + line("*", ED))
    error = refusal(file, ED)
    assert error.kind == "host-key-revoked"
    assert f"{file}:2" in error.what


def test_key_that_is_revoked_for_others_is_not_refused(file: Path) -> None:
    file.write_text(line("node174", ED) + "@revoked " + line("*.example.com", ED))
    KnownHosts().verify(hop(file, strict=True), ED)


def test_certificate_authority_does_not_stand_for_a_key(file: Path) -> None:
    file.write_text("@cert-authority " + line("*", ED))
    assert refusal(file, ED, strict=True).kind == "host-key-unknown"


def test_bare_name_vouches_for_another_port_and_never_speaks_against_it(file: Path) -> None:
    file.write_text(line("node174", ED))
    KnownHosts().verify(hop(file, port=2222, strict=True), ED)
    assert refusal(file, ED2, port=2222, strict=True).kind == "host-key-unknown"


def test_alias_stands_in_place_of_address_and_port(file: Path) -> None:
    file.write_text(line("cluster", ED))
    KnownHosts().verify(hop(file, "10.0.0.1", 2222, strict=True, alias="Cluster"), ED)


@pytest.mark.parametrize(
    ("names", "name"),
    [
        ("node*", "node174"),
        ("node17?", "node174"),
        ("*,!node174", "node174"),
        ("[node*]:2222", "[node174]:2222"),
        ("[*]:2222", "[10.0.0.1]:2222"),
        ("a,node174,b", "node174"),
        ("NODE174", "node174"),
        ("node[1]74", "node174"),
        ("node", "node174"),
        ("fe80::1", "fe80::1"),
    ],
)
def test_names_match_as_for_ssh_keygen(file: Path, names: str, name: str) -> None:
    file.write_text(line(names, ED))
    asked = subprocess.run(["ssh-keygen", "-f", file, "-F", name], capture_output=True)
    assert bool(KeyFile(file).find(name)) == (asked.returncode == 0)


def test_hashed_names_are_found_and_written_as_ssh_keygen_does(file: Path) -> None:
    file.write_text(line("[node174]:2222", ED) + line("node175", ED2))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    assert "node" not in file.read_text()
    known = KnownHosts()
    known.verify(hop(file, port=2222, strict=True), ED)
    assert refusal(file, ED, address="node175").kind == "host-key-changed"
    hashing = Hop("node176", 22, "root", known_hosts=(file,), hash_known_hosts=True)
    known.verify(hashing, ED)
    assert "node176" not in file.read_text()
    asked = subprocess.run(["ssh-keygen", "-f", file, "-F", "node176"], capture_output=True)
    assert asked.returncode == 0


def test_broken_lines_are_passed_over(file: Path) -> None:
    file.write_text("node174\n|1|zz\n@revoked\n|1|!|! ssh-ed25519 AAAA\n\0\n" + line("node174", ED))
    KnownHosts().verify(hop(file, strict=True), ED)


def test_later_files_know_too_and_are_not_written(tmp_path: Path, file: Path) -> None:
    system = tmp_path / "system"
    system.write_text(line("node174", ED))
    way = Hop("node174", 22, "root", known_hosts=(file, system), strict=True)
    KnownHosts().verify(way, ED)
    with pytest.raises(Unreachable, match="not the one recorded"):
        KnownHosts().verify(way, ED2)
    assert not file.exists()


def test_entry_that_another_program_wrote_meanwhile_counts(file: Path) -> None:
    known = KnownHosts()
    known.verify(hop(file, "a"), ED)
    with file.open("a") as other:
        other.write(line("b", ED))
    with pytest.raises(Unreachable, match="not the one recorded"):
        known.verify(hop(file, "b"), ED2)


def test_many_threads_lose_no_entry_and_write_none_twice(file: Path) -> None:
    known = KnownHosts()
    names = [f"node{number % 40}" for number in range(120)]
    threads = [threading.Thread(target=known.verify, args=(hop(file, name), ED)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(file.read_text().splitlines()) == sorted(line(name, ED).strip() for name in set(names))


def record_many(file: Path, first: int) -> None:
    known = KnownHosts()
    for number in range(first, first + 30):
        known.verify(hop(file, f"node{number}"), ED)


def test_many_processes_lose_no_entry(file: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=record_many, args=(file, first)) for first in (0, 15, 30)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    lines = file.read_text().splitlines()
    assert sorted(lines) == sorted({line(f"node{number}", ED).strip() for number in range(60)})


def test_locked_file_does_not_hang(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.reach.hostkeys._LOCK_S", 0.1)
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert refusal(file, ED).kind == "host-key-unknown"


def test_unwritable_place_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = refusal(tmp_path / "file" / "known_hosts", ED)
    assert (error.kind, "known_hosts" in error.next_step) == ("host-key-unknown", True)


def test_no_file_at_all_records_nothing() -> None:
    for files in ((), (Path("/dev/null"),)):
        for key in (ED, ED2):  # nothing speaks against another one
            KnownHosts().verify(Hop("node174", 22, "root", known_hosts=files), key)
    assert Path("/dev/null").is_char_device()


def test_server_with_a_changed_key_is_not_logged_in_to(tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    with SshServer(tmp_path / "sshd") as server:
        known = server.known_hosts.read_text().replace(server.host_key, public_of(tmp_path / "other"))
        server.known_hosts.write_text(known)
        with pytest.raises(HostUnreachable) as caught:
            Reach(settings()).connect(target_of(server))
        assert caught.value.kind == "host-key-changed"
        assert f"{server.known_hosts}:1" in caught.value.what
        assert "Accepted publickey" not in server.log.read_text()


def test_server_is_asked_for_the_kind_of_key_that_is_known(tmp_path: Path) -> None:
    """It has two; only the one that would not be offered first is known."""
    make_key(tmp_path / "rsa_key", "rsa")
    with SshServer(tmp_path / "sshd", options=[f"HostKey {tmp_path}/rsa_key"]) as server:
        name = server.known_hosts.read_text().split()[0]
        server.known_hosts.write_text(f"{name} {public_of(tmp_path / 'rsa_key')}\n")
        Reach(settings(host_key_policy="strict")).transport(target_of(server)).close()


def test_hashed_known_hosts_lets_a_strict_login_through(tmp_path: Path) -> None:
    with SshServer(tmp_path / "sshd") as server:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", server.known_hosts], check=True, capture_output=True)
        Reach(settings(host_key_policy="strict")).transport(target_of(server)).close()


def test_many_first_connections_at_once_record_one_line(tmp_path: Path) -> None:
    with SshServer(tmp_path / "sshd") as server:
        server.known_hosts.write_text("")
        reach, failures = Reach(settings()), []

        def log_in() -> None:
            try:
                reach.transport(target_of(server)).close()
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=log_in) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(server.known_hosts.read_text().splitlines()) == 1
