"""Which process is the server of a launch: one that became a daemon is, a stranger on its port is not."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from stoker.agent.health import status
from stoker.agent.launches import logs
from stoker.agent.processes import procs
from stoker.agent.starting import life, persist
from tests.agent.conftest import ENGINES, PLAIN, Host, eventually, free_port, lives

# A launcher that ends with a status once its server listens (or at once), in a session of its own.
DAEMON = """
import os, signal, socket, sys, time
ready, done = os.pipe()
late = sys.argv[3]  # it does not listen before this file is gone; its launcher does not wait for it
if os.fork():
    if not late:
        os.read(ready, 1)
        time.sleep(0.2)
    os._exit(int(sys.argv[2]))
os.setsid()
while late and os.path.exists(late):
    time.sleep(0.01)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
os.write(done, b"x")
print("ready", flush=True)
while True:
    link, _ = listener.accept()
    link.recv(65536)
    link.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
    link.close()
"""
ANSWERS = """
import socket, sys
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print("up", flush=True)
while True:
    link, _ = listener.accept()
    link.recv(65536)
    link.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n")
    link.close()
"""


def daemon_plan(host: Host, code: int = 0, late: str = "") -> dict[str, Any]:
    (host.root / "daemon.py").write_text(DAEMON)
    port = free_port()
    script = f"#!/bin/sh\nexec {sys.executable} {host.root}/daemon.py {port} {code} '{late}'\n"
    return host.plan(engine=PLAIN, port=port, script=script)


def launch_daemon(host: Host, code: int = 0) -> tuple[dict[str, Any], dict[str, Any], int]:
    """(the plan, the launch, the process that listens), once its launcher has ended."""
    plan = daemon_plan(host, code)
    port = plan["port"]
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    (listener,) = eventually(lambda: [row.pid for row in procs.listeners(port)], "its server")
    eventually(lambda: not lives(done["pid"]), "its launcher is gone")
    eventually((Path(done["log"]).parent / "exit").exists, "the supervisor saw it")
    return plan, done, listener


def look(host: Host) -> list[dict[str, Any]]:
    return list(status.status(host.context(), {"engines": ENGINES, "slots": None, "plans": {}})["servers"])


def test_a_server_that_became_a_daemon_runs_and_is_not_started_again(host: Host) -> None:
    plan, _, listener = launch_daemon(host)
    (server,) = look(host)
    assert (server["alive"], server["pid"], server["state"]) == (True, listener, "up")
    assert server["exit"] is None, "it runs"
    again = life.restart(host.context(), {"plan": plan, "engines": ENGINES, "replace": False})
    assert again["already_running"]
    assert lives(listener)
    report = life.stop(host.context(), {"slot": "stable", "engines": ENGINES})
    assert [process["pid"] for process in report["ended"]] == [listener]
    assert any(step["name"] == "terminate" for step in report["steps"]), "as a launcher: with its grace"
    assert not lives(listener)


def test_a_daemon_that_does_not_listen_yet_is_a_start_that_is_not_over(host: Host) -> None:
    loading = host.root / "loading"
    loading.touch()
    plan = daemon_plan(host, late=str(loading))
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    eventually(lambda: not lives(done["pid"]), "its launcher is gone")
    eventually((Path(done["log"]).parent / "exit").exists, "the supervisor saw it")
    (server,) = look(host)
    assert (server["alive"], server["state"]) == (True, "starting")
    assert server["pid"] != done["pid"]
    again = life.restart(host.context(), {"plan": plan, "engines": ENGINES, "replace": False})
    assert again["already_running"]
    loading.unlink()
    eventually(lambda: [one["state"] for one in look(host)] == ["up"], "it serves")
    life.stop(host.context(), {"slot": "stable", "engines": ENGINES})
    assert host.mine() == []


def test_workers_that_a_launcher_leaves_which_ended_well_are_no_daemon(host: Host) -> None:
    os.mkfifo(host.root / "work")
    script = f"#!/bin/bash\n(exec -a zoo::worker_0 cat <>{host.root}/work) &\nsleep 0.2\nexit 0\n"
    plan = host.plan(script=script)
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    eventually((Path(done["log"]).parent / "exit").exists, "it has ended")
    (server,) = look(host)
    assert (server["alive"], server["state"]) == (False, "down")


def test_persist_and_logs_know_a_daemon_as_the_server_that_runs(host: Host) -> None:
    plan, done, _ = launch_daemon(host)
    told = persist.persist(host.context(), {"plan": plan, "engines": ENGINES, "do": "look"})
    assert told["running"]["launch_id"] == done["launch_id"]
    other = host.plan(slot="other", script="#!/bin/sh\nsleep 0.2\n", engine=PLAIN)
    ended = life.restart(host.context(), {"plan": other, "engines": ENGINES})["launch"]
    eventually((Path(ended["log"]).parent / "empty").exists, "the other one ends")
    (found,) = logs.logs(host.context(), {})["logs"]
    assert found["slot"] == "stable", "of two slots the one whose server lives"


def test_what_a_launcher_leaves_that_failed_is_no_server(host: Host) -> None:
    plan, _, listener = launch_daemon(host, code=3)
    (server,) = look(host)
    assert (server["alive"], server["state"]) == (False, "down")
    started = life.restart(host.context(), {"plan": plan, "engines": ENGINES, "replace": False})
    assert not started["already_running"]
    assert not lives(listener)


def test_a_strangers_answer_on_its_port_is_not_the_servers(host: Host) -> None:
    port = free_port()
    script = f"#!/bin/sh\necho ready\nexec {sys.executable} -c 'import signal; signal.pause()'\n"
    plan = host.plan(engine=PLAIN, port=port, script=script)
    life.restart(host.context(), {"plan": plan, "engines": ENGINES})
    stranger = host.python(ANSWERS, str(port))
    (server,) = look(host)
    assert (server["alive"], server["state"], server["health"]) == (True, "stuck", None)
    assert f"held by process {stranger} " in server["why"]


def test_a_port_that_the_server_shares_with_a_stranger_is_told(host: Host) -> None:
    port = free_port()
    (host.root / "answers.py").write_text(ANSWERS)
    script = f"#!/bin/sh\nexec {sys.executable} {host.root}/answers.py {port}\n"
    plan = host.plan(engine=PLAIN, port=port, script=script)
    life.restart(host.context(), {"plan": plan, "engines": ENGINES})
    eventually(lambda: procs.listeners(port), "its server")
    assert [server["state"] for server in look(host)] == ["up"]
    stranger = host.python(ANSWERS, str(port))
    (server,) = look(host)
    assert server["state"] == "stuck"
    assert f"held by process {stranger} " in server["why"]
    os.kill(stranger, signal.SIGKILL)
    eventually(lambda: not lives(stranger), "its end")
    assert [server["state"] for server in look(host)] == ["up"]
