"""What a restart survives: a server that does not get ready, a controller that is killed, servers by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.launches.locks import port_lock, slot_lock
from tests.e2e.project import ProjectFolder
from tests.sshd import free_port

# No linter can know that there is no such file on the host.
BROKEN = """\
extends: plain
server:
  args: {lora: /nowhere/adapter.gguf}
"""
# Its launcher is deaf to SIGTERM: the kill takes as long as its grace.
DEAF = """\
extends: plain
server:
  wrap: [/bin/sh, -c, 'trap "" TERM; "$@"; sleep 0.01', sh]
kill: {grace_s: 3}
"""


def eventually(holds: Callable[[], Any], what: str, within_s: float = 30.0) -> Any:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {within_s} s")


def servers(project: ProjectFolder) -> list[dict[str, Any]]:
    ended = project.inv("status", "--host", "box", "--json")
    assert ended.code == 0, ended.text
    found: list[dict[str, Any]] = ended.json["hosts"]["box"]["results"][0]["servers"]
    return found


def ours(project: ProjectFolder) -> dict[str, Any]:
    """The one that Stoker launched; others may run on this machine meanwhile."""
    (server,) = [server for server in servers(project) if server["launch"]]
    return server


def test_a_new_server_that_does_not_get_ready_is_replaced_by_the_previous_one(project: ProjectFolder) -> None:
    project.write("profiles/broken.yml", BROKEN)
    first = project.inv("restart", "--host", "box", "--profile", "plain")
    assert first.code == 0, first.text
    before = Path(ours(project)["launch"]["script"]).read_text()
    # What is put back is what ran, whatever the file says today.
    plain = project.root / "profiles/plain.yml"
    plain.write_text(plain.read_text() + "env: {LLAMA_ARG_THREADS_HTTP: 3}\n")
    ended = project.inv("restart", "--host", "box", "--profile", "broken", "--rollback", "--json")
    assert ended.code == 3, ended.text
    error = ended.json["hosts"]["box"]["error"]
    assert error["kind"] == "died"
    assert "plain, which ran before, was put back: ready in" in error["what"]
    assert error["detail"]["rollback"]["launch"]["profile"] == "plain"
    server = ours(project)
    assert (server["launch"]["profile"], server["health"]) == ("plain", 200)
    assert Path(server["launch"]["script"]).read_text() == before


def test_where_nothing_ran_before_a_rollback_says_so(project: ProjectFolder) -> None:
    project.write("profiles/broken.yml", BROKEN)
    ended = project.inv("restart", "--host", "box", "--profile", "broken", "--rollback")
    assert ended.code == 3, ended.text
    assert "nothing was put back" in ended.text


def test_who_is_ended_is_shown_and_every_step_has_its_time(project: ProjectFolder) -> None:
    assert project.inv("restart", "--host", "box", "--profile", "plain").code == 0
    server = ours(project)
    ended = project.inv("restart", "--host", "box", "--profile", "plain", "--json")
    assert ended.code == 0, ended.text
    (line,) = [line for line in ended.err.splitlines() if f" {server['pid']} " in line and "end  " in line]
    assert "launched here by Stoker" in line
    result = ended.json["hosts"]["box"]["results"][0]
    names = [step["name"] for step in result["steps"]]
    assert names == [
        "look",
        "preflight",
        "prepare",
        "terminate",
        "kill",
        "release",
        "launch",
        "ready",
        "prove",
    ]
    assert result["launch"]["steps"] == result["steps"]


def test_a_controller_that_is_killed_while_it_kills_leaves_a_new_server_and_no_lock(
    project: ProjectFolder, home: Path
) -> None:
    project.write("profiles/deaf.yml", DEAF)
    assert project.inv("restart", "--host", "box", "--profile", "deaf").code == 0
    old = ours(project)
    restart = project.start("restart", "--host", "box", "--profile", "plain", "--json")
    assert restart.stderr is not None
    seen: list[str] = []
    while not any("end  " in line for line in seen):
        seen.append(restart.stderr.readline())
        assert seen[-1], "".join(seen)
    os.killpg(restart.pid, signal.SIGKILL)
    restart.communicate()
    assert Path(f"/proc/{old['pid']}").exists(), "it was ended before the controller was"
    current = home / ".stoker/slots/tiny/current"
    was = old["launch"]["launch_id"]
    eventually(lambda: current.read_text() != was, "the new launch")
    new = eventually(lambda: ours(project) if ours(project)["health"] == 200 else None, "the new server")
    assert new["launch"]["profile"] == "plain"
    assert not Path(f"/proc/{old['pid']}").exists()
    eventually(lambda: not agents(home), "the agents' end")
    unlock = project.inv("unlock", "--host", "box", "--check", "--json")
    locked = {lock["name"] for lock in unlock.json["hosts"]["box"]["results"][0]["locks"]}
    # Others may work on this machine meanwhile; locks are of the host.
    claimed = {slot_lock(str(home / ".stoker"), "tiny"), port_lock("127.0.0.1", old["port"])}
    assert not locked & claimed, unlock.text
    goes_on = project.inv("start", "--host", "box", "--profile", "plain")
    assert goes_on.code == 0, goes_on.text
    assert "plain runs already" in goes_on.text


def agents(home: Path) -> list[str]:
    """Agents of this home that live."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            mine = f"HOME={home}".encode() in (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mine and b"-ISuc" in words:
            found.append(entry.name)
    return found


