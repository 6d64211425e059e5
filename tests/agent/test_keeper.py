"""Who would bring an ended server back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.facts import real
from stoker.agent.processes import keeper, procs
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, ZOO, Host, eventually, free_port, lives

DOCKER = "3f2a9c4b5d6e7f8091a2b3c4d5e6f70811223344556677889900aabbccddeeff"


@pytest.mark.parametrize(
    ("cgroup", "stop"),
    [
        ("/system.slice/vllm.service", "systemctl stop vllm.service"),
        ("/system.slice/system-llm.slice/llm@kimi.service", "systemctl stop llm@kimi.service"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service",
            "systemctl --user stop vllm.service",
        ),
        ("/system.slice/vllm.service/workers", "systemctl stop vllm.service"),
        ("/user.slice/user-0.slice/session-3.scope", None),
        ("/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1.scope", None),
        ("/user.slice/user-1000.slice/user@1000.service", None),
        ("/system.slice/ssh.service", None),
        ("/system.slice/ssh@3-10.0.0.1:22-10.0.0.2:5.service", None),
        ("/system.slice/cron.service", None),
        ("/", None),
        ("", None),
    ],
)
def test_a_service_of_systemd_is_told_from_where_people_work(cgroup: str, stop: str | None) -> None:
    found = keeper.unit_of(cgroup)
    assert (found.stop if found else None) == stop


@pytest.mark.parametrize(
    ("cgroup", "stop"),
    [
        (f"/docker/{DOCKER}", "docker stop 3f2a9c4b5d6e"),
        (f"/system.slice/docker-{DOCKER}.scope", "docker stop 3f2a9c4b5d6e"),
        (f"/machine.slice/libpod-{DOCKER}.scope", "podman stop 3f2a9c4b5d6e"),
        (f"/kubepods.slice/cri-containerd-{DOCKER}.scope", "crictl stop 3f2a9c4b5d6e"),
        ("/docker", None),
    ],
)
def test_a_container_is_named_with_what_stops_it(cgroup: str, stop: str | None) -> None:
    found = keeper.container_of(cgroup)
    assert (found.stop if found else None) == stop


def kept_by(host: Host, script: str, *argv: str) -> str:
    """Run a server under a parent; what the refusal to kill it says, or empty where it was ended."""
    port = free_port()
    engine = f"{sys.executable} {ZOO}/zooserve serve --port {port}"
    (host.root / "run").write_text(script.replace("ENGINE", engine))
    parent = host.spawn([*argv, str(host.root / "run")], cwd=host.root)
    (pid,) = eventually(lambda: [row.pid for row in procs.listeners(port)], "the server")
    try:
        life.kill(host.context(), {"engines": ENGINES, "plan": host.plan(port=port)})
    except AgentError as error:
        assert error.kind == "blocked"
        assert lives(pid)
        return error.what.replace(str(parent.pid), "PARENT")
    assert not lives(pid)
    return ""


@pytest.mark.parametrize(
    "script",
    [
        "while true; do ENGINE; sleep 0.1; done",
        "until ENGINE; do sleep 0.1; done",
        "run='ENGINE'\nwhile :\ndo\n  # again\n  $run\ndone",
        "for i in 1 2 3; do\n  if true; then ENGINE; fi\ndone",
    ],
)
def test_a_shell_loop_around_the_server_is_found(host: Host, script: str) -> None:
    assert "kill PARENT" in kept_by(host, script, "/bin/sh")


@pytest.mark.parametrize(
    "script",
    [
        "ENGINE\necho it ended",
        "for gpu in 0 1; do echo $gpu; done\nENGINE\necho done",
        "while false; do sleep 1; done; ENGINE; echo for while do",
        "# while true; do ENGINE; done\nENGINE\necho",
    ],
)
def test_a_script_that_starts_it_once_keeps_nothing(host: Host, script: str) -> None:
    assert kept_by(host, script, "/bin/sh") == ""


def test_a_loop_given_on_the_command_line_is_found(host: Host) -> None:
    port = free_port()
    engine = f"{sys.executable} {ZOO}/zooserve serve --port {port}"
    loop = host.spawn(["/bin/sh", "-ec", f"while true; do {engine}; sleep 0.1; done"])
    eventually(lambda: procs.listeners(port), "the server")
    with pytest.raises(AgentError) as caught:
        life.kill(host.context(), {"engines": ENGINES, "plan": host.plan(port=port)})
    assert f"kill {loop.pid}" in caught.value.what


def test_a_known_supervisor_is_found(host: Host) -> None:
    supervisor = host.root / "supervisord"
    supervisor.write_text("import subprocess, sys\nwhile True: subprocess.call(['/bin/sh', sys.argv[1]])")
    said = kept_by(host, "exec ENGINE", sys.executable, str(supervisor))
    assert "(process PARENT) would bring it back" in said
    assert "supervisorctl stop NAME" in said


def test_the_agents_own_login_keeps_nothing(host: Host) -> None:
    port = free_port()
    pid = host.serve("--port", str(port))  # a child of this very process
    assert life.kill(host.context(), {"engines": ENGINES, "plan": host.plan(port=port)})["ended"]
    assert not lives(pid)


def test_a_shell_whose_script_comes_through_a_pipe_does_not_keep_us_waiting(tmp_path: Path) -> None:
    """Reading it would wait for a writer that never comes; the shell holds the pipe under a name."""
    pipe = tmp_path / "script"
    os.mkfifo(pipe)
    shell = subprocess.Popen(["/bin/sh", str(pipe)], start_new_session=True)
    writer = os.open(pipe, os.O_WRONLY)
    try:
        os.write(writer, b"sleep 60\n")
        child = eventually(
            lambda: [p for p in procs.snapshot(real()).living() if p.ppid == shell.pid], "the shell's child"
        )
        begin = time.monotonic()
        # Whoever runs the tests may do it from a loop of its own: the walk ends at us.
        assert keeper.find(procs.snapshot(real()), child[0], {os.getpid()}) is None
        assert time.monotonic() - begin < 5
    finally:
        os.close(writer)
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


# Starts a server (in a group of its own, as supervisors do) and then what is left: the agent, by its login.
SUPERVISES = """
import os, signal, subprocess, sys
case, agent, *engine = sys.argv[1:]
serve = [sys.executable, *engine]
if case == "by hand":  # from a login that is over
    hand = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:], stdout=-1); p.stdout.readline()"
    subprocess.run([sys.executable, "-c", hand, *serve], start_new_session=True)
