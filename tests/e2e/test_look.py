"""Looking at real servers over a real sshd: status, its watch, and logs that are followed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer, free_port


def eventually(holds: Callable[[], object], what: str, within_s: float = 30) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Running:
    """A command that goes on, and what it has written so far."""

    def __init__(self, project: ProjectFolder, *argv: str) -> None:
        self.process = project.start(*argv, env={"PYTHONUNBUFFERED": "1"})
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, pattern: str) -> None:
        eventually(lambda: any(re.search(pattern, line) for line in self.lines), f"{pattern}: {self.lines}")

    def interrupt(self) -> tuple[int, float]:
        """Ctrl-C; the exit code and how long it took."""
        begun = time.monotonic()
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(20)
        return code, time.monotonic() - begun

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def running(project: ProjectFolder, box: SshServer) -> Iterator[Callable[..., Running]]:
    """Starts commands that go on; the host has two names, and there is one that nobody answers."""
    variables = box.variables()
    gone = {**variables, "ansible_port": free_port("127.0.0.1")}
    tuned = {"stoker_profiles": ["tuned"]}
    project.hosts({"box": {**variables, **tuned}, "twin": {**variables, **tuned}, "gone": gone})
    started: list[Running] = []

    def start(*argv: str) -> Running:
        started.append(Running(project, *argv))
        return started[-1]

    yield start
    for one in started:
        one.end()


def restart(project: ProjectFolder) -> None:
    ended = project.inv("restart", "--host", "box")
    assert ended.code == 0, ended.text


def log_of(home: Path) -> Path:
    slot = home / ".stoker/slots/tiny"
    return slot / "launches" / (slot / "current").read_text() / "server.log"


def pid_of(home: Path) -> int:
    return int(json.loads((log_of(home).parent / "launch.json").read_text())["pid"])


def test_status_tells_what_runs_what_should_and_what_differs(
    project: ProjectFolder, running: Callable[..., Running]
) -> None:
    before = project.inv("status", "--host", "box")
    assert before.code == 0, before.text
    assert re.search(r"box +- +tuned +not running", before.out), before.text
    restart(project)
    ended = project.inv("status", "--json")
    assert ended.code == 4, ended.text
    assert ended.json["hosts"]["gone"]["status"] == "unreachable"
    (result,) = ended.json["hosts"]["box"]["results"]
    (server,) = [one for one in result["servers"] if one["launch"]]  # others may run on this machine too
    assert (server["state"], server["version"], server["proof"]["verdict"]) == ("up", "current", "in-force")
    assert (server["load"]["tok_s"], server["load"]["tok_s_from"]) == (0, "idle")
    assert result["missing"] == []
    project.write("profiles/tuned.yml", "extends: plain\nenv:\n  LLAMA_ARG_SPEC_TYPE: ngram-mod\n")
    after = project.inv("status", "--host", "box,gone", env={"COLUMNS": "80"})
    assert after.code == 4, after.text
    told = "box tiny: outdated: LLAMA_ARG_SPEC_TYPE is 'ngram-simple'; the profile says 'ngram-mod'"
    assert told in after.out
    assert re.search(r"gone +- +- +unreachable", after.out), after.text
    table = after.out[after.out.index("host ") : after.out.index(told)]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80


def test_the_speed_of_a_busy_server_is_worked_out_of_its_steps(
    project: ProjectFolder, running: Callable[..., Running]
) -> None:
    restart(project)
    port = re.search(r"port: (\d+)", (project.root / "profiles/plain.yml").read_text())
    assert port is not None
    body = json.dumps({"prompt": "hello", "max_tokens": 100_000, "ignore_eos": True, "stream": True})
    asked = urllib.request.Request(f"http://127.0.0.1:{port.group(1)}/v1/completions", body.encode())
    with urllib.request.urlopen(asked) as answer:
        assert answer.readline()
        ended = project.inv("status", "--host", "box", "--json")
    servers = ended.json["hosts"]["box"]["results"][0]["servers"]
    (load,) = [server["load"] for server in servers if server["launch"]]
    assert (load["running"], load["tok_s_from"]) == (1, "steps"), load
    assert load["tok_s"] > 1


def test_a_watch_keeps_lost_hosts_in_its_table_and_ends_as_its_last_look(
    project: ProjectFolder, running: Callable[..., Running], home: Path
) -> None:
    restart(project)
    watch = running("status", "--host", "box", "--watch", "0.3")
    watch.wait_for("box .* up ")
    os.kill(pid_of(home), signal.SIGKILL)
    watch.wait_for("box .* down ")
    code, took = watch.interrupt()
    assert (code, took < 3) == (0, True), watch.lines
    both = running("status", "--host", "box,gone", "--watch")
    both.wait_for("gone .* unreachable ")
    code, _ = both.interrupt()
    assert code == 4


def test_following_many_hosts_shows_whose_line_it_is_and_leaves_the_servers_alone(
    project: ProjectFolder, running: Callable[..., Running], home: Path
) -> None:
    restart(project)
    follow = running("logs", "--host", "box,twin", "--follow", "--grep", "good", "--forks", "1")
    follow_all = running("logs", "--host", "box", "--follow", "--lines", "1")
    follow_all.wait_for("^box ")
    with log_of(home).open("ab") as log:
        for word in (b"good \x1b[31mone\x1b[0m\n", b"bad\n", b"good \xff two\n"):
            log.write(word)
            log.flush()
            time.sleep(0.3)
    for pattern in ("^box +good one$", "^twin +good one$", "^twin +good � two$"):
        try:
            follow.wait_for(pattern)
        except AssertionError:
            with log_of(home).open("ab") as log:
                log.write(b"good one\ngood \xff two\n")  # it had not begun when the first ones were written
            follow.wait_for(pattern)
    assert not any("bad" in line for line in follow.lines)
    for one in (follow, follow_all):
        code, took = one.interrupt()
        assert (code, took < 3) == (0, True), one.lines
    os.kill(pid_of(home), 0)


def test_ctrl_c_before_a_log_has_begun_is_an_interruption(
    project: ProjectFolder, running: Callable[..., Running]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        project.hosts({"mute": {"ansible_host": "127.0.0.1", "ansible_port": port, "ansible_user": "x"}})
        follow = running("logs", "--host", "mute", "--slot", "tiny", "--follow")
        mute.accept()
        time.sleep(0.3)
        code, _ = follow.interrupt()
        assert code == 130


def test_logs_are_cut_by_time_and_pattern_and_an_earlier_launch_is_kept(
    project: ProjectFolder, running: Callable[..., Running], home: Path
) -> None:
    restart(project)
    first = log_of(home)
    found = project.inv(
        "logs", "--host", "box", "--grep", "model loaded|listening", "--since", "10m", "--json"
    )
    (log,) = found.json["hosts"]["box"]["results"][0]["logs"]
    assert log["path"] == str(first)
    assert log["lines"]
    assert log["dated"]
    old = project.inv("logs", "--host", "box", "--since", "2020-01-01", "--lines", "5", "--json")
    assert len(old.json["hosts"]["box"]["results"][0]["logs"][0]["lines"]) == 5
    restart(project)
    assert log_of(home) != first
    again = project.inv("logs", "--host", "box", "--launch", first.parent.name)
    assert str(first) in again.out, again.text
    wrong = project.inv("logs", "--host", "box", "--launch", "none")
    assert wrong.code == 3
    assert first.parent.name in wrong.err


@pytest.mark.parametrize("argv", [("--grep", "("), ("--since", "yesterday"), ("--lines", "0")])
def test_what_can_be_known_wrong_of_logs_is_told_before_anything_is_connected(
    project: ProjectFolder, running: Callable[..., Running], argv: tuple[str, ...]
) -> None:
    ended = project.inv("logs", "--host", "gone", "--slot", "tiny", *argv)
    assert (ended.code, argv[0] in ended.err) == (2, True), ended.text
