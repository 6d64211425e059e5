"""Ways in which a process escapes, or is taken for another: real programs, each outcome read from /proc."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.processes import procs
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, PLAIN, ZOO, Host, eventually, free_port, lives
from tests.agent.test_launch import Wire

ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users at once")
SLEEP = "import signal; print('up', flush=True); signal.pause()"
NOBODY = 65534


def kill(host: Host, **params: Any) -> dict[str, Any]:
    return life.kill(host.context(), {"engines": ENGINES, **params})


def refused(host: Host, **params: Any) -> AgentError:
    with pytest.raises(AgentError) as caught:
        kill(host, **params)
    return caught.value


def launch(host: Host, plan: dict[str, Any]) -> dict[str, Any]:
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    eventually(lambda: b"ready" in Path(done["log"]).read_bytes(), "ready")
    return dict(done)


def pids(report: dict[str, Any], where: str = "ended") -> set[int]:
    return {process["pid"] for process in report[where]}


def state_of(pid: int) -> str:
    found = procs.look(pid)
    return found.state if found else ""


def test_a_process_that_has_the_number_of_a_dead_launcher_is_not_ended(host: Host) -> None:
    done = launch(host, host.plan())
    for pid in (done["shim_pid"], done["pid"], *host.workers()):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not procs.look(done["pid"]), "its number is free")
    taker = host.spawn([sys.executable, str(ZOO / "same_pid.py"), str(done["pid"])])
    assert taker.stdout is not None
    if not taker.stdout.readline():
        pytest.skip("the right to choose a process number (clone3 with set_tid) is missing here")
    eventually(lambda: procs.look(done["pid"]).comm == "sleep", "the stranger")  # type: ignore[union-attr]
    assert procs.look(done["pid"]).sid == done["pid"], "it even leads a session"  # type: ignore[union-attr]
    for act in (life.stop, life.kill):
        assert act(host.context(), {"slot": "stable", "engines": ENGINES})["ended"] == []
    assert lives(done["pid"])


def test_zombies_that_nobody_reaps_do_not_hold_up_a_kill(host: Host) -> None:
    """Its parent never waits for it: its number stays, and it is gone all the same."""
    host.gpus()
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, start_new_session=True)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(600)"
    )
    engine = [sys.executable, str(ZOO / "zooserve"), "serve", "--gpu", host.device(0)]
    parent = host.spawn([sys.executable, "-c", code, *engine])
    assert parent.stdout is not None
    server = int(parent.stdout.readline())
    began = time.monotonic()
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert server in pids(report)
    assert report["released"]["processes"]
    assert report["unkillable"] == []
    assert state_of(server) == "Z", "somebody reaped it"
    assert time.monotonic() - began < 5
    assert lives(parent.pid)


@pytest.mark.parametrize("name", ["a b", "x) S 1 1 (y", "((", "zoo worker 1)", "\\n\\t)"])
def test_a_name_with_spaces_and_parentheses_is_no_way_out(host: Host, name: str) -> None:
    program = host.root / "odd.py"
    program.write_text(
        "import ctypes, os, signal, sys\n"
        "if os.fork() == 0:\n    os.setsid()\n"
        "ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)\n"
        "print('ready', flush=True)\nsignal.pause()"
    )
    script = f"#!/bin/sh\nexec {sys.executable} {program} '{name}'\n"
    done = launch(host, host.plan(engine=PLAIN, script=script))
    named = eventually(lambda: [p for p in host.mine() if p.comm == name[:15]][1:], "the second")
    report = kill(host, slot="stable")
    assert pids(report) >= {done["pid"], named[0].pid}
    assert not host.mine()


def test_a_second_slot_on_other_gpus_survives(host: Host) -> None:
    host.gpus()
    launch(host, host.plan("--gpu", host.device(0), gpus=(0,)))
    other = launch(host, host.plan("--gpu", host.device(1), slot="meadow", gpus=(1,)))
    workers = {p.pid for p in host.mine() if p.title.startswith("zoo::worker") and p.sid == other["pid"]}
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert procs.alive(other["pid"], other["start"])
    assert workers
    assert all(map(lives, workers))
    assert not workers & pids(report)
    assert report["released"]["gpus"] == [{"index": 0, "before_mib": 2000, "after_mib": 0}]


def test_a_worker_that_only_holds_the_gpu_and_one_that_only_holds_the_port_are_both_found(host: Host) -> None:
    """Two halves of dead servers: neither has a launcher any more, nor the other's resource."""
    host.gpus()
    port = free_port()
    on_gpu = host.serve("--hold-on", "--workers", "1", "--gpu", host.device(0))
    (worker,) = host.workers()
    os.kill(on_gpu, signal.SIGKILL)
    on_port = host.serve("--workers", "0", "--port", str(port))
    report = kill(host, plan=host.plan(gpus=(0,), port=port))
    assert pids(report) == {worker, on_port}
    assert not lives(worker)
    assert procs.listeners(port) == []


