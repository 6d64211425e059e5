"""``wait`` on small real servers, each with one fault."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker import engines
from stoker.agent.asking import gate
from stoker.agent.context import AgentError
from stoker.agent.starting import ready, watch
from tests.agent.launched import Launched, children, free_port, listening, plan, serving, until


@pytest.fixture
def port() -> int:
    return free_port()


def wait_fails(server: Launched, kind: str) -> AgentError:
    with pytest.raises(AgentError) as caught:
        ready.wait(server.ctx, server.params())
    assert caught.value.kind == kind, caught.value
    return caught.value


def test_a_good_server_is_ready_with_model_tokens_listener_and_proof(tmp_path: Path, port: int) -> None:
    command = serving("--port", port)
    with Launched(tmp_path, plan(command, port, env={"NCCL_PROTO": "LL"})) as server:
        found = ready.wait(server.ctx, server.params())
    assert found["model"] == "tiny"
    assert found["completion"]["tokens"] == 4
    assert [row["pid"] for row in found["listeners"]] == [server.pid]
    assert found["listeners"][0]["ports"] == [port]
    assert found["proof"]["verdict"] == "in-force"
    assert found["launch"]["launch_id"] == "L1"
    assert found["stages"][-1] == {"name": "ready", "at_s": pytest.approx(found["ready_s"], abs=0.1)}


@pytest.mark.alone
def test_readiness_is_seen_within_0_3_s(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--load", 0.5), port)) as server:
        ready.wait(server.ctx, server.params())
        seen = time.time()
        listened = float((server.folder / "server.log").read_text().split("listening at ")[1])
    assert seen - listened < 0.4  # 0.3 s, and some room for a busy machine


def test_a_server_that_dies_is_told_within_a_second_with_its_last_lines_and_exit_status(
    tmp_path: Path, port: int
) -> None:
    command = serving(
        "--port", port, "--load", 0.3, "--say", "first", "--say", "CUDA out of memory", "--exit", 3
    )
    with Launched(tmp_path, plan(command, port)) as server:
        until((server.folder / "exit").exists)
        died = time.monotonic()
        error = wait_fails(server, "died")
        assert time.monotonic() - died < 1.0
    assert error.evidence == ["first", "CUDA out of memory"]
    assert error.detail["exit"] == {"code": 3}
    assert error.detail["cause"] == "out-of-memory"
    assert "exit status 3" in error.what
    assert "Free the GPUs" in error.next_step


def test_nobody_says_when_a_server_ended_that_was_gone_when_it_was_looked_at(
    tmp_path: Path, port: int
) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--exit", 3), port)) as server:
        until((server.folder / "exit").exists)
        record = server.folder / "launch.json"
        launched = json.loads(record.read_text())
        record.write_text(json.dumps({**launched, "started_at": launched["started_at"] - 300}))
        error = wait_fails(server, "died")
    said = r"the server ended with exit status 3 before we looked, 30\d s after its launch"
    assert re.fullmatch(said, error.what)


def test_a_death_by_signal_names_the_signal_and_a_likely_cause(tmp_path: Path, port: int) -> None:
    command = serving("--port", port, "--signal", int(signal.SIGKILL))
    with Launched(tmp_path, plan(command, port)) as server:
        error = wait_fails(server, "died")
    assert error.detail["exit"] == {"signal": 9}
    assert error.detail["cause"] == "killed"
    assert "dmesg" in error.next_step


def test_a_server_that_the_kernel_ended_for_want_of_memory_is_told_as_that(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's own count, in a file of ours: nobody starves this machine for a test."""
    counted = tmp_path / "vmstat"
    counted.write_text("nr_free_pages 10\noom_kill 4\n")
    monkeypatch.setattr(watch, "_VMSTAT", str(counted))
    with Launched(tmp_path, plan(serving("--port", port, "--load", "60"), port)) as server:

        def starve() -> None:
            counted.write_text("oom_kill 6\n")
            os.kill(server.pid, signal.SIGKILL)

        threading.Timer(0.4, starve).start()
        with pytest.raises(AgentError) as caught:
            ready.wait(server.ctx, server.params())
    assert (caught.value.kind, caught.value.detail["cause"]) == ("died", "host-memory")
    assert "ended 2 processes" in caught.value.evidence[-1]
    assert "memory" in caught.value.next_step


def test_a_command_that_cannot_be_run_is_told(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(["/nowhere/engine"], port)) as server:
        error = wait_fails(server, "died")
    assert error.detail["cause"] == "not-found"
    assert "cannot start /nowhere/engine" in error.evidence[-1]


