"""Programs start as under subprocess: a session, folder, environment and signals of their own, no more."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

import pytest

from stoker.agent import spawn

ENV = {"PATH": "/usr/bin:/bin"}


def said(argv: list[str], cwd: str | None = None, env: dict[str, str] = ENV) -> str:
    """What a program writes."""
    child = spawn.spawn(argv, env, cwd)
    try:
        child.close("stdin")
        text = b""
        while data := os.read(child.pipe("stdout"), 1 << 16):
            text += data
        assert child.wait() == 0
        return text.decode()
    finally:
        child.close_all()


def opened() -> set[str]:
    """Our own descriptors."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture(params=["posix_spawn", "subprocess"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways; an old C library knows no sessions in posix_spawn, as Python then says."""
    if request.param == "subprocess":

        def without_sessions(*args: object, **kwargs: object) -> int:
            raise NotImplementedError('The "setsid" option is not supported')

        monkeypatch.setattr(os, "posix_spawn", without_sessions)
    return str(request.param)


def test_it_leads_a_session_of_its_own(way: str) -> None:
    pid, group, session = said(["sh", "-c", "exec ps -o pid=,pgid=,sid= -p $$"]).split()
    assert pid == group == session


def test_it_runs_in_its_folder_and_we_stay_in_ours(way: str, tmp_path: Path) -> None:
    before = Path.cwd()
    assert said(["pwd"], cwd=str(tmp_path)).strip() == str(tmp_path.resolve())
    with pytest.raises(FileNotFoundError) as caught:
        spawn.spawn(["pwd"], ENV, str(tmp_path / "none"))
    assert caught.value.filename == str(tmp_path / "none")
    assert Path.cwd() == before


def test_its_environment_is_what_was_given(way: str) -> None:
    assert said(["env"], env={**ENV, "A": "1 2"}).splitlines() == ["PATH=/usr/bin:/bin", "A=1 2"]


def test_signals_that_python_ignores_are_as_anywhere(way: str) -> None:
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN
    ignored = int(said(["grep", "SigIgn", "/proc/self/status"]).split()[1], 16)
    assert not ignored & 1 << signal.SIGPIPE - 1


def test_it_gets_three_descriptors(way: str) -> None:
    left_open = os.dup(0)
    try:
        os.set_inheritable(left_open, True)
        assert said(["sh", "-c", "ls /proc/$$/fd"]).split() == ["0", "1", "2"]
    finally:
        os.close(left_open)


def test_a_bare_name_is_the_first_of_its_own_path_that_runs(way: str, tmp_path: Path) -> None:
    for name, mode in (("a", 0o600), ("b", 0o700), ("c", 0o700)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "prog").write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name / "prog").chmod(mode)
    path = ":".join(str(tmp_path / name) for name in ("none", "a", "b", "c"))
    assert said(["prog"], env={"PATH": path}) == "b\n"


@pytest.mark.parametrize(
    "argv, code",
    [(["no-such-program"], errno.ENOENT), (["/etc/passwd"], errno.EACCES), (["/nowhere/x"], errno.ENOENT)],
)
def test_what_cannot_run_leaves_no_descriptor_open(way: str, argv: list[str], code: int) -> None:
    if os.getuid() == 0 and os.access("/etc/passwd", os.X_OK):
        pytest.skip("everything is executable here")
    before = opened()
    with pytest.raises(OSError) as caught:
        spawn.spawn(argv, ENV)
    assert (caught.value.errno, caught.value.filename) == (code, argv[0])
    assert opened() == before


def test_a_killed_one_says_its_signal(way: str) -> None:
    child = spawn.spawn([sys.executable, "-c", "input()"], ENV)
    child.kill_group()
    assert child.wait() == -signal.SIGKILL
    child.kill_group()  # its number may be another's by now
    child.close_all()
