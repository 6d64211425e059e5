"""SGLang's stand-in, held against what Stoker knows of the real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.agent.processes import liveenv
from stoker.engines.sglang import SGLANG
from stoker.lab import lab as control
from stoker.lab import procfs
from stoker.lab.state import LabHost, LabState
from tests.lab.conftest import Start
from tests.lab.support import PORT, SIX, Server, completion, detach, eventually, listening, measure

WORKERS = [f"sglang::scheduler_TP{rank}" for rank in range(8)]


def titles(server: Server) -> list[str]:
    return sorted(name for name in server.processes if name.startswith("sglang::"))


def held_mib(lab: LabState, host: LabHost) -> list[int]:
    smi = f"{host.home}/.lab-bin/nvidia-smi"
    query = [smi, "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return [int(line) for line in subprocess.check_output(query, text=True).split()]


def test_a_launcher_with_eight_schedulers_and_a_detokenizer(sglang: Start) -> None:
    server = sglang().wait_ready()
    assert len(server.processes) == 10
    assert titles(server) == ["sglang::detokenizer", *WORKERS]
    assert all(any(re.fullmatch(p, name) for p in SGLANG.titles) for name in titles(server))
    worker = server.processes[WORKERS[3]]
    assert Path(f"/proc/{worker}/comm").read_text() == "sglang::schedul\n", "cut at 15 characters"
    assert "python" in Path(f"/proc/{worker}/exe").readlink().name
    assert not Path(f"/proc/{worker}/environ").read_bytes().strip(b"\0"), "wiped by the title"


def test_one_rank_has_a_bare_title(sglang: Start) -> None:
    server = sglang("--tp-size", "1", model="Qwen3-8B").wait_ready()
    assert titles(server) == ["sglang::detokenizer", "sglang::scheduler"]


def test_the_log_shows_every_stage_in_order_and_nothing_fatal(sglang: Start) -> None:
    lines = re.split(r"[\r\n]", sglang().wait_ready().log)
    first = [
        next((n for n, line in enumerate(lines) if re.search(s.pattern, line)), -1) for s in SGLANG.stages
    ]
    assert -1 not in first
    assert first == sorted(first)
    assert any(re.search(SGLANG.ready, line) for line in lines)
    assert not [line for line in lines for fatal in SGLANG.fatal if re.search(fatal.pattern, line)]


def test_models_answer_before_health_does(sglang: Start) -> None:
    server = sglang(env={"STANDIN_LOAD_S": "1.5"})
    assert eventually(lambda: server.get("/v1/models")[0] == 200)
    assert server.get("/health")[0] == 503
    assert server.get("/health_generate")[0] == 503
    server.wait_ready()


def test_the_workers_have_what_the_engine_sets_and_the_launch_gave(sglang: Start) -> None:
    server = sglang(env={"NCCL_PROTO": "LL", "NCCL_NVLS_ENABLE": "1"}).wait_ready()
    for name in WORKERS:
        live = liveenv.read(server.processes[name])
        assert live.source == "memory"
        assert live.env is not None
        assert live.env["NCCL_PROTO"] == "LL"
        assert live.env["NCCL_CUMEM_ENABLE"] == "0"
        assert live.env["NCCL_NVLS_ENABLE"] == "1", "what was given stays"
        assert live.env["CUDA_DEVICE_MAX_CONNECTIONS"] == "8"


def test_completions_whole_and_streamed(sglang: Start) -> None:
    server = sglang("--served-model-name", "kimi").wait_ready()
    status, whole = server.post("/v1/completions", completion(7))
    assert status == 200
    assert whole["usage"]["completion_tokens"] == 7
    assert len(whole["choices"][0]["text"].split()) == 7
    assert whole["choices"][0]["finish_reason"] == "length"
    chat = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5, "ignore_eos": True}
    status, whole = server.post("/v1/chat/completions", chat)
    assert (status, whole["usage"]["completion_tokens"], whole["model"]) == (200, 5, "kimi")
    events = [event for _, event in server.stream("/v1/chat/completions", chat)]
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, "no content in the first"
    said = [event["choices"][0] for event in events[1:-1]]
    assert "".join(choice["delta"]["content"] for choice in said).split()
    assert said[-1]["finish_reason"] == "length"
    assert (events[-1]["choices"], events[-1]["usage"]["completion_tokens"]) == ([], 5)


def test_without_ignore_eos_it_ends_by_itself(sglang: Start) -> None:
    server = sglang(env={"NCCL_PROTO": "LL"}).wait_ready()
    status, whole = server.post("/v1/completions", {"prompt": "a", "max_tokens": 5000})
    assert (status, whole["choices"][0]["finish_reason"]) == (200, "stop")
    assert 48 <= whole["usage"]["completion_tokens"] < 112


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/v1/completions", "{", 400, "JSON decode error"),
        ("/v1/completions", "[]", 400, "valid dictionary"),
        ("/v1/completions", {"max_tokens": 3}, 400, "'prompt'"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ("/v1/completions", {"prompt": "x", "max_tokens": "many"}, 400, "max_tokens must be at least 1"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 10**9}, 400, "maximum context length"),
        ("/v1/nothing", {}, 404, "Not Found"),
        ("/v1/models", {}, 405, "Method Not Allowed"),
    ],
)
def test_a_bad_request_is_refused(
    lab_server: Server, path: str, body: object, status: int, word: str
) -> None:
    answered, said = lab_server.post(path, body)
    assert answered == status
    assert word in json.dumps(said)


@pytest.fixture(scope="module")
def lab_server(lab: LabState) -> Iterator[Server]:
    """A small server on the second host, for tests that only ask."""
    host = lab.hosts[1]
    args = f"--model-path {host.home}/models/Qwen3-8B --host {host.address} --enable-metrics"
    pid = detach(lab, host, f"venvs/sglang/bin/sglang serve {args} --served-model-name small")
    yield Server(lab, host, pid).wait_ready()
    control.reboot(Path(lab.root), host.name)  # tests of other files count what runs there


def test_it_says_that_it_is_simulated(lab_server: Server) -> None:
    model = json.loads(lab_server.get("/v1/models")[1])["data"][0]
    assert (model["id"], model["simulated"]) == ("small", True)
    for path in ("/server_info", "/get_server_info"):
        info = json.loads(lab_server.get(path)[1])
        assert info["simulated"] is True
        assert (info["version"], info["tp_size"], info["enable_metrics"]) == ("0.5.23", 1, True)
        assert "sglang serve --model-path" in info["launch_command"]


def test_the_metrics_have_the_engines_names_and_count(lab_server: Server) -> None:
    def total(names: tuple[str, ...]) -> float:
        page = lab_server.get("/metrics")[1]
        rows = (line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
        return sum(float(value) for name, value in rows if name.partition("{")[0] in names)

    before = total(SGLANG.metrics.generation_tokens), total(SGLANG.metrics.finished)
    stream = lab_server.stream("/v1/completions", completion(40))
    next(stream)
    assert total(SGLANG.metrics.running) == 1
    assert len(list(stream)) == 40
    assert total(SGLANG.metrics.running) == total(SGLANG.metrics.waiting) == 0
    after = total(SGLANG.metrics.generation_tokens), total(SGLANG.metrics.finished)
    assert after == (before[0] + 40, before[1] + 1)


def test_a_client_that_leaves_ends_its_request(lab_server: Server) -> None:
    stream = lab_server.stream("/v1/completions", completion(5000))
    next(stream)
    stream.close()  # type: ignore[attr-defined]  # it is a generator
    assert eventually(lambda: 'num_running_reqs{engine_type="unified"' in lab_server.get("/metrics")[1])
    assert eventually(
        lambda: re.search(r"num_running_reqs\{.*\} 0\.0", lab_server.get("/metrics")[1]) is not None
    )


def test_metrics_need_their_flag(sglang: Start) -> None:
    assert sglang(model="Qwen3-8B").wait_ready().get("/metrics")[0] == 404


def test_a_key_is_demanded_except_for_health(sglang: Start) -> None:
    server = sglang("--api-key", "sk-lab-0815", model="Qwen3-8B").wait_ready()
    assert server.get("/v1/models")[0] == 401
    assert server.get("/health")[0] == 200
    assert "sk-lab-0815" not in server.log


def test_speculation_makes_more_tokens_than_chunks(sglang: Start, host: LabHost) -> None:
    draft = f"{host.home}/models/Kimi-K2.5-Eagle3"
    args = ("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", draft)
    server = sglang(*args, "--decode-log-interval", "20", env=SIX).wait_ready()
    timing = measure(server, 120)
    assert timing.tokens == 120
    assert 120 / 2.6 < timing.chunks < 120 / 2.0
    state = json.loads(server.get("/server_info")[1])["internal_states"][0]
    assert 2.1 < state["avg_spec_accept_length"] < 2.5
    assert re.search(r"Decode batch, .*accept len: 2\.\d\d, accept rate: 0\.4\d", server.log)


def test_the_tree_dies_with_a_killed_launcher(sglang: Start, lab: LabState, host: LabHost) -> None:
    server = sglang().wait_ready()
    assert min(held_mib(lab, host)) > 80_000
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: not server.processes, 3)
    assert held_mib(lab, host) == [0] * 8


def test_escaped_schedulers_hold_the_gpus_after_a_killed_launcher(
    sglang: Start, lab: LabState, host: LabHost
) -> None:
    server = sglang(env={"STANDIN_ESCAPE": "1"}).wait_ready()
    os.kill(server.pid, signal.SIGKILL)
    assert eventually(lambda: titles(server) == WORKERS, 3)
    assert not eventually(lambda: titles(server) != WORKERS, 0.3), "and they stay"
    assert min(held_mib(lab, host)) > 80_000


def test_a_request_in_flight_is_finished_after_sigterm(sglang: Start, host: LabHost, lab: LabState) -> None:
    server = sglang().wait_ready()
    stream = server.stream("/v1/completions", completion(60))
    next(stream)
    os.kill(server.pid, signal.SIGTERM)
    assert eventually(lambda: server.get("/health")[0] == 503)
    assert list(stream)[-1][1]["usage"]["completion_tokens"] == 60
    log = server.wait_ended()
    assert "Gracefully exiting... Remaining number of requests 1." in log
    assert "Gracefully exiting... Remaining number of requests 0." in log
    assert not server.processes
    assert not list((Path(lab.root) / "machines" / host.name / "shm").iterdir())


def test_a_killed_scheduler_takes_the_tree_with_it(sglang: Start, host: LabHost, lab: LabState) -> None:
    server = sglang().wait_ready()
    assert list((Path(lab.root) / "machines" / host.name / "shm").iterdir())
    os.kill(server.processes[WORKERS[5]], signal.SIGKILL)
    log = server.wait_ended()
    assert eventually(lambda: not server.processes, 3)
    assert re.search(r"Subprocess scheduler_5 \(pid=\d+\) crashed with exit code -9", log)
    assert list((Path(lab.root) / "machines" / host.name / "shm").iterdir()), "left behind, as by a crash"


def test_sigterm_to_a_scheduler_is_a_hard_kill(sglang: Start) -> None:
    server = sglang().wait_ready()
    os.kill(server.processes[WORKERS[0]], signal.SIGTERM)
    assert "exit code -15" in server.wait_ended()


def cause(log: str) -> str:
    return next((f.cause for f in SGLANG.fatal if re.search(f.pattern, log)), "")


@pytest.mark.parametrize(
    ("args", "model", "word"),
    [
        (["--model-path", "/nowhere/model"], "", "Incorrect path_or_model_id: '/nowhere/model'"),
        (["--tp-size", "9"], "Qwen3-8B", "invalid device ordinal"),
        (["--tp-size", "4"], "Kimi-K2.5", "CUDA out of memory"),
        (["--mem-fraction-static", "0.5"], "Kimi-K2.5", "Not enough memory. Please try to increase"),
    ],
)
def test_a_start_that_cannot_work_ends(sglang: Start, args: list[str], model: str, word: str) -> None:
    server = sglang(*args, model=model)
    assert word in server.wait_ended()
    assert eventually(lambda: not server.processes, 3)


def test_a_full_gpu_is_out_of_memory(sglang: Start, host: LabHost) -> None:
    first = sglang().wait_ready()
    second = sglang("--port", str(PORT + 1))
    assert cause(second.wait_ended()) == "out-of-memory"
    assert first.get("/health")[0] == 200


def test_a_taken_port_ends_it_after_loading(sglang: Start, host: LabHost) -> None:
    with listening(host.address, PORT):
        log = sglang().wait_ended()
    assert "Load weight end" in log
    assert cause(log) == "port-in-use"


@pytest.mark.parametrize(("fault", "word"), [("die", "NCCL error"), ("die", "Received sigquit")])
def test_a_worker_that_fails_while_loading_ends_it(sglang: Start, fault: str, word: str) -> None:
    server = sglang(env={"STANDIN_FAULT": fault})
    assert word in server.wait_ended()
    assert eventually(lambda: not server.processes, 3)


def test_a_stalled_start_stays_where_it_is(sglang: Start) -> None:
    server = sglang(env={"STANDIN_FAULT": "stall"})
    assert eventually(lambda: " 50% Completed" in server.log)
    assert server.alive
    assert server.get("/health")[0] == 0


def test_it_can_listen_on_the_wrong_port(sglang: Start) -> None:
    server = sglang(env={"STANDIN_FAULT": "wrong-port"}, model="Qwen3-8B")
    assert eventually(lambda: server.get("/health", PORT + 1)[0] == 200)
    assert server.get("/health")[0] == 0


def run(host: LabHost, *args: str) -> subprocess.CompletedProcess[str]:
    argv = [f"{host.home}/venvs/sglang/bin/python", "-m", "sglang.launch_server", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--model-path", "x", "--no-such-flag", "1"], "unrecognized arguments: --no-such-flag 1"),
        (
            ["--model-path", "x", "--tp-size", "many"],
            "argument --tp-size/--tensor-parallel-size: invalid int value",
        ),
        (["--tp-size", "8"], "the following arguments are required: --model-path"),
    ],
)
def test_wrong_arguments_end_with_two(lab: LabState, args: list[str], word: str) -> None:
    done = run(lab.hosts[0], *args)
    assert done.returncode == 2
    assert f"launch_server.py: error: {word}" in done.stderr


def test_code_of_the_models_own_must_be_allowed(lab: LabState) -> None:
    host = lab.hosts[0]
    done = run(host, "--model-path", f"{host.home}/models/Kimi-K2.5", "--tp-size", "8")
    assert (done.returncode, "trust_remote_code=True" in done.stderr) == (1, True)


def test_uuids_choose_the_gpus(sglang: Start, lab: LabState, host: LabHost) -> None:
    listed = subprocess.check_output([f"{host.home}/.lab-bin/nvidia-smi", "-L"], text=True)
    uuids = re.findall(r"UUID: (\S+)\)", listed)
    chosen = ",".join([uuids[6], uuids[2]])
    server = sglang("--tp-size", "2", env={"CUDA_VISIBLE_DEVICES": chosen}, model="Qwen3-8B").wait_ready()
    assert [index for index, mib in enumerate(held_mib(lab, host)) if mib] == [2, 6]
    assert procfs.look(server.pid) is not None
