"""Calls to the agent: events, big outputs, deadlines, cancels, and what is left when the link dies."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import HostFailed, HostUnreachable
from stoker.reach.client import Agent
from stoker.reach.reach import Reach
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer


def gone(pid: int, within_s: float = 1.0) -> bool:
    """Whether a process ends in time; a zombie has ended."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def started(agent: Agent, events: list[dict[str, Any]], **params: Any) -> threading.Thread:
    """A call in another thread that prints the pid of its shell first."""
    ready = threading.Event()

    def on_event(event: dict[str, Any]) -> None:
        events.append(event)
        ready.set()

    def run() -> None:
        try:
            agent.call(
                "exec", {"shell": "echo $$; exec sleep 60", "stream": True, **params}, on_event=on_event
            )
        except (HostFailed, HostUnreachable) as error:
            events.append({"error": error})

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    return thread


def test_result_of_a_command_comes_whole(agent: Agent) -> None:
    done = agent.call("exec", {"shell": "echo out; echo err >&2; exit 3"})
    assert (done["rc"], done["stdout"], done["stderr"]) == (3, "out\n", "err\n")
    assert (done["timed_out"], done["truncated"]) == (False, False)


def test_events_come_in_order_and_before_the_result(agent: Agent) -> None:
    events: list[dict[str, Any]] = []
    params = {"shell": "for i in 1 2 3; do echo $i; sleep 0.02; done", "stream": True}
    done = agent.call("exec", params, on_event=events.append)
    assert {event["type"] for event in events} == {"output"}
    assert "".join(event["text"] for event in events) == done["stdout"] == "1\n2\n3\n"


def test_both_streams_full_do_not_block(agent: Agent) -> None:
    script = "yes out | head -c 6000000; yes err | head -c 6000000 >&2"
    seen = {"stdout": 0, "stderr": 0}

    def count(event: dict[str, Any]) -> None:
        seen[event["stream"]] += len(event["text"])

    done = agent.call("exec", {"shell": script, "stream": True}, on_event=count, timeout_s=30)
    assert seen == {"stdout": 6_000_000, "stderr": 6_000_000}
    assert done["truncated"]
    assert len(done["stdout"]) < 2_000_000


def test_big_input_arrives(agent: Agent) -> None:
    done = agent.call("exec", {"argv": ["wc", "-c"], "stdin": "x" * 3_000_000})
    assert done["stdout"].strip() == "3000000"


def test_bytes_that_are_no_text_do_no_harm(agent: Agent) -> None:
    done = agent.call("exec", {"argv": ["printf", r"a\377b\303\251"]})
    assert done["stdout"] == "a\ufffdb\u00e9"


def test_operation_that_does_not_exist_is_a_bad_request(agent: Agent) -> None:
    with pytest.raises(HostFailed) as caught:
        agent.call("dance", {})
    assert (caught.value.kind, caught.value.host) == ("bad-request", "h1")


def test_agent_lives_on_after_a_failed_call(agent: Agent) -> None:
    with pytest.raises(HostFailed) as caught:
        agent.call("exec", {"argv": ["/no/such/program"]})
    assert caught.value.kind == "io"
    assert agent.call("exec", {"argv": ["true"]})["rc"] == 0


def test_calls_are_fast(agent: Agent) -> None:
    begun = time.perf_counter()
    for _ in range(50):
        with pytest.raises(HostFailed):
            agent.call("dance", {})
    assert (time.perf_counter() - begun) / 50 < 0.01


def test_cancel_ends_the_step_and_its_child(agent: Agent) -> None:
    events: list[dict[str, Any]] = []
    thread = started(agent, events)
    agent.cancel()
    thread.join(5)
    assert not thread.is_alive()
    assert events[-1]["error"].kind == "cancelled"
    assert gone(int(events[0]["text"]))
    assert agent.call("exec", {"argv": ["true"]})["rc"] == 0


def test_deadline_of_ours_ends_the_step_on_the_host(agent: Agent) -> None:
    begun = time.monotonic()
    with pytest.raises(HostFailed) as caught:
        agent.call("exec", {"argv": ["sleep", "60"]}, timeout_s=0.3)
    assert caught.value.kind == "timeout"
    assert "0.3 s" in caught.value.what
    assert time.monotonic() - begun < 5
    assert agent.call("exec", {"argv": ["true"]})["rc"] == 0


def test_stop_ends_what_runs(server: SshServer) -> None:
    stop = threading.Event()
    with Reach(settings()).connect(target_of(server), stop) as agent:
        events: list[dict[str, Any]] = []
        thread = started(agent, events)
        stop.set()
        thread.join(5)
        assert events[-1]["error"].kind == "cancelled"


def test_nothing_is_begun_once_stopped(server: SshServer, tmp_path: Path) -> None:
    stop = threading.Event()
    with Reach(settings()).connect(target_of(server), stop) as agent:
        stop.set()
        with pytest.raises(HostFailed) as caught:
            agent.call("exec", {"argv": ["touch", str(tmp_path / "touched")]})
    assert caught.value.kind == "cancelled"
    assert not (tmp_path / "touched").exists()


