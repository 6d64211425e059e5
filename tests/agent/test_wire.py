"""The agent's wire and its ends: frames, faults, cancels, silence, and the shield that nothing breaks."""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError, Context
from stoker.agent.protocol import MAX_FRAME, FrameError, Frames, OversizeError, Wire, encode
from stoker.agent.session import Session

# The real agent, with operations that a test can look into.
PROGRAM = """
import os, subprocess, sys, time, types
from stoker.agent import main, run
from stoker.agent.context import AgentError
from stoker.agent.session import Session

ops = types.ModuleType("stoker.agent.ops")
sys.modules["stoker.agent.ops"] = ops

def child(ctx, params):
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    ctx.track(process.pid)
    ctx.emit("child", pid=process.pid)
    process.wait()
    ctx.check_cancelled()
    return {"rc": process.returncode}

def shielded(ctx, params):
    with ctx.step("before"):
        pass
    with ctx.shield():
        process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        ctx.track(process.pid)
        ctx.emit("inside", pid=process.pid)
        while not os.path.exists(params["go"]):
            time.sleep(0.005)
            ctx.check_cancelled()
        for _ in range(params.get("chatter", 0)):
            ctx.emit("log", text="x" * 1000)
        open(params["done"], "w").close()
    ctx.emit("outside")
    ctx.check_cancelled()
    return {"steps": ctx.steps}

def boom(ctx, params):
    raise ZeroDivisionError("deep \\udcff inside")

def odd(ctx, params):
    return {"text": os.fsdecode(b"a\\xffb"), "nan": float("nan"), "list": (1, 2)}

def huge(ctx, params):
    return {"text": "x" * (17 << 20)}

def unsendable(ctx, params):
    return {"object": object()}

def leave(ctx, params):
    sys.exit(3)

def chatter(ctx, params):
    for number in range(params["n"]):
        ctx.emit("log", text="x" * params["size"])
    return {}

for function in (child, shielded, boom, odd, huge, unsendable, leave, chatter):
    setattr(ops, function.__name__, function)
    main.OPERATIONS[function.__name__] = ("ops", function.__name__)
main.OPERATIONS["missing"] = ("no_such_module", "f")
read_fd, write_fd = os.dup(0), os.dup(1)
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0)
os.dup2(2, 1)
main.Agent(read_fd, write_fd, "0.test", silence_s=float(sys.argv[1])).serve()
"""


class Running:
    """An agent in a process of its own, on two pipes.

    Attributes:
        told: Every message that it sent.
    """

    def __init__(self, silence_s: float = 45.0, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(silence_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
        )
        self.told: list[dict[str, Any]] = []
        self._frames = Frames()
        self._ready: list[dict[str, Any]] = []
        self.hello = self.receive()["hello"]

    def send(self, message: dict[str, Any]) -> None:
        self.raw(encode(message))

    def raw(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self, within_s: float = 10.0) -> dict[str, Any]:
        assert self.process.stdout is not None
        while not self._ready:
            assert select.select([self.process.stdout], [], [], within_s)[0], "the agent says nothing"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                raise EOFError
            self._ready += self._frames.feed(data)
        self.told.append(self._ready.pop(0))
        return self.told[-1]

    def ask(self, op: str, **params: Any) -> dict[str, Any]:
        """The reply; events before it are passed over."""
        self.send({"id": 1, "op": op, "params": params})
        while "event" in (message := self.receive()):
            continue
        return message

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except OSError:
            return


@pytest.fixture
def agent() -> Iterator[Running]:
    running = Running()
    yield running
    running.close()


def gone(pid: int, within_s: float = 2.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.005)
    return False


def appears(path: Path, within_s: float = 5.0) -> bool:
    end = time.monotonic() + within_s
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.005)
    return path.exists()


# Frames.


def test_frame_is_a_length_and_json() -> None:
    frame = encode({"id": 1, "text": "é"})
    assert struct.unpack("!I", frame[:4])[0] == len(frame) - 4
    assert json.loads(frame[4:]) == {"id": 1, "text": "é"}


def test_frames_arrive_however_they_are_cut() -> None:
    messages = [{"n": number, "text": "é" * number} for number in range(20)]
    data = b"".join(map(encode, messages))
    for step in (1, 3, 7, len(data)):
        frames = Frames()
        found: list[dict[str, Any]] = []
        for start in range(0, len(data), step):
            found += frames.feed(data[start : start + step])
        assert found == messages