def test_a_port_in_use_names_its_holder(tmp_path: Path, port: int) -> None:
    holder = subprocess.Popen(serving("--port", port, "--model", "stranger"))
    for _ in children(holder):
        until(lambda: listening(port))
        with Launched(tmp_path, plan(serving("--port", port), port)) as server:
            until((server.folder / "exit").exists)
            error = wait_fails(server, "died")
    assert error.detail["cause"] == "port-in-use"
    assert [row["pid"] for row in error.detail["holders"]] == [holder.pid]
    assert str(holder.pid) in error.evidence[-1]


def test_503_for_ever_ends_at_the_timeout_and_says_what_it_waited_for(tmp_path: Path, port: int) -> None:
    engine = plan(serving("--port", port, "--health", 503), port, engine="vllm", timeout_s=1.5)
    with Launched(tmp_path, engine) as server:
        error = wait_fails(server, "timeout")
        assert 1.4 < time.time() - server.launch["started_at"] < 3.0
    assert "GET /health answers 503" in error.what


def test_the_access_log_of_our_own_questions_is_no_progress(tmp_path: Path, port: int) -> None:
    command = serving("--port", port, "--health", 503, "--access-log")
    with Launched(tmp_path, plan(command, port, engine="vllm", stall_s=1.5)) as server:
        error = wait_fails(server, "stalled")
    assert any("GET /health" in line for line in error.evidence)


def test_200_without_tokens_is_not_ready(tmp_path: Path, port: int) -> None:
    command = serving("--port", port, "--tokens", 0, "--access-log")
    with Launched(tmp_path, plan(command, port, stall_s=1.5)) as server:
        error = wait_fails(server, "stalled")
    assert "0 tokens came" in error.what


