"""Commands as another user, and logins with a password, against the real sudo, PAM and OpenSSH."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import HostFailed, HostUnreachable, InputError
from stoker.reach.bare import run_bare
from stoker.reach.manifest import announced
from stoker.reach.pull import fetch
from stoker.reach.push import load, push
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings
from tests.sshd import SshServer

ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="makes accounts of its own: only root can")
SUDO = pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed here")
PAM = pytest.mark.skipif(not Path("/etc/pam.d/sshd").exists(), reason="there is no PAM for sshd here")


class Account:
    """A user of this machine, with a password; gone with the test.

    Args:
        folder: Of the test: open for the user, its home lies in it.
        name: As the machine calls it.
        shell: Its login shell.
    """

    def __init__(self, folder: Path, name: str, shell: str = "/bin/bash") -> None:
        self.name = name
        self.password = "it's \\ " + secrets.token_hex(8)
        self.home = folder / name
        subprocess.run(["useradd", "-m", "-d", str(self.home), "-s", shell, name], check=True)
        subprocess.run(["chpasswd"], input=f"{name}:{self.password}\n", text=True, check=True)

    def allow(self, rule: str) -> None:
        """A line of sudoers for it."""
        self.rule.write_text(f"{self.name} {rule}\n")
        self.rule.chmod(0o440)

    @property
    def rule(self) -> Path:
        """Its file of sudoers."""
        return Path(f"/etc/sudoers.d/{self.name}")

    def remove(self) -> None:
        """Take it away again."""
        self.rule.unlink(missing_ok=True)
        subprocess.run(["userdel", "-f", "-r", self.name], check=True, stderr=subprocess.DEVNULL)


def new_name() -> str:
    return "st" + secrets.token_hex(5)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can pass."""
    folder = Path("/tmp") / f"stoker-{secrets.token_hex(6)}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def account(place: Path) -> Iterator[Account]:
    """Who logs in."""
    user = Account(place, new_name())
    yield user
    user.remove()


@pytest.fixture
def other(place: Path) -> Iterator[Account]:
    """Whom it becomes."""
    user = Account(place, new_name(), "/usr/sbin/nologin")
    yield user
    user.remove()


@pytest.fixture
def server(place: Path) -> Iterator[SshServer]:
    """Takes the key for every account, and passwords."""
    with SshServer(place / "sshd", options=["PasswordAuthentication yes"]) as running:
        yield running


def target(server: SshServer, account: Account, **variables: Any) -> Target:
    said = {**server.variables(), "ansible_user": account.name, **variables}
    return Target.of("h1", {name: value for name, value in said.items() if value is not None})


def become(user: str = "root", **more: Any) -> dict[str, Any]:
    return {"ansible_become": True, "ansible_become_user": user, **more}


def whoami(wanted: Target) -> str:
    return run_bare(wanted, "id -un", Reach(settings())).stdout.strip()


@ROOT_ONLY
@SUDO
def test_sudo_without_a_password_makes_the_agent_another_user(
    server: SshServer, account: Account, other: Account
) -> None:
    account.allow(f"ALL=({other.name}) NOPASSWD: ALL")
    with Reach(settings()).connect(target(server, account, **become(other.name))) as agent:
        assert agent.hello["user"] == other.name
        done = agent.call("exec", {"shell": "id -un; echo $HOME; pwd; cat", "stdin": "in\n"})
    assert done["stdout"].splitlines() == [other.name, str(other.home), str(other.home), "in"]


@ROOT_ONLY
@SUDO
def test_what_may_not_be_read_is_told_and_keeps_nothing_else_from_coming(
    server: SshServer, place: Path, account: Account
) -> None:
    for name in ("open", "shut", "closed/inside", "below/open"):
        (place / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "logs" / name).write_text(name)
    (place / "logs/shut").chmod(0)
    (place / "logs/closed").chmod(0)
    with Reach(settings()).connect(target(server, account)) as agent:
        found = announced(agent, str(place / "logs"), partly=True)
        assert found.unreadable == (("closed", "Permission denied"), ("shut", "Permission denied"))
        assert [file.path for file in found.files] == ["below/open", "open"]
        fetch(agent, found, place / "here")
        with pytest.raises(HostFailed, match="2 files or folders cannot be read") as caught:
            announced(agent, str(place / "logs"))
    assert (place / "here/below/open").read_text() == "below/open"
    assert caught.value.evidence == ("closed: Permission denied", "shut: Permission denied")


@ROOT_ONLY
@SUDO
@pytest.mark.parametrize("shell", ["/bin/bash", "/bin/dash", "/usr/bin/tcsh", "/usr/bin/fish"])
def test_sudo_with_a_password_answers_its_prompt_under_every_login_shell(
    server: SshServer, place: Path, shell: str
) -> None:
    if not Path(shell).exists():
        pytest.skip(f"{shell} is not installed here")
    account = Account(place, new_name(), shell)
    try:
        account.allow("ALL=(ALL) ALL")
        wanted = target(server, account, **become(ansible_become_password=account.password))
        done = run_bare(wanted, "id -un; cat; echo 'a  b' >&2; exit 7", Reach(settings()), stdin=b"all of it")
        assert (done.rc, done.stdout, done.stderr) == (7, "root\nall of it", "a  b\n")
    finally:
        account.remove()