@pytest.fixture
def by_hand(llama_server: Path, tiny_model: Path, home: Path) -> Iterator[Callable[[], tuple[int, int]]]:
    """Starts a llama-server as somebody would in a shell; gives its pid and port."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> tuple[int, int]:
        port = free_port("127.0.0.1")
        argv = [
            str(llama_server),
            "--model",
            str(tiny_model),
            "--port",
            str(port),
            "--threads",
            "2",
            "--metrics",
        ]
        argv += ["--device", "none", "-ngl", "0"]
        env = {**os.environ, "HOME": str(home)}
        quiet = subprocess.DEVNULL
        one = subprocess.Popen(argv, env=env, stdout=quiet, stderr=quiet, start_new_session=True)
        running.append(one)
        eventually(lambda: healthy(port), "the server by hand")
        return one.pid, port

    yield start
    for one in running:
        one.kill()
        one.wait()


def healthy(port: int) -> bool:
    from urllib.request import urlopen

    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_server_that_somebody_started_by_hand_is_seen_measured_and_ended(
    project: ProjectFolder, by_hand: Callable[[], tuple[int, int]]
) -> None:
    pid, port = by_hand()
    found = {server["pid"]: server for server in servers(project)}
    assert (found[pid]["engine"], found[pid]["port"], found[pid]["launch"]) == ("llamacpp", port, None)
    size = ("--runs", "1", "--tokens", "8", "--json")
    if len(found) == 1:  # on a machine where nobody else's runs beside us
        only = project.inv("bench", "--host", "box", *size)
        assert only.code == 0, only.text
        assert only.json["hosts"]["box"]["results"][0]["tok_s"] > 0
    _, other = by_hand()
    unclear = project.inv("bench", "--host", "box", *size)
    assert unclear.code != 0
    assert f"port {port} (llamacpp)" in unclear.text
    assert f"port {other} (llamacpp)" in unclear.text
    named = project.inv("bench", "--host", "box", "--port", str(port), *size)
    assert named.code == 0, named.text
    wrong = project.inv("bench", "--host", "box", "--port", str(port), "--profile", "plain", *size)
    assert wrong.code == 2, wrong.text
    profile = project.root / "profiles/plain.yml"
    old = next(line for line in profile.read_text().splitlines() if line.strip().startswith("port:"))
    profile.write_text(profile.read_text().replace(old, f"  port: {port}"))
    killed = project.inv("kill", "--host", "box", "--profile", "plain", "--json")
    assert killed.code == 0, killed.text
    assert [one["pid"] for one in killed.json["hosts"]["box"]["results"][0]["ended"]] == [pid]
    assert healthy(other)
    assert not healthy(port)


def test_hooks_of_a_profile_run_around_its_restart(project: ProjectFolder, home: Path) -> None:
    hooks = (
        "extends: plain\nhooks:\n  before_stop: ['echo out of $STOKER_SLOT >> ~/balancer']\n"
        "  after_ready: ['echo in at $STOKER_PORT >> ~/balancer']\n  drain_s: 20\n"
    )
    project.write("profiles/hooked.yml", hooks)
    first = project.inv("restart", "--host", "box", "--profile", "hooked", "--json")
    assert first.code == 0, first.text
    port = ours(project)["port"]
    assert (home / "balancer").read_text() == f"in at {port}\n", "nothing ran that had to be taken out"
    again = project.inv("restart", "--host", "box", "--profile", "hooked", "--json")
    assert again.code == 0, again.text
    assert (home / "balancer").read_text().splitlines()[1:] == ["out of tiny", f"in at {port}"]
    out, drain = again.json["hosts"]["box"]["results"][0]["kill"]["hooks"]
    assert (out["when"], out["rc"]) == ("before_stop", 0)
    assert drain["output"] == "no request runs or waits", "llama-server's own metrics were not asked"
    project.write("profiles/hooked.yml", hooks.replace("echo out", "exit 7; echo out"))
    failed = project.inv("restart", "--host", "box", "--profile", "hooked", "--rollback", "--json")
    assert failed.code == 3, failed.text
    error = failed.json["hosts"]["box"]["error"]
    assert error["kind"] == "hook"
    assert "nobody was signalled" in error["what"]
    assert ours(project)["health"] == 200
    stopped = project.inv("stop", "--host", "box", "--slot", "tiny")
    assert stopped.code == 0, stopped.text
    assert (home / "balancer").read_text().splitlines()[-1] == "out of tiny"
