"""vLLM's stand-in, held against what Stoker knows of the real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from stoker.agent.processes import liveenv
from stoker.engines.vllm import VLLM
from stoker.lab import procfs
from stoker.lab.state import LabHost, LabState
from tests.lab.conftest import Start
from tests.lab.support import PORT, SIX, Server, completion, eventually, listening, measure, title

WORKERS = [f"VLLM::Worker_TP{rank}" for rank in range(8)]
SURVIVORS = ["VLLM::EngineCore", *WORKERS]


def titles(server: Server) -> list[str]:
    return sorted(name for name in server.processes if name.startswith("VLLM::"))


def test_an_api_server_an_engine_core_and_eight_workers_below_it(vllm: Start) -> None:
    server = vllm().wait_ready()
    assert titles(server) == SURVIVORS
    assert all(any(re.fullmatch(p, name) for p in VLLM.titles) for name in titles(server))
    assert any("multiprocessing.resource_tracker" in name for name in server.processes)
    core = procfs.look(server.processes["VLLM::EngineCore"])
    assert core is not None
    assert core.ppid == server.pid
    below = procfs.descendants([core.pid], procfs.table())
    assert sorted(title(process.pid) for process in below) == WORKERS
    assert Path(f"/proc/{server.pid}/comm").read_text() == "vllm\n"


def test_one_gpu_is_held_by_the_engine_core(vllm: Start) -> None:
    server = vllm("--tensor-parallel-size", "1", model="Qwen3-8B").wait_ready()
    assert titles(server) == ["VLLM::EngineCore"]


def test_the_titles_prefix_is_a_variable(vllm: Start) -> None:
    env = {"VLLM_PROCESS_NAME_PREFIX": "MINE"}
    server = vllm("--tensor-parallel-size", "2", model="Qwen3-8B", env=env).wait_ready()
    assert {"MINE::EngineCore", "MINE::Worker_TP0", "MINE::Worker_TP1"} <= set(server.processes)


def test_the_log_shows_every_stage_in_order_and_nothing_fatal(vllm: Start) -> None:
    lines = re.split(r"[\r\n]", vllm().wait_ready().log)
    first = [next((n for n, line in enumerate(lines) if re.search(s.pattern, line)), -1) for s in VLLM.stages]
    assert -1 not in first
    assert first == sorted(first)
    assert any(re.search(VLLM.ready, line) for line in lines)
    assert not [line for line in lines for fatal in VLLM.fatal if re.search(fatal.pattern, line)]


def test_the_workers_have_what_the_engine_sets(vllm: Start) -> None:
    server = vllm(env={"NCCL_PROTO": "LL"}).wait_ready()
    for name in SURVIVORS:
        env = liveenv.read(server.processes[name]).env
        assert env is not None
        assert env["NCCL_PROTO"] == "LL"
        assert env["TORCHINDUCTOR_COMPILE_THREADS"] == "1"
        assert env["OMP_NUM_THREADS"] == "1"


def test_it_answers_and_says_that_it_is_simulated(vllm: Start) -> None:
    server = vllm().wait_ready()
    status, whole = server.post("/v1/completions", completion(7, model="kimi"))
    assert (status, whole["usage"]["completion_tokens"]) == (200, 7)
    assert json.loads(server.get("/v1/models")[1])["data"][0]["simulated"] is True
    assert json.loads(server.get("/version")[1]) == {
        "version": "0.33.0",
        "simulated": True,
        "simulated_by": "simulated by Stoker's lab",
    }
    status, refused = server.post("/v1/completions", completion(7, model="other"))
    assert (status, refused["error"]["message"]) == (404, "The model `other` does not exist.")
    assert 'vllm:generation_tokens_total{engine="0",model_name="kimi"} 7.0' in server.get("/metrics")[1]
    assert server.get("/server_info")[0] == 404, "only in development mode"


def test_the_metrics_have_the_engines_names(vllm: Start) -> None:
    page = vllm("--tensor-parallel-size", "1", model="Qwen3-8B").wait_ready().get("/metrics")[1]
    metrics = VLLM.metrics
    for name in (*metrics.running, *metrics.waiting, *metrics.finished, *metrics.generation_tokens):
        assert f"\n{name}{{" in page


def test_speculation_is_counted(vllm: Start, host: LabHost) -> None:
    config = {
        "method": "eagle3",
        "model": f"{host.home}/models/Kimi-K2.5-Eagle3",
        "num_speculative_tokens": 3,
    }
    server = vllm("--speculative-config", json.dumps(config), env=SIX).wait_ready()
    timing = measure(server, 100)
    assert timing.tokens == 100 > 1.9 * timing.chunks
    page = server.get("/metrics")[1]
    count = {
        name: float(re.search(rf"vllm:spec_decode_num_{name}_total\{{.*\}} (\S+)", page)[1])  # type: ignore[index]
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    }
    assert count["draft_tokens"] == 3 * count["drafts"]
    assert 2.1 < 1 + count["accepted_tokens"] / count["drafts"] < 2.5


def test_core_and_workers_survive_a_killed_api_server(vllm: Start) -> None:
    server = vllm().wait_ready()
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: not server.alive, 3)
    assert not eventually(lambda: titles(server) != SURVIVORS, 0.5)
    assert server.get("/health")[0] == 0, "but its port is free"


def test_sigterm_ends_all_in_order(vllm: Start, lab: LabState, host: LabHost) -> None:
    server = vllm().wait_ready()
    assert len(list((Path(lab.root) / "machines" / host.name / "shm").iterdir())) == 4
    os.kill(server.pid, signal.SIGTERM)
    log = server.wait_ended()
    steps = [
        "shutdown triggered",
        "mode=abort timeout=0s",
        "send sigterm to process EngineCore",
        "Shutting down",
    ]
    assert [step for step in steps if step in log] == steps
    assert eventually(lambda: not server.processes, 3)
    assert not list((Path(lab.root) / "machines" / host.name / "shm").iterdir())


def test_a_shutdown_timeout_lets_requests_finish(vllm: Start) -> None:
    server = vllm("--shutdown-timeout", "20").wait_ready()
    stream = server.stream("/v1/completions", completion(60, model="kimi"))
    next(stream)
    os.kill(server.pid, signal.SIGTERM)
    assert list(stream)[-1][1]["usage"]["completion_tokens"] == 60
    assert "mode=drain timeout=20s" in server.wait_ended()


def test_a_dead_worker_is_a_dead_engine(vllm: Start) -> None:
    server = vllm().wait_ready()
    os.kill(server.processes[WORKERS[3]], signal.SIGKILL)
    assert eventually(lambda: server.get("/health")[0] == 503)
    log = server.wait_ended()
    assert "Worker proc VllmWorker-3 died unexpectedly (exit code: -9)" in log
    assert "EngineDeadError" in log
    assert eventually(lambda: not server.processes, 3)


def test_a_killed_core_ends_the_workers(vllm: Start) -> None:
    server = vllm().wait_ready()
    os.kill(server.processes["VLLM::EngineCore"], signal.SIGKILL)
    log = server.wait_ended()
    assert "engine core exited unexpectedly" in log
    assert "Parent process exited, terminating worker queues" in log
    assert eventually(lambda: not server.processes, 3)


def test_a_taken_port_ends_it_at_once(vllm: Start, host: LabHost) -> None:
    with listening(host.address, PORT):
        log = vllm(env={"STANDIN_LOAD_S": "60"}).wait_ended()
    assert "OSError: [Errno 98] Address already in use" in log
    assert "Initializing a V1" not in log


@pytest.mark.parametrize(
    ("args", "model", "env", "word"),
    [
        (["--tensor-parallel-size", "4"], "Kimi-K2.5", {}, "CUDA out of memory"),
        (["--gpu-memory-utilization", "0.5"], "Kimi-K2.5", {}, "No available memory for the cache blocks"),
        (["--tensor-parallel-size", "9"], "Qwen3-8B", {}, "invalid device ordinal"),
        ([], "Kimi-K2.5", {"STANDIN_FAULT": "die"}, "unhandled system error"),
    ],
)
def test_a_start_that_cannot_work_ends(
    vllm: Start, args: list[str], model: str, env: dict[str, str], word: str
) -> None:
    server = vllm(*args, model=model, env=env)
    log = server.wait_ended()
    assert word in log
    assert "Engine core initialization failed. See root cause above" in log
    assert eventually(lambda: not server.processes, 3)


def test_sigterm_while_loading_ends_all(vllm: Start) -> None:
    server = vllm(env={"STANDIN_FAULT": "stall"})
    assert eventually(lambda: len(server.processes) == 11)
    os.kill(server.pid, signal.SIGTERM)
    server.wait_ended()
    assert eventually(lambda: not server.processes, 3)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["--tensor_parallel_size", "x"], "argument --tensor-parallel-size/-tp: invalid int value: 'x'"),
        (["--speculative-config", "{"], "cannot be converted to SpeculativeConfig"),
    ],
)
def test_wrong_arguments_end_with_two(lab: LabState, args: list[str], word: str) -> None:
    argv = [f"{lab.hosts[0].home}/venvs/vllm/bin/vllm", "serve", "model", *args]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert f"vllm: error: {word}" in done.stderr or word in done.stderr


def test_a_missing_model_ends_with_one(lab: LabState) -> None:
    argv = [f"{lab.hosts[0].home}/venvs/vllm/bin/vllm", "serve", "/nowhere", "--port", "0"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert (done.returncode, "Incorrect path_or_model_id" in done.stderr) == (1, True)