@pytest.mark.parametrize(
    "data", [struct.pack("!I", MAX_FRAME + 1), struct.pack("!I", 3) + b"abc", struct.pack("!I", 2) + b"[]"]
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        list(Frames().feed(data))


def test_message_beyond_the_limit_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(OversizeError):
        encode({"text": "x" * MAX_FRAME})


def test_text_that_is_no_unicode_is_replaced() -> None:
    for broken in ("a\udcffb", "a\ud800b"):
        text = json.loads(encode({"t": broken})[4:])["t"]
        assert text.startswith("a") and text.endswith("b") and set(text[1:-1]) == {"\ufffd"}


def test_wire_drops_what_is_left_when_the_peer_is_gone_for_good() -> None:
    read_fd, write_fd = os.pipe()
    lost = threading.Event()
    wire = Wire(write_fd, is_lost=lost.is_set)
    threading.Timer(0.05, lost.set).start()
    assert not wire.send({"text": "x" * 1_000_000})  # nobody reads, and the pipe is full
    assert not wire.send({"text": "y"})
    os.close(read_fd)
    os.close(write_fd)


# Requests.


def test_greeting_says_who_is_there(agent: Running) -> None:
    assert agent.hello["pid"] == agent.process.pid
    assert agent.hello["version"] == "0.test"
    assert agent.hello["uid"] == os.getuid()


def test_fault_is_an_error_with_its_traceback_and_the_agent_lives_on(agent: Running) -> None:
    error = agent.ask("boom")["error"]
    assert error["kind"] == "fault"
    assert "ZeroDivisionError" in error["what"]
    assert any("raise ZeroDivisionError" in line or "in boom" in line for line in error["evidence"])
    assert agent.ask("odd")["result"]["list"] == [1, 2]


@pytest.mark.parametrize("op", ["leave", "huge", "unsendable", "missing"])
def test_no_operation_can_end_the_agent(agent: Running, op: str) -> None:
    assert agent.ask(op)["error"]["kind"] == "fault"
    assert "result" in agent.ask("odd")


@pytest.mark.parametrize("request_", [{"op": "dance"}, {"op": None}, {}, {"op": "odd", "params": []}])
def test_wrong_request_is_answered(agent: Running, request_: dict[str, Any]) -> None:
    agent.send({"id": 7, **request_})
    reply = agent.receive()
    assert (reply["id"], reply["error"]["kind"]) == (7, "bad-request")


def test_numbers_and_text_that_json_does_not_know_become_what_it_knows(agent: Running) -> None:
    result = agent.ask("odd")["result"]
    assert result["nan"] is None
    assert result["text"][0] == "a" and "\ufffd" in result["text"]


def test_ping_is_answered_while_a_request_runs(agent: Running) -> None:
    agent.send({"id": 1, "op": "child"})
    assert agent.receive()["event"]["type"] == "child"
    agent.send({"ping": 7})
    assert agent.receive() == {"pong": 7}


def test_requests_queue_and_a_waiting_one_can_be_cancelled(agent: Running) -> None:
    agent.send({"id": 1, "op": "child"})
    pid = agent.receive()["event"]["pid"]
    agent.send({"id": 2, "op": "odd"})
    agent.send({"id": 3, "op": "odd"})
    agent.send({"cancel": 2})
    agent.send({"cancel": 99})
    assert not gone(pid, 0.05), "the cancel of a waiting request ended another's child"
    agent.send({"cancel": 1})
    replies = [agent.receive() for _ in range(3)]
    assert [reply["id"] for reply in replies] == [1, 2, 3]
    assert [reply.get("error", {}).get("kind") for reply in replies] == ["cancelled", "cancelled", None]


def test_cancel_ends_the_step_s_child(agent: Running) -> None:
    agent.send({"id": 1, "op": "child"})
    pid = agent.receive()["event"]["pid"]
    agent.send({"cancel": 1})
    assert agent.receive()["error"]["kind"] == "cancelled"
    assert gone(pid)


# The end.


def eof(agent: Running) -> None:
    assert agent.process.stdin is not None
    agent.process.stdin.close()


ENDS: dict[str, Callable[[Running], None]] = {
    "end of input": eof,
    "hangup": lambda agent: agent.process.send_signal(signal.SIGHUP),
    "term": lambda agent: agent.process.send_signal(signal.SIGTERM),
    "garbage": lambda agent: agent.raw(b"\xff" * 8),
}


@pytest.mark.parametrize("how", ENDS)
def test_agent_and_child_end(agent: Running, how: str) -> None:
    agent.send({"id": 1, "op": "child"})
    pid = agent.receive()["event"]["pid"]
    ENDS[how](agent)
    assert agent.process.wait(2) == 0
    assert gone(pid)


def test_silence_ends_the_agent_and_its_child() -> None:
    agent = Running(silence_s=0.4)
    agent.send({"id": 1, "op": "child"})
    pid = agent.receive()["event"]["pid"]
    for _ in range(4):
        time.sleep(0.2)
        agent.send({"ping": 1})
    assert agent.process.poll() is None, "it ended although it was spoken to"
    assert agent.process.wait(3) == 0
    assert gone(pid)
    agent.close()


def test_agent_that_nobody_reads_still_ends_by_silence() -> None:
    agent = Running(silence_s=0.4)
    agent.send({"id": 1, "op": "chatter", "params": {"n": 10_000, "size": 1000}})
    assert agent.process.wait(5) == 0
    agent.close()


@pytest.mark.parametrize("how", [*ENDS, "silence"])
def test_shield_lets_the_work_finish_and_then_the_agent_ends(tmp_path: Path, how: str) -> None:
    agent = Running(silence_s=0.3 if how == "silence" else 45)
    go, done = tmp_path / "go", tmp_path / "done"
    agent.send({"id": 1, "op": "shielded", "params": {"go": str(go), "done": str(done)}})
    while (event := agent.receive())["event"]["type"] != "inside":
        continue
    if how == "silence":
        time.sleep(0.5)
    else:
        ENDS[how](agent)
    time.sleep(0.1)
    assert agent.process.poll() is None, "it ended in the middle"
    go.touch()
    assert agent.process.wait(3) == 0
    assert done.exists()
    assert gone(event["event"]["pid"]), "what the step tracked outlived the agent"
    agent.close()


def test_shielded_work_finishes_although_nobody_reads_any_more(tmp_path: Path) -> None:
    """The pipe is full and its reader asleep: the work must not wait for it."""
    agent = Running(silence_s=0.5)
    go, done = tmp_path / "go", tmp_path / "done"
    params = {"go": str(go), "done": str(done), "chatter": 2000}
    agent.send({"id": 1, "op": "shielded", "params": params})
    go.touch()
    assert appears(done)
    assert agent.process.wait(3) == 0
    agent.close()


def test_cancel_inside_a_shield_waits_until_it_opens(agent: Running, tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    agent.send({"id": 1, "op": "shielded", "params": {"go": str(go), "done": str(done)}})
    while (event := agent.receive())["event"]["type"] != "inside":
        continue
    agent.send({"cancel": 1})
    assert not gone(event["event"]["pid"], 0.1), "the cancel ended a child in the middle"
    go.touch()
    reply = agent.receive()
    while "event" in reply:
        reply = agent.receive()
    assert reply["error"]["kind"] == "cancelled"
    assert done.exists()
    assert gone(event["event"]["pid"])


# The context by itself.


def test_cancelled_step_does_not_begin_and_a_shield_is_not_entered() -> None:
    events: list[dict[str, Any]] = []
    context = Context(events.append, Session({"HOME": "/h"}))
    context.cancel()
    with pytest.raises(AgentError, match="cancelled"), context.step("never"):
        raise AssertionError
    with pytest.raises(AgentError, match="cancelled"), context.shield():
        raise AssertionError
    assert events == []


def test_steps_are_events_and_are_kept_with_their_seconds() -> None:
    events: list[dict[str, Any]] = []
    context = Context(events.append, Session({"HOME": "/h"}))
    with context.step("first") as step:
        step.detail = "3 found"
    with pytest.raises(ValueError, match="bad"), context.step("second"):
        raise ValueError("bad")
    assert [(event["name"], event["state"]) for event in events] == [
        ("first", "begin"),
        ("first", "end"),
        ("second", "begin"),
        ("second", "end"),
    ]
    assert [(step["name"], step["detail"]) for step in context.steps] == [
        ("first", "3 found"),
        ("second", "bad"),
    ]
    assert all(step["seconds"] >= 0 for step in context.steps)


def test_nested_shields_open_with_the_last() -> None:
    ended: list[str] = []
    session = Session({"HOME": "/h"}, leave=lambda: ended.append("left"))
    context = Context(session=session)
    with context.shield():
        with context.shield():
            session.end("hangup")
            context.cancel()
        assert ended == [] and not context.cancelled.is_set()
    assert ended == ["left"] and context.cancelled.is_set()


def test_state_lies_below_the_login_s_home() -> None:
    assert Context(session=Session({"HOME": "/home/ops"})).home == "/home/ops/.stoker"
    assert Session({}).home.endswith("/.stoker")


def test_child_whose_number_was_taken_by_another_is_not_ended() -> None:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    session = Session({"HOME": "/h"})
    session.track(process.pid)
    session._children[process.pid] += 1  # as if that number had been another process's
    session.end_children()
    assert not gone(process.pid, 0.05)
    process.kill()
    process.wait()