@ROOT_ONLY
@SUDO
@pytest.mark.parametrize("password", [False, True])
def test_sudo_that_gives_each_command_a_terminal_changes_nothing(
    server: SshServer, account: Account, password: bool
) -> None:
    account.allow(f"ALL=(ALL) {'' if password else 'NOPASSWD: '}ALL\nDefaults:{account.name} use_pty")
    said = become(**({"ansible_become_password": account.password} if password else {}))
    done = run_bare(
        target(server, account, **said), "id -un; wc -c; exit 7", Reach(settings()), stdin=bytes(300_000)
    )
    assert (done.rc, done.stdout.split()) == (7, ["root", "300000"])


@ROOT_ONLY
@SUDO
def test_files_are_put_and_brought_as_that_user(
    server: SshServer, account: Account, other: Account, tmp_path: Path
) -> None:
    account.allow(f"ALL=({other.name}) ALL")
    (tmp_path / "f").write_bytes(b"x" * 500_000)
    (tmp_path / "f").chmod(0o600)
    said = become(other.name, ansible_become_password=account.password)
    with Reach(settings()).connect(target(server, account, **said)) as agent:
        push(agent, load(tmp_path / "f"), "~/in/f")
        put = other.home / "in/f"
        assert pwd.getpwuid(put.stat().st_uid).pw_name == other.name
        fetch(agent, announced(agent, str(put), single=True), tmp_path / "back")
    assert (tmp_path / "back/f").read_bytes() == (tmp_path / "f").read_bytes()


@ROOT_ONLY
@SUDO
def test_a_password_that_sudo_does_not_want_reaches_no_command(server: SshServer, account: Account) -> None:
    account.allow("ALL=(ALL) NOPASSWD: ALL")
    wanted = target(server, account, **become(ansible_become_password=account.password))
    assert run_bare(wanted, "cat", Reach(settings()), stdin=b"mine").stdout == "mine"


@ROOT_ONLY
@SUDO
@pytest.mark.parametrize("case", ["no rule", "wants one", "wrong one", "other user"])
def test_what_sudo_does_not_allow_is_a_failed_host_with_its_words(
    server: SshServer, account: Account, other: Account, case: str
) -> None:
    said = become()
    if case != "no rule":
        account.allow(f"ALL=({other.name if case == 'other user' else 'ALL'}) ALL")
    if case != "wants one":
        said["ansible_become_password"] = "wrong one" if case == "wrong one" else account.password
    with pytest.raises(HostFailed) as failed:
        whoami(target(server, account, **said))
    assert failed.value.kind == "become-denied"
    assert failed.value.exit_code == 3
    assert failed.value.next_step
    assert account.password not in str(failed.value.evidence) + failed.value.what
    if case != "wrong one":
        assert any("sudo" in line or account.name in line for line in failed.value.evidence)


@ROOT_ONLY
@SUDO
def test_neither_the_password_nor_the_command_stands_on_a_command_line(
    server: SshServer, account: Account
) -> None:
    account.allow("ALL=(ALL) ALL")
    wanted = target(server, account, **become(ansible_become_password=account.password))
    seen = run_bare(wanted, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' # marked-x", Reach(settings())).stdout
    assert "sudo" in seen
    assert account.password not in seen
    assert "marked-x" not in seen


@ROOT_ONLY
@SUDO
def test_deadline_ends_what_runs_as_another_user(server: SshServer, account: Account, place: Path) -> None:
    account.allow("ALL=(ALL) NOPASSWD: ALL")
    file = place / "pid"
    with pytest.raises(HostFailed) as failed:
        run_bare(
            target(server, account, **become()), f"echo $$ > {file}; sleep 60", Reach(settings()), timeout_s=1
        )
    assert failed.value.kind == "timeout"
    pid, end = int(file.read_text()), time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()


@ROOT_ONLY
def test_password_logs_in_where_it_is_asked_for(server: SshServer, account: Account) -> None:
    wanted = target(server, account, ansible_private_key_file=None, ansible_password=account.password)
    assert whoami(wanted) == account.name
    assert account.password not in repr(wanted) + repr(Reach(settings()).route(wanted))


@ROOT_ONLY
@PAM
def test_password_answers_the_question_of_a_server_that_only_asks(place: Path, account: Account) -> None:
    options = ["UsePAM yes", "KbdInteractiveAuthentication yes"]
    with SshServer(place / "pam", options=options, authorized=False) as server:
        assert whoami(target(server, account, ansible_password=account.password)) == account.name


@ROOT_ONLY
def test_wrong_password_is_denied_and_not_shown(server: SshServer, account: Account) -> None:
    wanted = target(server, account, ansible_private_key_file=None, ansible_password="wrong-password")
    with pytest.raises(HostUnreachable) as failed:
        whoami(wanted)
    assert failed.value.kind == "login-denied"
    assert "password: refused" in failed.value.evidence
    assert "wrong-password" not in str(failed.value.evidence) + failed.value.what


@SUDO
def test_become_works_over_the_local_connection() -> None:
    user = pwd.getpwuid(os.getuid()).pw_name
    if subprocess.run(["sudo", "-n", "true"], check=False, capture_output=True).returncode:
        pytest.skip("sudo wants a password of this user")
    assert whoami(Target.of("h1", {"ansible_connection": "local", **become(user)})) == user


@pytest.mark.parametrize(
    "given",
    [
        {"ansible_become": True, "ansible_become_method": "doas"},
        {"ansible_become": True, "ansible_become_user": "-x"},
        {"ansible_become_exe": "/opt/sudo"},
        {"ansible_password": "two\nlines"},
        {"ansible_password": ["x"]},
    ],
)
def test_what_cannot_be_done_is_the_inventorys_mistake(given: dict[str, Any]) -> None:
    with pytest.raises(InputError) as wrong:
        Target.of("h1", given)
    assert wrong.value.where == "h1"
    assert "two" not in str(wrong.value)
