"""Which process is the server of a launch: one that became a daemon is, a stranger on its port is not."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from stoker.agent import life, procs, status
from tests.agent.conftest import ENGINES, PLAIN, Host, eventually, free_port, lives

# A launcher that ends with a status once its server listens, in a session of its own.
DAEMON = """
import os, signal, socket, sys, time
ready, done = os.pipe()
if os.fork():
    os.read(ready, 1)
    time.sleep(0.2)  # who ends at once never served
    os._exit(int(sys.argv[2]))
os.setsid()
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


def launch_daemon(host: Host, code: int = 0) -> tuple[dict[str, Any], dict[str, Any], int]:
    """(the plan, the launch, the process that listens), once its launcher has ended."""
    (host.root / "daemon.py").write_text(DAEMON)
    port = free_port()
    script = f"#!/bin/sh\nexec {sys.executable} {host.root}/daemon.py {port} {code}\n"
    plan = host.plan(engine=PLAIN, port=port, script=script)
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
