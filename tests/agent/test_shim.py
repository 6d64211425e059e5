"""The supervisor of one server, as a real program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from stoker.agent.processes import procs
from tests.agent.conftest import Host, eventually, lives
from tests.agent.launched import SHIM


class Run:
    """A server under its shim."""

    def __init__(self, host: Host, *argv: str) -> None:
        self.folder = host.root / "launch"
        self.folder.mkdir()
        command = [sys.executable, "-I", "-S", str(SHIM), str(self.folder), "--", *argv]
        done = subprocess.run(command, env=host.env, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        self.shim, self.shim_start, self.pid, self.start = map(int, done.stdout.split())

    def read(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def ended(self) -> bool:
        return not procs.alive(self.shim, self.shim_start)


def test_it_tells_the_launcher_and_detaches(host: Host) -> None:
    run = Run(host, "sleep", "60")
    shim, server = procs.look(run.shim), procs.look(run.pid)
    assert shim is not None
    assert server is not None
    assert (run.shim_start, run.start) == (shim.start, server.start)
    assert run.read("launcher") == f"{run.pid} {run.start}"
    assert server.ppid == run.shim
    assert server.sid == run.pid, "the server leads a session of its own"
    assert shim.ppid != os.getpid(), "whoever started it may end"
    assert shim.sid != os.getsid(0)


def test_it_keeps_the_real_exit_status(host: Host) -> None:
    run = Run(host, "sh", "-c", "exit 7")
    eventually(run.ended, "the shim's end")
    assert (run.read("exit"), run.read("empty")) == ("7", "")


def test_it_keeps_the_signal_that_ended_the_server(host: Host) -> None:
    run = Run(host, "sleep", "60")
    os.kill(run.pid, signal.SIGKILL)
    eventually(run.ended, "the shim's end")
    assert run.read("exit") == "-9"


def test_it_holds_out_until_the_last_descendant_is_gone(host: Host) -> None:
    run = Run(host, "sh", "-c", "setsid sh -c 'setsid sleep 60 & exec sleep 60' & exit 0")
    eventually(lambda: run.read("exit"), "the launcher's exit")
    snapshot = procs.snapshot(host.context().facts)
    below = eventually(
        lambda: [p for p in procs.snapshot(host.context().facts).descendants(run.shim) if p.comm == "sleep"][
            1:
        ],
        "two detached descendants",
    )
    assert run.read("empty") is None
    assert not run.ended()
    for process in procs.snapshot(host.context().facts).descendants(run.shim):
        os.kill(process.pid, signal.SIGKILL)
    eventually(run.ended, "the shim's end")
    assert run.read("empty") == ""
    assert not any(lives(process.pid) for process in below)
    assert snapshot.alive(run.shim, run.shim_start)


def test_it_ignores_the_signals_of_a_lost_connection(host: Host) -> None:
    run = Run(host, "sleep", "60")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        os.kill(run.shim, number)
    os.kill(run.pid, signal.SIGTERM)
    eventually(run.ended, "the shim's end")
    assert run.read("exit") == "-15", "the server itself heeds them"


def test_what_the_server_says_is_appended_to_its_log(host: Host) -> None:
    folder = host.root / "launch"
    run = Run(host, "sh", "-c", "echo out; echo err >&2; cat; sleep 60")
    eventually(lambda: (run.read("server.log") or "").count("\n") == 2, "two lines")
    assert run.read("server.log") == "out\nerr\n"
    flags = int(
        next(
            line.split()[1]
            for line in procs.read_file(f"/proc/{run.pid}/fdinfo/1").decode().splitlines()
            if line.startswith("flags:")
        ),
        8,
    )
    assert flags & os.O_APPEND
    assert (folder / "server.log").stat().st_mode & 0o777 == 0o600


def test_a_server_gets_no_other_descriptors_and_usual_signals(host: Host) -> None:
    run = Run(host, "sleep", "60")
    assert {link.name for link in Path(f"/proc/{run.pid}/fd").iterdir()} == {"0", "1", "2"}
    assert Path(f"/proc/{run.pid}/fd/0").readlink() == Path("/dev/null")
    ignored = next(
        line.split()[1]
        for line in Path(f"/proc/{run.pid}/status").read_text().splitlines()
        if "SigIgn" in line
    )
    assert int(ignored, 16) == 0
    assert {str(link.readlink()) for link in Path(f"/proc/{run.shim}/fd").iterdir()} == {"/dev/null"}


def test_a_command_that_does_not_exist_is_told_in_the_log(host: Host) -> None:
    run = Run(host, "/does/not/exist")
    eventually(run.ended, "the shim's end")
    assert run.read("exit") == "127"
    assert "/does/not/exist" in (run.read("server.log") or "")


def test_a_folder_that_vanished_does_not_end_the_supervision(host: Host) -> None:
    run = Run(host, "sh", "-c", "sleep 60 & exec sleep 60")
    for path in run.folder.iterdir():
        path.unlink()
    run.folder.rmdir()
    os.kill(run.pid, signal.SIGKILL)
    eventually(lambda: not lives(run.pid), "the launcher's end")
    assert not run.ended(), "a descendant is left"


def test_wrong_arguments_are_refused() -> None:
    done = subprocess.run([sys.executable, str(SHIM), "x"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "usage" in done.stderr