else:
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, preexec_fn=os.setpgrp)
    server.stdout.readline()
    if case == "remains":
        server.kill()
        server.wait()
subprocess.run([sys.executable, "-c", agent], preexec_fn=os.setpgrp)
signal.pause()  # with PID 1 all of it would end
"""
AGENT = """
import json, os
from stoker.agent.starting import life
from stoker.agent.context import AgentError, Context
from stoker.agent.session import Session
request = json.loads(os.environ["REQUEST"])
try:
    print(json.dumps(life.kill(Context(lambda event: None, Session(dict(os.environ))), request)))
except AgentError as error:
    print(json.dumps(error.to_wire()))
"""
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


def below_a_supervisor(host: Host, case: str, *prefix: str) -> dict[str, Any]:
    """What a kill says whose login has the same supervisor above it as the server."""
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process namespace may be made here")
    host.declare(process_env={})
    host.gpus()
    supervisor = host.root / "supervisord"
    supervisor.write_text(SUPERVISES)
    request = json.dumps({"engines": ENGINES, "plan": host.plan(gpus=(0,))})
    env = {**host.env, "REQUEST": request, "PYTHONPATH": os.pathsep.join(sys.path)}
    engine = [str(ZOO / "zooserve"), "serve", "--gpu", host.device(0), "--hold-on"]
    child = host.spawn([*prefix, sys.executable, str(supervisor), case, AGENT, *engine], env=env)
    assert child.stdout is not None
    said: dict[str, Any] = json.loads(child.stdout.readline())
    return said


@pytest.mark.parametrize("prefix", [(), NAMESPACE], ids=["beside", "as PID 1"])
def test_a_supervisor_that_runs_our_own_login_too_is_found(host: Host, prefix: list[str]) -> None:
    """The usual container: supervisord keeps the SSH server and the engine."""
    said = below_a_supervisor(host, "kept", *prefix)
    assert said["kind"] == "blocked"
    assert "would bring it back; stop that first: supervisorctl stop NAME" in said["what"]
    assert len(host.workers()) == 2


@pytest.mark.parametrize("case", ["by hand", "remains"])
def test_what_a_supervisor_has_only_taken_in_as_pid_1_is_ended(host: Host, case: str) -> None:
    said = below_a_supervisor(host, case, *NAMESPACE)
    assert [p["title"] for p in said["ended"] if "worker" in p["title"]] == ["zoo::worker_0", "zoo::worker_1"]
    assert said["released"]["processes"]
    assert not host.workers()


def test_a_loop_that_is_pid_1_is_found(host: Host) -> None:
    host.declare(process_env={})
    host.gpus()
    engine = f"{sys.executable} {ZOO}/zooserve serve --gpu {host.device(0)}"
    request = json.dumps({"engines": ENGINES, "plan": host.plan(gpus=(0,))})
    env = {**host.env, "REQUEST": request, "PYTHONPATH": os.pathsep.join(sys.path), "AGENT": AGENT}
    script = f'{{ sleep 1; {sys.executable} -c "$AGENT"; }} & while :; do {engine} >/dev/null; done'
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no process namespace may be made here")
    child = host.spawn([*NAMESPACE, "/bin/sh", "-c", script], env=env)
    assert child.stdout is not None
    said = json.loads(child.stdout.readline())
    assert "the shell loop of process 1 would bring it back" in said["what"]
