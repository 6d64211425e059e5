"""The agent gets up whatever shell, start-up files and Pythons the host has."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker.errors import HostFailed
from stoker.reach import parcel
from stoker.reach.boot import Booting
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer


def found_pythons() -> list[str]:
    """Every interpreter of this machine that the agent must run under; at least the one of these tests."""
    named = [shutil.which(f"python3.{minor}") for minor in range(8, 15)]
    managed = sorted(Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python"))
    usable = [str(path) for path in managed if int(path.parents[1].name.split(".")[1]) >= 8]
    return sorted(
        {real for path in (sys.executable, *named, *usable) if path and (real := real_python(path))}
    )


def real_python(path: str) -> str:
    """The interpreter itself: a version manager puts a script in its place, which may find nothing."""
    ask = [path, "-c", "import os,sys;print(os.path.realpath(sys.executable))"]
    return subprocess.run(ask, capture_output=True, text=True).stdout.strip()


def too_old_pythons() -> list[str]:
    managed = sorted(Path("~/.pyenv/versions").expanduser().glob("*/bin/python"))
    return [str(path) for path in managed if path.parents[1].name.startswith(("2.", "3.6.", "3.7."))]


@pytest.mark.parametrize("python", found_pythons())
def test_agent_runs_under_every_python_of_this_machine(server: SshServer, python: str) -> None:
    with Reach(settings()).connect(target_of(server, ansible_python_interpreter=python)) as agent:
        assert agent.call("exec", {"shell": "echo hi"})["stdout"] == "hi\n"
        assert tuple(map(int, agent.hello["python"].split("."))) >= (3, 8)


def test_agent_runs_over_the_local_connection() -> None:
    target = Target.of("here", {"ansible_connection": "local"})
    with Reach(settings()).connect(target) as agent:
        assert agent.call("exec", {"argv": ["echo", "hi"]})["stdout"] == "hi\n"


@pytest.mark.parametrize("python", too_old_pythons() or ["/bin/false"])
def test_too_old_python_is_named_as_such(server: SshServer, python: str) -> None:
    with pytest.raises(HostFailed) as caught:
        Reach(settings()).connect(target_of(server, ansible_python_interpreter=python))
    assert caught.value.kind == "no-python"
    assert python in caught.value.what
    assert caught.value.exit_code == 3


def test_missing_python_is_a_failed_host_with_what_the_host_says(server: SshServer) -> None:
    with pytest.raises(HostFailed) as caught:
        Reach(settings()).connect(target_of(server, ansible_python_interpreter="/no/such/python3"))
    assert caught.value.kind == "no-python"
    assert any("/no/such/python3" in line and "not found" in line for line in caught.value.evidence)
    assert not any("zlib" in line for line in caught.value.evidence)
    assert "ansible_python_interpreter" in caught.value.next_step


def test_interpreter_below_the_home_is_found(server: SshServer, home: Path) -> None:
    (home / "my python").symlink_to(sys.executable)
    with Reach(settings()).connect(target_of(server, ansible_python_interpreter="~/my python")) as agent:
        assert agent.hello["executable"]


def test_broken_first_candidate_does_not_hide_a_good_one(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.reach.boot.PYTHONS", ("/bin/false", "/no/such", "python3"))
    with Reach(settings()).connect(target_of(server)) as agent:
        assert agent.call("exec", {"argv": ["true"]})["rc"] == 0


NOISY = """
echo "Welcome to node174"; printf 'no newline at the end'
echo complaint >&2
read x; echo "read: [$x]"
cat /dev/zero | head -c 200000 | tr '\\0' x
PS1=$nothing
"""


@pytest.mark.parametrize("shell", ["", "/bin/sh", "/bin/dash"])
def test_noise_of_start_up_files_does_no_harm(tmp_path: Path, shell: str) -> None:
    (tmp_path / ".bashrc").write_text(NOISY)
    with (
        SshServer(tmp_path / "sshd", env={"HOME": str(tmp_path)}, shell=shell) as server,
        Reach(settings()).connect(target_of(server)) as agent,
    ):
        assert agent.call("exec", {"shell": "echo fine"})["stdout"] == "fine\n"


def start_up_failure(folder: Path, bashrc: str, shell: str = "", patience_s: float = 20.0) -> HostFailed:
    (folder / ".bashrc").write_text(bashrc)
    with (
        SshServer(folder / "sshd", env={"HOME": str(folder)}, shell=shell) as server,
        pytest.raises(HostFailed) as caught,
    ):
        Reach(settings(login_timeout_s=patience_s)).connect(target_of(server))
    return caught.value


def test_start_up_file_that_swallows_everything_is_a_timeout_of_its_own(tmp_path: Path) -> None:
    error = start_up_failure(tmp_path, "echo hello from bashrc\nexec sleep 60\n", patience_s=1.0)
    assert error.kind == "timeout"
    assert "hello from bashrc" in error.evidence
    assert "start-up files" in error.next_step


def test_start_up_file_that_prints_without_end_is_cut_off(tmp_path: Path) -> None:
    error = start_up_failure(tmp_path, "yes\n")
    assert (error.kind, "without end" in error.what) == ("no-shell", True)


def test_account_without_a_shell_is_told_with_its_words(tmp_path: Path) -> None:
    error = start_up_failure(tmp_path, "echo This account is currently not available.\nexit 1\n")
    assert (error.kind, "status 1" in error.what) == ("no-shell", True)
    assert "This account is currently not available." in error.evidence


def test_command_line_holds_nothing_that_a_shell_could_misread() -> None:
    command = Booting("h", "/opt/py thon's/bin/python").command
    words = command.removeprefix("exec /bin/sh -c ")
    loader = words.split("' '")[1]
    assert not set(loader) & set("'\\!\n$`")
    script = words.split("' '")[0]
    assert not set(script) & set("\\!\n`")
    assert len(command) < 4000


def test_script_that_only_looks_like_a_python_is_not_believed(server: SshServer, tmp_path: Path) -> None:
    shim = tmp_path / "python3.11"
    shim.write_text("#!/bin/sh\necho 'python3.11: no version is set' >&2\nexit 127\n")
    shim.chmod(0o755)
    with pytest.raises(HostFailed) as caught:
        Reach(settings()).connect(target_of(server, ansible_python_interpreter=str(shim)))
    assert caught.value.kind == "no-python"
    assert any("no version is set" in line for line in caught.value.evidence)


def test_marker_differs_each_time() -> None:
    assert Booting("h").mark != Booting("h").mark


def test_wire_is_out_of_the_way_of_whatever_prints(server: SshServer) -> None:
    with Reach(settings()).connect(target_of(server)) as agent:
        pid = agent.hello["pid"]
        links = {number: Path(f"/proc/{pid}/fd/{number}").readlink() for number in (0, 1, 2)}
    assert str(links[0]) == "/dev/null"
    assert links[1] == links[2]


def test_login_environment_is_the_login_s_and_not_what_python_adds(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "NCCL_PROTO": "LL", "ODD": "a b $c"}
    with (
        SshServer(tmp_path / "sshd", env=env) as server,
        Reach(settings()).connect(target_of(server)) as agent,
    ):
        shown = agent.call("exec", {"argv": ["/usr/bin/env", "-0"]})["stdout"].split("\0")
    assert "NCCL_PROTO=LL" in shown
    assert "ODD=a b $c" in shown
    assert not any(line.startswith("LC_CTYPE=") for line in shown)


def test_threads_that_start_together_pack_the_agent_once() -> None:
    begin = threading.Barrier(8)

    def pack() -> tuple[bytes, bytes]:
        begin.wait()
        return parcel.first(43.21)  # of no other test: nothing is packed for it yet

    with ThreadPoolExecutor(8) as pool:
        packed = [done.result() for done in [pool.submit(pack) for _ in range(8)]]
    assert {id(modules) for _, modules in packed} == {id(packed[0][1])}
