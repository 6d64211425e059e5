"""A server that hides what it holds from its own user: one with capabilities, or one that asked for it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

import stoker.agent
from tests.agent.conftest import PLAIN, Host, lives

NOBODY = 65534
# Not dumpable: /proc shows neither its environment nor its descriptors to anybody but root.
HIDDEN = """
import ctypes, os, signal, socket, sys
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
gpu = open(sys.argv[2])
open(sys.argv[3], "w").write(str(os.getpid()))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
signal.pause()
"""
# As root's driver does, it names who nobody else can see.
DRIVER = """
import os, sys
try:
    pid = open("PIDFILE").read()
except OSError:
    pid = "0"
lives = os.path.exists("/proc/" + pid)
if sys.argv[1].startswith("--query-gpu="):
    known = {"index": "0", "uuid": "GPU-zoo-0", "name": "Zoo 100", "memory.total": "80000",
             "memory.used": "1000" if lives else "0", "pci.bus_id": "00000000:00:00.0"}
    print(", ".join(known.get(name, "[N/A]") for name in sys.argv[1].partition("=")[2].split(",")))
elif sys.argv[1].startswith("--query-compute-apps=") and lives:
    print("GPU-zoo-0, %s, worker, 1000" % pid)
"""
OPERATIONS = """
import json, os, time
from stoker.agent.health import status
from stoker.agent.launches import state
from stoker.agent.processes import procs
from stoker.agent.starting import life, listening
from stoker.agent.context import Context
from stoker.agent.session import Session
request = json.loads(os.environ["REQUEST"])
ctx = lambda: Context(lambda event: None, Session(dict(os.environ)))
def restart():
    launch = life.restart(ctx(), request)["launch"]
    end = time.monotonic() + 20
    while "ready" not in open(launch["log"]).read() and time.monotonic() < end:
        time.sleep(0.01)
    return launch
first = restart()
hides = not os.access("/proc/%d/environ" % first["pid"], os.R_OK)
seen = procs.snapshot(ctx().facts)
place = listening.Place(request["plan"])
listens = [process.pid for process in place.check(seen, state.members(seen, first)[0])]
second = restart()
(server,) = status.status(ctx(), {**request, "slots": None, "plans": {}})["servers"]
report = life.kill(ctx(), request)
print(json.dumps([hides, first["pid"], listens, second["pid"], server["alive"], report]))
"""


def everybodys_python(host: Host) -> str:
    """A Python and the agent, for another user; what the test made may be read by all."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no Python here that another user may run")
    shutil.copytree(
        Path(stoker.agent.__file__).parent,
        host.root / "lib/stoker/agent",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (host.root / "lib/stoker/__init__.py").touch()
    for folder in (host.root, *host.root.parents):
        if folder.stat().st_uid == os.getuid() and str(folder).startswith("/tmp/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    if os.getuid() == 0:
        os.chown(host.home, NOBODY, NOBODY)
    (host.root / "locks").mkdir()
    (host.root / "locks").chmod(0o1777)
    return "/usr/bin/python3"


def test_a_server_that_hides_what_it_holds_is_restarted_and_killed_by_its_user(host: Host) -> None:
    host.gpus(1)
    python = everybodys_python(host)
    pid_file = host.home / "pid"
    (host.bin / "nvidia-smi").write_text(f"#!{python}\n" + DRIVER.replace("PIDFILE", str(pid_file)))
    (host.root / "serve.py").write_text(HIDDEN)
    plan = host.plan(engine=PLAIN, gpus=(0,), python=python)
    plan["engine"]["command"] = [python]
    plan["script"] = (
        f"#!/bin/sh\nexec {python} {host.root}/serve.py {plan['port']} {host.device(0)} {pid_file}\n"
    )
    plan["argv"] = [python]
    request = json.dumps({"plan": plan, "engines": [PLAIN.to_wire()]})
    who = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
    env = {**host.env, "REQUEST": request, "PYTHONPATH": str(host.root / "lib")}
    child = host.spawn([*who, python, "-c", OPERATIONS], env=env, cwd=host.root)
    assert child.stdout is not None
    hides, first, listens, second, alive, report = json.loads(child.stdout.readline())
    assert hides
    assert listens == [first], "readiness takes it for its own"
    assert first != second
    assert alive
    assert second in {process["pid"] for process in report["ended"]}
    assert report["released"]["port"]
    assert report["released"]["gpus"] == [{"index": 0, "before_mib": 1000, "after_mib": 0}]
    assert not lives(first)
    assert not lives(second)