def test_failing_listener_ends_the_step(agent: Agent) -> None:
    pids = []

    def fail(event: dict[str, Any]) -> None:
        pids.append(int(event["text"]))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        agent.call("exec", {"shell": "echo $$; exec sleep 60", "stream": True}, on_event=fail)
    assert gone(pids[0])


def test_ctrl_c_ends_the_step_and_the_agent(server: SshServer) -> None:
    agent = Reach(settings()).connect(target_of(server))
    pids = []

    def interrupt(event: dict[str, Any]) -> None:
        pids.append(int(event["text"]))
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        agent.call("exec", {"shell": "echo $$; exec sleep 60", "stream": True}, on_event=interrupt)
    assert gone(pids[0])
    assert gone(agent.hello["pid"])


@pytest.mark.parametrize("how", ["close", "cut"])
def test_agent_and_its_child_end_with_the_connection(server: SshServer, tmp_path: Path, how: str) -> None:
    with SshServer(tmp_path / "own") as own:
        agent = Reach(settings()).connect(target_of(own))
        events: list[dict[str, Any]] = []
        thread = started(agent, events)
        if how == "close":
            agent.close()
        else:
            own.signal_sessions(signal.SIGKILL)
        assert gone(agent.hello["pid"])
        assert gone(int(events[0]["text"]))
        thread.join(5)
        assert events[-1]["error"].kind == "lost"
        assert events[-1]["error"].next_step
        agent.close()


CONTROLLER = """
import sys
from pathlib import Path
from stoker.reach.reach import Reach
from stoker.reach.target import ReachSettings, Target
import json
variables = json.loads(sys.argv[1])
agent = Reach(ReachSettings(ssh_config="none")).connect(Target.of("h1", variables))
print(agent.hello["pid"], flush=True)
show = lambda event: print(event["text"].strip(), flush=True)
agent.call("exec", {"shell": "echo $$; exec sleep 60", "stream": True}, on_event=show)
"""


def test_agent_and_its_child_end_when_the_controller_is_killed(server: SshServer) -> None:
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, json.dumps(server.variables())], stdout=subprocess.PIPE, text=True
    )
    assert controller.stdout is not None
    agent, child = int(controller.stdout.readline()), int(controller.stdout.readline())
    assert not gone(child, 0.05)
    controller.kill()
    controller.wait()
    assert gone(agent)
    assert gone(child)
    controller.stdout.close()


def test_killed_agent_is_lost_with_how_it_ended(server: SshServer) -> None:
    agent = Reach(settings()).connect(target_of(server))
    events: list[dict[str, Any]] = []
    thread = started(agent, events)
    os.kill(agent.hello["pid"], signal.SIGKILL)
    thread.join(5)
    error = events[-1]["error"]
    assert (error.kind, error.exit_code) == ("lost", 4)
    assert "the agent ended" in error.what
    agent.close()
    os.kill(int(events[0]["text"]), signal.SIGKILL)  # an agent that is killed so has no time for its child


def test_silent_link_is_lost_within_the_limit(tmp_path: Path) -> None:
    with SshServer(tmp_path / "own") as own:
        agent = Reach(settings(silence_s=0.6)).connect(target_of(own))
        own.signal_sessions(signal.SIGSTOP)
        begun = time.monotonic()
        with pytest.raises(HostUnreachable) as caught:
            agent.call("exec", {"argv": ["true"]})
        assert caught.value.kind == "lost"
        assert "0.6 s" in caught.value.what
        assert time.monotonic() - begun < 3
        agent.close()


def test_pings_keep_an_idle_agent_and_stop_with_it(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.reach.client.PING_S", 0.05)
    agent = Reach(settings()).connect(target_of(server))
    fd = agent._channel._channel.fileno()  # type: ignore[attr-defined]
    assert select.select([fd], [], [], 5)[0], "no pong came while nothing was asked"
    assert agent.call("exec", {"argv": ["true"]})["rc"] == 0
    agent.close()


def test_nothing_is_left_after_close(server: SshServer) -> None:
    reach = Reach(settings())
    reach.connect(target_of(server)).close()  # what is loaded once is loaded
    threads, descriptors = threading.active_count(), open_descriptors()
    for _ in range(3):
        agent = reach.connect(target_of(server))
        agent.call("exec", {"argv": ["true"]})
        agent.close()
        agent.close()
        assert gone(agent.hello["pid"])
    end = time.monotonic() + 3
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.02)
    assert threading.active_count() <= threads
    assert open_descriptors() <= descriptors


def test_failed_logins_leave_nothing(server: SshServer, tmp_path: Path) -> None:
    reach, target = Reach(settings()), target_of(server, ansible_private_key_file=str(tmp_path / "none"))
    threads, descriptors = threading.active_count(), open_descriptors()
    for _ in range(3):
        with pytest.raises(HostUnreachable):
            reach.connect(target)
    end = time.monotonic() + 3
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.02)
    assert threading.active_count() <= threads
    assert open_descriptors() <= descriptors