def test_one_token_is_not_enough(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--tokens", 1), port, timeout_s=1.2)) as server:
        assert "1 tokens came" in wait_fails(server, "timeout").what


def test_an_error_in_place_of_tokens_is_told(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--broken"), port, timeout_s=1.2)) as server:
        assert "the scheduler is dead" in wait_fails(server, "timeout").what


def test_a_timeout_tells_of_a_completion_that_was_not_answered(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--hang"), port, timeout_s=1.5)) as server:
        error = wait_fails(server, "timeout")
    found = re.search(r"; the completion sent (\d+\.\d) s ago has not been answered\)", error.what)
    assert found, error.what
    assert 0.5 < float(found.group(1)) < 3


def test_a_completion_that_never_comes_is_stalled(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--hang"), port, stall_s=1.0)) as server:
        wait_fails(server, "stalled")


def test_a_listed_model_that_is_not_the_profiles_is_wrong(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--model", "other"), port)) as server:
        error = wait_fails(server, "wrong-model")
    assert error.detail == {"have": ["other"], "want": ["tiny"]}


def test_an_answer_by_another_model_is_wrong(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--answers-as", "other"), port)) as server:
        wait_fails(server, "wrong-model")


def test_a_model_path_matches_its_base_name(tmp_path: Path, port: int) -> None:
    command = serving("--port", port, "--model", "Kimi-K2.5")
    with Launched(tmp_path, plan(command, port, served=["/models/Kimi-K2.5"])) as server:
        assert ready.wait(server.ctx, server.params())["model"] == "Kimi-K2.5"


@pytest.mark.parametrize("options", [("--model", "none"), ("--list-status", 404), ("--list-status", 500)])
def test_a_server_without_a_list_of_models_must_name_it_in_its_answer(
    tmp_path: Path, port: int, options: tuple[str | int, ...]
) -> None:
    """As ``transformers serve`` does, which loads a model when it is asked for."""
    with Launched(tmp_path, plan(serving("--port", port, *options), port)) as server:
        assert ready.wait(server.ctx, server.params())["model"] == "tiny"


def test_a_list_that_does_not_tell_what_is_served_is_not_asked(tmp_path: Path, port: int) -> None:
    """``transformers serve`` lists what the hub's cache on its host holds."""
    command = serving("--port", port, "--model", "cached", "--answers-as", "tiny")
    engine = replace(engines.get("openai"), lists_model=False)
    with Launched(tmp_path, plan(command, port, engine=engine)) as server:
        assert ready.wait(server.ctx, server.params())["model"] == "tiny"


def test_a_list_of_models_that_is_not_there_yet_is_waited_for(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--list-status", 503), port, timeout_s=1)) as server:
        assert "GET /v1/models answers 503" in wait_fails(server, "timeout").what


@pytest.mark.parametrize(
    ("have", "want", "same"),
    [
        ("tiny", "tiny", True),
        ("/models/tiny/", "/models/tiny", True),
        ("./models/tiny", "models/tiny", True),
        ("tiny", "/models/tiny", True),
        ("tiny.gguf", "/models/tiny.gguf", True),
        ("/models/tiny@main", "/models/tiny", True),
        ("org/tiny@abc", "org/tiny", True),
        ("/home/a@b/tiny", "/home/a@b/tiny", True),
        ("/home/a@b/tiny", "/home/a", False),
        ("one/tiny", "other/tiny", False),
        ("tiny-2", "tiny", False),
        ("org/tiny@one", "org/tiny@two", False),
    ],
)
def test_names_of_one_model(have: str, want: str, same: bool) -> None:
    assert gate.same_model(have, want) is same


def test_silence_is_stalled(tmp_path: Path, port: int) -> None:
    command = serving("--port", port, "--load", 60, "--say", "loading")
    with Launched(tmp_path, plan(command, port, stall_s=0.8)) as server:
        error = wait_fails(server, "stalled")
    assert error.evidence == ["loading"]
    assert "stall_s" in error.next_step


def test_cpu_work_counts_as_progress(tmp_path: Path, port: int) -> None:
    with Launched(
        tmp_path, plan(serving("--port", port, "--load", 2, "--busy"), port, stall_s=0.8)
    ) as server:
        ready.wait(server.ctx, server.params())


def test_a_stranger_on_the_port_is_shown(tmp_path: Path, port: int) -> None:
    stranger = subprocess.Popen(serving("--port", port))
    for _ in children(stranger):
        until(lambda: listening(port))
        with Launched(tmp_path, plan(serving("--port", port, "--load", 60), port)) as server:
            error = wait_fails(server, "wrong-listener")
    assert [row["pid"] for row in error.detail["listeners"]] == [stranger.pid]
    assert f"process {stranger.pid} of " in error.evidence[0]


def test_a_port_shared_with_a_stranger_is_refused(tmp_path: Path, port: int) -> None:
    stranger = subprocess.Popen(serving("--port", port, "--share"))
    for _ in children(stranger):
        until(lambda: listening(port))
        with Launched(tmp_path, plan(serving("--port", port, "--share"), port)) as server:
            error = wait_fails(server, "wrong-listener")
    assert [row["pid"] for row in error.detail["listeners"]] == [stranger.pid]


def test_a_child_that_left_the_session_is_ours(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--fork"), port)) as server:
        listeners = ready.wait(server.ctx, server.params())["listeners"]
    assert listeners[0]["pid"] != server.pid


def test_a_server_on_another_port_is_told_with_the_port(tmp_path: Path, port: int) -> None:
    other = free_port()
    command = serving("--port", other, "--say", "Application startup complete.")
    with Launched(tmp_path, plan(command, port, engine="vllm")) as server:
        error = wait_fails(server, "wrong-listener")
    assert f"127.0.0.1:{other}, not on 127.0.0.1:{port}" in error.what


def test_a_timeout_tells_where_the_server_listens(tmp_path: Path, port: int) -> None:
    other = free_port()
    with Launched(tmp_path, plan(serving("--port", other), port, timeout_s=1.0)) as server:
        error = wait_fails(server, "timeout")
    assert error.detail["listens"] == [f"127.0.0.1:{other}"]
    assert f"it listens on 127.0.0.1:{other}" in error.what


def test_a_fatal_line_ends_the_wait_though_the_process_lives(tmp_path: Path, port: int) -> None:
    command = serving(
        *("--port", port, "--load", 60),
        *("--say", "[2025-10-16 09:06:10 TP5] torch.OutOfMemoryError: CUDA out of memory."),
        *("--say", "Received sigquit from a child process. It usually means the child failed."),
    )
    with Launched(tmp_path, plan(command, port, engine="sglang")) as server:
        error = wait_fails(server, "died")
        assert time.time() - server.launch["started_at"] < 3.0
    assert error.detail["alive"]
    assert error.detail["cause"] == "out-of-memory"


def test_the_api_key_of_the_profile_is_used(tmp_path: Path, port: int) -> None:
    key = "k-4f1d2c"
    command = serving("--port", port, "--key", key)
    with Launched(tmp_path, plan(command, port, engine="vllm", secrets={"VLLM_API_KEY": key})) as server:
        found = ready.wait(server.ctx, server.params())
    assert found["proof"]["verdict"] == "in-force"
    assert key not in str(found["proof"])


def test_a_key_that_the_profile_does_not_have_is_asked_for(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--key", "k"), port, engine="vllm")) as server:
        error = wait_fails(server, "unauthorised")
    assert "VLLM_API_KEY" in error.next_step


def test_a_server_that_refuses_unknown_fields_is_asked_without_them(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--strict"), port, engine="sglang")) as server:
        assert ready.wait(server.ctx, server.params())["completion"]["tokens"] == 4


def test_a_server_with_chat_only_is_asked_there(tmp_path: Path, port: int) -> None:
    command = serving("--port", port, "--endpoint", "/v1/chat/completions")
    with Launched(tmp_path, plan(command, port)) as server:
        assert ready.wait(server.ctx, server.params())["completion"]["tokens"] == 4


@pytest.mark.parametrize("bind", ["0.0.0.0", "::1", "::", "localhost"])
def test_wildcards_names_and_ipv6_are_reached(tmp_path: Path, bind: str) -> None:
    try:
        port = free_port(bind)
    except OSError:
        pytest.skip("no IPv6 here")
    with Launched(tmp_path, plan(serving("--host", bind, "--port", port), port, bind=bind)) as server:
        assert ready.wait(server.ctx, server.params())["model"] == "tiny"


def test_a_cancel_ends_a_wait_that_hangs_in_a_completion(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--hang"), port)) as server:
        until(lambda: listening(port))
        threading.Timer(0.5, server.ctx.cancel).start()
        began = time.monotonic()
        wait_fails(server, "cancelled")
    assert time.monotonic() - began < 1.5


def test_without_a_launch_there_is_nothing_to_wait_for(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port), port)) as server:
        params = server.params()
        params["plan"] = {**params["plan"], "slot": "another"}
        with pytest.raises(AgentError) as caught:
            ready.wait(server.ctx, params)
        assert caught.value.kind == "no-server"


def test_a_server_that_has_been_ready_for_long_is_still_found_ready(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port), port, timeout_s=5)) as server:
        until(lambda: listening(port))
        record = server.folder / "launch.json"
        old = server.launch["started_at"]
        record.write_text(record.read_text().replace(str(old), str(old - 7200)))
        assert ready.wait(server.ctx, server.params())["ready_s"] > 7200


def test_stages_are_emitted_in_order_with_the_rising_fraction(tmp_path: Path, port: int) -> None:
    lines: list[Any] = ["non-default args: {}", "Initializing a V1 LLM engine", "Starting to load model"]
    said = [word for line in lines for word in ("--say", line)]
    with Launched(
        tmp_path, plan(serving("--port", port, "--load", 0.4, *said), port, engine="vllm")
    ) as server:
        found = ready.wait(server.ctx, server.params())
    fractions = [e["fraction"] for e in server.events if e["type"] == "stage"]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert server.stages()[0] == "starting"
    assert server.stages()[-1] == "ready"
    assert "loading weights" in [stage["name"] for stage in found["stages"]]


def test_no_descriptor_is_left_open(tmp_path: Path, port: int) -> None:
    with Launched(tmp_path, plan(serving("--port", port, "--tokens", 0), port, timeout_s=1.0)) as server:
        before = sum(1 for _ in Path("/proc/self/fd").iterdir())
        wait_fails(server, "timeout")
        assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


# A daemon as they are made: two forks, the first in a session of its own, and both parents end at once.
DAEMONISE = """
import os, sys
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_daemon_that_loads_for_a_while_gets_ready(tmp_path: Path, port: int) -> None:
    command = [sys.executable, "-S", "-c", DAEMONISE, *serving("--port", port, "--load", 1.0)]
    with Launched(tmp_path, plan(command, port)) as server:
        until((server.folder / "exit").exists)
        found = ready.wait(server.ctx, server.params())
        assert found["listeners"][0]["pid"] != server.pid
    notes = [event["text"] for event in server.events if event["type"] == "note"]
    assert len(notes) == 1
    assert "ended with status 0 and left process" in notes[0]


def test_a_daemon_that_dies_while_it_loads_is_told_at_once(tmp_path: Path, port: int) -> None:
    command = [sys.executable, "-S", "-c", DAEMONISE, "/bin/sh", "-c", "sleep 0.5; exit 3"]
    with Launched(tmp_path, plan(command, port)) as server:
        error = wait_fails(server, "died")
    assert "became a daemon" in error.what