@ROOT
@pytest.mark.parametrize("program", ["engine", "python"])
def test_another_users_process_on_the_gpu_stops_the_command(host: Host, program: str) -> None:
    host.gpus()
    for folder in (host.root, *host.root.parents):
        if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    python = _python_for_all()
    zoo = host.root / "zooserve"
    shutil.copy(ZOO / "zooserve", zoo)
    holds = f"f = open({host.device(0)!r}); {SLEEP}"
    argv = {"engine": [python, "-c", holds, "serve"], "python": [python, "-c", holds]}[program]
    if program == "engine":  # as an engine looks: a Python that runs a program of that name
        zoo.write_text(holds)
        argv = [python, str(zoo), "serve"]
    theirs = host.spawn(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv])
    assert theirs.stdout is not None
    assert theirs.stdout.readline() == "up\n"
    error = refused(host, plan=host.plan(gpus=(0,)))
    assert error.kind == "blocked"
    assert "another user's" in error.what
    (blocker,) = error.detail["kill"]["blockers"]
    assert (blocker["pid"], blocker["uid"], blocker["gpus"]) == (theirs.pid, NOBODY, [0])
    assert lives(theirs.pid)
    report = kill(host, plan=host.plan(gpus=(0,)), force=True)
    assert pids(report) == {theirs.pid}
    assert not lives(theirs.pid)


def _python_for_all() -> str:
    """A Python that other users may run."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no Python here that another user may run")
    return "/usr/bin/python3"


@pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")
def test_a_real_tmux_server_is_left_whatever_its_command_line_holds(host: Host) -> None:
    socket = str(host.root / "tmux.sock")
    inside = f"exec {sys.executable} {ZOO}/zooserve serve"
    env = {**host.env, "TMUX_TMPDIR": str(host.root)}
    tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
    try:
        subprocess.run([*tmux, "new-session", "-d", inside], env=env, check=True, timeout=20)
        eventually(host.workers, "the engine in it")
        (server,) = [p for p in host.mine() if p.comm.startswith("tmux")]
        assert "zooserve serve" in server.title
        report = kill(host, match="zooserve")
        assert server.pid not in pids(report)
        assert lives(server.pid) or not host.workers(), "a server without a session ends by itself"
        assert pids(report), "the engine in it was not found"
    finally:
        subprocess.run([*tmux, "kill-server"], env=env, capture_output=True, timeout=20, check=False)


def test_the_agent_and_what_it_came_in_by_are_never_ended(host: Host) -> None:
    bystander = host.python(SLEEP)
    wire = Wire(host)
    wire.send(id=1, op="kill", params={"engines": ENGINES, "match": "."})
    while "event" in (message := wire.read()):
        pass
    assert pids(message["result"]) == {bystander}
    assert not lives(bystander)
    wire.send(ping=7)
    assert wire.read() == {"pong": 7}
    assert wire.process.poll() is None


HOLDS = f"import sys; f = open(sys.argv[1]); {SLEEP}"
# A parent that leaves its session after it started its program, as daemons do; it still owns it.
LEAVES = """
import os, signal, subprocess, sys
if os.fork():
    signal.pause()  # it leads the group: whoever is to leave the session may not
child = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
os.setsid()
print(child.pid, flush=True)
child.wait()
"""
# A small init: its program leads a session, as below dumb-init; then it takes in an orphan that does too.
SMALL_INIT = """
import ctypes, subprocess, sys
libc = ctypes.CDLL(None)
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
libc.prctl(36, 1, 0, 0, 0)
code, own, orphan = sys.argv[2:]
def begin(*argv):
    python = [sys.executable, "-c", *argv]
    return subprocess.Popen(python, stdout=subprocess.PIPE, text=True, start_new_session=True)
child = begin(code, own)
child.stdout.readline()
middle = begin(
    "import subprocess, sys\\n"
    "child = subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], stdout=-1, start_new_session=True)\\n"
    "child.stdout.readline(); print(child.pid, flush=True)", code, orphan)
left = middle.stdout.readline().strip()
middle.wait()
print(child.pid, left, flush=True)
child.wait()
"""


def told(host: Host, code: str, *args: str) -> list[int]:
    """Run Python code that prints process numbers once all is up."""
    child = host.spawn([sys.executable, "-c", code, *args])
    assert child.stdout is not None
    return [int(word) for word in child.stdout.readline().split()]


def test_a_program_whose_living_parent_has_left_its_session_is_in_the_way(host: Host) -> None:
    host.gpus()
    (child,) = told(host, LEAVES, HOLDS, host.device(0))
    found, parent = procs.look(child), procs.look(procs.look(child).ppid)  # type: ignore[union-attr]
    assert found is not None
    assert parent is not None
    assert found.sid not in (found.pid, parent.sid), "it is in the session that its parent has left"
    error = refused(host, plan=host.plan(gpus=(0,)))
    assert f"owned by process {parent.pid}" in error.what
    os.kill(parent.pid, signal.SIGKILL)
    eventually(lambda: procs.look(child).ppid != parent.pid, "taken in")  # type: ignore[union-attr]
    assert pids(kill(host, plan=host.plan(gpus=(0,)))) == {child}, "now nobody owns it"
    assert not lives(child)


@pytest.mark.parametrize("name", ["dumb-init", "tini"])
def test_a_small_init_owns_its_program_and_not_what_it_took_in(host: Host, name: str) -> None:
    host.gpus()
    own, orphan = told(host, SMALL_INIT, name, HOLDS, host.device(0), host.device(1))
    for pid in (own, orphan):
        assert procs.look(pid).sid == pid, "both lead a session"  # type: ignore[union-attr]
    assert procs.look(own).ppid == procs.look(orphan).ppid  # type: ignore[union-attr]
    assert f"({name})" in refused(host, plan=host.plan(gpus=(0,))).what
    assert pids(kill(host, plan=host.plan(gpus=(1,)))) == {orphan}
    assert lives(own)
    assert not lives(orphan)
