"""What a user is told where another server runs than was meant, and after what failed or was interrupted."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer, free_port

SLEEPER = """\
engine: openai
server: {name: sleeper, model: none, port: PORT, command: [/bin/sleep, '600']}
ready: {timeout_s: 300, stall_s: 200}
kill: {grace_s: 1}
"""
# No linter can know that there is no such file on the host.
BROKEN = "extends: plain\nserver: {args: {lora: /nowhere/adapter.gguf}}\n"


def sleeper(project: ProjectFolder) -> None:
    project.write("profiles/sleeper.yml", SLEEPER.replace("PORT", str(free_port("127.0.0.1"))))


def launched(home: Path, slot: str) -> None:
    end = time.monotonic() + 30
    while not any(
        path.read_text().strip() for path in home.glob(f".stoker/slots/{slot}/launches/*/launcher")
    ):
        assert time.monotonic() < end, f"nothing was launched in {slot}"
        time.sleep(0.05)


@pytest.mark.long
def test_where_another_slot_runs_it_is_named(project: ProjectFolder, box: SshServer) -> None:
    sleeper(project)
    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    project.hosts({"box": {**box.variables(), "stoker_profiles": ["sleeper"]}})
    runs = "what runs: tiny (profile plain)"
    for name in ("bench", "wait", "logs"):
        ended = project.inv(name, "--host", "box")
        assert ended.code == 3, ended.text
        assert "slot sleeper (sleeper, which should run here) is down; " + runs in ended.text
        assert "--slot tiny takes the one that runs" in ended.text
        assert ended.text.count("is down") == 1, ended.text
    stopped = project.inv("stop", "--host", "box")
    assert runs in stopped.text
    named = project.inv(
        "bench", "--host", "box", "--slot", "tiny", "--runs", "1", "--tokens", "8", "--concurrency", "1"
    )
    assert named.code == 0, named.text


def test_a_restart_that_fails_after_the_kill_says_how_to_get_the_old_server_back(
    project: ProjectFolder,
) -> None:
    project.write("profiles/broken.yml", BROKEN)
    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    ended = project.inv("restart", "--host", "box", "--profile", "broken")
    assert ended.code == 3, ended.text
    assert "the server that ran before (plain) is gone" in ended.text
    assert "inv restart --host box --profile plain" in ended.text
    assert "✗ restart: failed (died)" in ended.text
    assert ended.text.count("is gone") == 1, ended.text


def test_an_interrupted_restart_says_that_the_server_goes_on_loading(
    project: ProjectFolder, home: Path
) -> None:
    sleeper(project)
    process = project.start("restart", "--host", "box", "--profile", "sleeper")
    launched(home, "sleeper")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "the server of slot sleeper (sleeper) goes on loading on box" in out + err
    assert "inv wait --host box --profile sleeper" in out + err
    assert "failed" not in out + err


def test_a_matrix_stops_what_it_left_where_nothing_ran(project: ProjectFolder) -> None:
    size = ("--runs", "1", "--tokens", "8", "--concurrency", "1")
    ended = project.inv("bench-all", "--host", "box", "--profile", "plain", *size)
    assert ended.code == 0, ended.text
    assert "profile plain (1/1): restart" in ended.text
    assert "stopped plain: nothing ran in slot tiny before" in ended.text
    status = project.inv("status", "--host", "box", "--json")
    assert not [
        one
        for one in json.loads(status.out)["hosts"]["box"]["results"][0]["servers"]
        if one["alive"] and one["launch"]
    ]


def test_an_interrupted_matrix_says_what_runs_what_ran_and_how_to_go_back(
    project: ProjectFolder, home: Path
) -> None:
    sleeper(project)
    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    process = project.start("bench-all", "--host", "box", "--profile", "sleeper")
    launched(home, "sleeper")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "slot sleeper (sleeper) goes on loading on box; before ran tiny (profile plain)" in out + err
    assert "inv stop --host box --slot sleeper && inv restart --host box --profile plain" in out + err


def test_a_kill_that_nobody_confirms_says_that_nothing_was_ended(project: ProjectFolder) -> None:
    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    ended = project.inv("kill", "--host", "box", "--match", "tiny.gguf", "--json")
    told = ended.json["hosts"]["box"]
    assert ended.code == 2, ended.text
    assert (told["status"], told["changed"]) == ("skipped", False)
    assert told["why"] == "not confirmed; nothing was ended"
    assert "confirm" in ended.json["error"]["what"]
    check = project.inv("stop", "--host", "box", "--profile", "plain", "--check", "--json")
    assert check.json["hosts"]["box"]["changed"] == "would", check.text
    sure = project.inv("kill", "--host", "box", "--slot", "tiny", "--yes")
    assert sure.code == 0, sure.text
    assert "would end" not in sure.text
    assert sure.text.count("launched here by Stoker") == 1, sure.text


def test_a_command_on_hosts_that_are_not_named_is_refused(project: ProjectFolder, home: Path) -> None:
    ended = project.inv("exec", "--cmd", "touch ~/touched")
    assert ended.code == 2, ended.text
    assert "must be named" in ended.text
    assert not (home / "touched").exists()


def test_a_roll_that_stops_says_why_the_others_were_not_begun(project: ProjectFolder, box: SshServer) -> None:
    nobody = {"ansible_host": "127.0.0.1", "ansible_port": free_port("127.0.0.1")}
    project.hosts({"away": {**box.variables(), **nobody}, "box": box.variables()})
    ended = project.inv("stop", "--host", "all", "--slot", "tiny", "--json")
    assert ended.code == 4, ended.text
    told = ended.json["hosts"]["box"]
    assert (told["status"], told["why"]) == ("skipped", "not begun: away was unreachable")
    assert "--serial all" in ended.text


def test_results_of_an_unknown_host_are_a_mistake_with_the_nearest_name(project: ProjectFolder) -> None:
    empty = project.inv("results")
    assert (empty.code, "no run has come back yet: inv bench" in empty.text) == (0, True), empty.text
    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    size = ("--runs", "1", "--tokens", "8", "--concurrency", "1")
    assert project.inv("bench", "--host", "box", *size).code == 0
    ended = project.inv("results", "--host", "bxo")
    assert ended.code == 2, ended.text
    assert "did you mean 'box'?" in ended.text
    listed = project.inv("results", "--host", "box", env={"COLUMNS": "80"})
    assert "8×1" in listed.out, listed.text
    assert "no such run" in project.inv("results", "--verdict", "regressed").out
    run = project.inv("results", "--json").json["results"][0]["run_id"]
    (name,) = [line.split()[0] for line in listed.out.splitlines() if "8×1" in line]
    assert run.endswith(f"-{name}"), listed.text
    shown = project.inv("show", name)
    assert "versions: engine" in shown.out, shown.text
    assert "arguments: --threads 1" in shown.out, shown.text
