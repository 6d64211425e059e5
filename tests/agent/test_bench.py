"""``bench``: which server is measured, what refuses it, what disturbed it, and what is left on the host."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker import engines
from stoker.agent.asking import completion, http, traffic
from stoker.agent.context import AgentError, Context
from stoker.agent.evidence import serverinfo
from stoker.agent.generators import load
from stoker.agent.measuring import bench
from stoker.agent.session import Session
from stoker.agent.starting import subject
from stoker.lab import realengine, tinymodel
from stoker.results.records.fromjson import build
from stoker.results.records.record import Subject
from tests.agent.launched import Launched, free_port, listening, plan, serving, until
from tests.agent.programs_paced import METRICS, PROGRAM, Paced

RUN_ID = "20260101-120000-here-test-0a1b"
DECODE = {"name": "decode", "runs": 2, "tokens": 20, "concurrency": 2}
# As the paced server looks to the agent: any command with an OpenAI API, and with metrics.
ENGINE = {**engines.get("openai").to_wire(), "metrics": METRICS, "info_paths": ["/info"]}


def context(home: Path, events: list[dict[str, Any]] | None = None) -> Context:
    return Context((events if events is not None else []).append, Session({**os.environ, "HOME": str(home)}))


def measure(home: Path, port: int, **fields: Any) -> dict[str, Any]:
    params = {"port": port, "engines": [ENGINE], "bench": DECODE, "run_id": RUN_ID, "salt": "s", **fields}
    return bench.bench(context(home), params)


def fails(kind: str, home: Path, port: int, **fields: Any) -> AgentError:
    with pytest.raises(AgentError) as caught:
        measure(home, port, **fields)
    assert caught.value.kind == kind, caught.value
    return caught.value


def test_a_server_that_somebody_started_by_hand_is_measured_by_its_port(tmp_path: Path) -> None:
    with Paced("--model", "ok@200") as server:
        found = measure(tmp_path, server.port)
    assert (found["model"], found["engine"], found["launch"]) == ("ok@200", "openai", None)
    assert [run["valid"] for run in found["runs"]] == [True, True]
    assert found["runs"][0]["tok_s"] == pytest.approx(40 / (0.05 + 19 / 200), rel=0.15)
    assert found["contaminated"] == []
    assert found["simulated"] is False
    assert found["fingerprint"]["args"] == {"tp_size": 2, "nested": {"depth": 3}}


def test_the_result_is_a_record(tmp_path: Path) -> None:
    with Paced("--model", "ok@200") as server:
        found = json.loads(json.dumps(measure(tmp_path, server.port)))
    record = build([found], Subject("here", "openai"))
    assert record.run_id == RUN_ID
    assert len(record.samples[0]) == 2
    assert record.metrics["decode_tok_s"].unit == "tok/s"


def test_what_is_left_on_the_host_is_whole_and_private(tmp_path: Path) -> None:
    with Paced() as server:
        found = measure(tmp_path, server.port)
    folder = Path(found["path"])
    assert folder == tmp_path / ".stoker" / "runs" / RUN_ID
    assert sorted(path.name for path in folder.iterdir()) == ["bench.json", "requests.jsonl"]
    lines = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert [(line["run"], line["index"]) for line in lines] == [(r, i) for r in (-1, 0, 1) for i in (0, 1)]
    assert json.loads((folder / "bench.json").read_text())["runs"] == found["runs"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.parent.iterdir()] == [RUN_ID]


def test_each_run_is_told_as_it_ends(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    with Paced() as server:
        params = {"port": server.port, "engines": [ENGINE], "bench": DECODE, "run_id": RUN_ID}
        bench.bench(context(tmp_path, events), params)
    runs = [event for event in events if event["type"] == "run"]
    assert [(run["index"], run["of"], run["warmup"]) for run in runs] == [
        (0, 2, True),
        (0, 2, False),
        (1, 2, False),
    ]


def test_a_server_with_requests_is_refused_as_busy_unless_forced(tmp_path: Path) -> None:
    with Paced("--model", "ok", "--waiting", "3") as server:
        error = fails("busy", tmp_path, server.port)
        assert error.what == "0 requests run and 3 wait on this server"
        found = measure(tmp_path, server.port, force=True)
    assert found["runs"][0]["valid"]
    assert found["contaminated"] == ["3 requests ran or waited when it began"]


def test_running_requests_are_summed_over_label_sets(tmp_path: Path) -> None:
    with Paced("--model", "ok") as server:
        others = [threading.Thread(target=_ask, args=(server, "ok@5", 40)) for _ in range(3)]
        for other in others:
            other.start()
        try:
            until(lambda: _running(server) == 3)
            assert "3 requests run" in fails("busy", tmp_path, server.port).what
        finally:
            server.process.kill()
            for other in others:
                other.join()


def test_a_gauge_that_stands_still_is_a_stale_one_and_goes_back(tmp_path: Path) -> None:
    # SGLang shows its last batch for up to 30 s after it has ended (sglang#26495).
    with Paced("--model", "ok@200", "--stale", "3") as server:
        found = measure(tmp_path, server.port)
        again = measure(tmp_path, server.port, run_id=RUN_ID + "x")
    assert found["contaminated"] == again["contaminated"] == []


def test_requests_of_others_during_the_run_contaminate_it(tmp_path: Path) -> None:
    with Paced("--model", "ok@50") as server:
        stranger = threading.Thread(target=_ask_when_busy, args=(server,))
        stranger.start()
        found = measure(tmp_path, server.port)
        stranger.join()
    assert found["contaminated"] == ["1 requests of others ended while it was measured"]


def test_a_request_of_others_that_outlives_the_run_contaminates_it_too(tmp_path: Path) -> None:
    with Paced("--model", "ok@50") as server:
        stranger = threading.Thread(target=_ask_when_busy, args=(server, "ok@5", 60))
        stranger.start()
        try:
            found = measure(tmp_path, server.port)
        finally:
            server.process.kill()
            stranger.join()
    assert found["contaminated"] == ["1 requests of others ran when it ended"]


def test_without_metrics_the_load_is_unread_and_not_taken_for_idle(tmp_path: Path) -> None:
    with Paced() as server:
        blind = {**ENGINE, "metrics": {**METRICS, "path": "/nowhere"}}
        found = measure(tmp_path, server.port, engines=[blind])
    assert "load of the server: GET /nowhere answers 404" in found["fingerprint"]["unread"]
    assert found["contaminated"] == []


def test_a_server_that_says_it_is_simulated_makes_the_result_so(tmp_path: Path) -> None:
    with Paced("--simulated") as server:
        assert measure(tmp_path, server.port)["simulated"] is True


def test_runs_that_are_no_measurement_come_back_with_why_and_without_a_number(tmp_path: Path) -> None:
    with Paced("--model", "stops") as server:
        found = measure(tmp_path, server.port)
    assert [run["tok_s"] for run in found["runs"]] == [None]
    assert "short × 2 (5 of 20 tokens came (finished by stop))" in found["runs"][0]["why"]
    assert not build([found], Subject("here", "openai")).samples


def test_a_server_with_the_chat_endpoint_only_is_measured_there(tmp_path: Path) -> None:
    with Paced("--path", "/v1/chat/completions") as server:
        found = measure(tmp_path, server.port)
    assert [run["valid"] for run in found["runs"]] == [True, True]


def test_the_key_is_taken_from_the_servers_own_command_line_and_appears_nowhere(tmp_path: Path) -> None:
    with Paced("--key", "sk-very-secret") as server:
        # The paced server's flag is not the usual one, so the key is unknown.
        assert fails("unauthorised", tmp_path, server.port).next_step
        key_env = {**ENGINE, "api_key_env": "PACED_API_KEY"}
        fails("unauthorised", tmp_path, server.port, engines=[key_env])
    with Paced("--key", "sk-very-secret", env={**os.environ, "PACED_API_KEY": "sk-very-secret"}) as server:
        found = measure(tmp_path, server.port, engines=[key_env])
        assert [run["valid"] for run in found["runs"]] == [True, True]
        assert "sk-very-secret" not in json.dumps(found)
        text = "".join(path.read_text() for path in Path(found["path"]).iterdir())
        assert "sk-very-secret" not in text


def test_nobody_on_the_port_is_no_server(tmp_path: Path) -> None:
    fails("no-server", tmp_path, free_port())


def test_a_server_that_lists_no_model_is_no_server(tmp_path: Path) -> None:
    with Paced("--model", "") as server:
        assert "does not list its model" in fails("no-server", tmp_path, server.port).what


@pytest.mark.parametrize("run_id", ["../x", "", "a/b", ".hidden", None, 7])
def test_an_id_that_is_no_plain_name_is_refused(tmp_path: Path, run_id: Any) -> None:
    fails("bad-request", tmp_path, 1, run_id=run_id)


def test_an_id_that_is_there_already_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / ".stoker" / "runs" / RUN_ID).mkdir(parents=True)
    assert "is there already" in fails("bad-request", tmp_path, 1).what


@pytest.mark.parametrize("field", ["runs", "tokens", "concurrency"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "5", True, None, 10**9])
def test_a_parameter_out_of_bounds_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    fails("bad-request", tmp_path, 1, bench={**DECODE, field: value})


def test_a_cancel_leaves_nothing_behind(tmp_path: Path) -> None:
    with Paced("--model", "ok@5") as server:
        ctx = context(tmp_path)
        threading.Timer(0.5, ctx.cancel).start()
        params = {"port": server.port, "engines": [ENGINE], "bench": DECODE, "run_id": RUN_ID}
        with pytest.raises(AgentError, match="cancelled"):
            bench.bench(ctx, params)
    assert not (tmp_path / ".stoker" / "runs").exists()
    assert "sampler" not in {thread.name for thread in threading.enumerate()}


def _ask(server: Paced, model: str = "ok", tokens: int = 10) -> None:
    load.measure(server.target(model), 1, tokens, 1, "stranger", limits=load.Limits(silence_s=5))


def _ask_when_busy(server: Paced, model: str = "ok@500", tokens: int = 5) -> None:
    """One request of a stranger, once the benchmark runs."""
    until(lambda: _running(server) > 0)
    with contextlib.suppress(http.HttpError):  # the server may be ended meanwhile
        _complete(server.port, model, tokens)


def _complete(port: int, model: str, tokens: int, **extra: Any) -> None:
    path = "/v1/completions"
    body = completion.body(path, model, "hello", tokens, extra, stream_usage=True)
    with http.Connection("127.0.0.1", port, 60, None) as connection:
        connection.send(http.request("POST", path, "127.0.0.1", port, completion.HEADERS, body))
        assert list(connection.events())


def _running(server: Paced) -> float:
    text = http.get("127.0.0.1", server.port, "/metrics", 5).body.decode()
    return traffic.parse(text, METRICS).running or 0


# Servers of ours.


def launched(home: Path, command: list[str], wanted: Mapping[str, Any]) -> Launched:
    """A launch whose record names its port, as ``restart`` writes it."""
    server = Launched(home, dict(wanted))
    record = {
        **server.launch,
        "profile": wanted["profile"],
        "profile_hash": wanted["profile_hash"],
        "engine": wanted["engine"]["name"],
        "bind": wanted["bind"],
        "port": wanted["port"],
        "gpus": [],
        "script": str(server.folder / "launch.sh"),
    }
    (server.folder / "launch.sh").write_text("#!/bin/sh\nexec " + " ".join(command) + "\n")
    (server.folder / "launch.json").write_text(json.dumps(record))
    until(lambda: listening(int(wanted["port"])))
    return server


def paced_plan(port: int, model: str = "ok@100", **fields: Any) -> dict[str, Any]:
    command = ["/usr/bin/env", "python3", str(PROGRAM), "--port", str(port), "--model", model]
    return plan(command, port, served=(model,), **fields) | {"engine": ENGINE}


@pytest.mark.parametrize(
    ("options", "lists"),
    [
        (("--model", "none"), True),
        (("--list-status", "404"), True),
        (("--list-status", "500"), True),
        (("--model", "cached"), False),
    ],
)
def test_a_server_of_ours_that_cannot_list_its_model_serves_what_it_was_launched_for(
    tmp_path: Path, options: tuple[str, ...], lists: bool
) -> None:
    """As ``transformers serve``: 500 without a cache of the hub's, else a list of what lies in the cache."""
    port = free_port()
    engine = replace(engines.get("openai"), lists_model=lists)
    wanted = plan(serving("--port", port, *options), port, engine=engine)
    with launched(tmp_path, wanted["argv"], wanted):
        ctx = context(tmp_path)
        found = subject.find(ctx, {"plan": wanted, "engines": [engine.to_wire()]})
        assert serverinfo.ask(ctx, found).model == "tiny"


def test_a_server_of_ours_is_found_by_its_slot_with_its_log_and_script(tmp_path: Path) -> None:
    port = free_port()
    wanted = paced_plan(port, env={"NCCL_PROTO": "LL"}, secrets={"HF_TOKEN": "hf_0123456789"})
    with launched(tmp_path, wanted["argv"], wanted) as server:
        (server.folder / "server.log").write_text("logged in with hf_0123456789\n")
        params = {"plan": wanted, "engines": [ENGINE], "bench": DECODE, "run_id": RUN_ID, "salt": "s"}
        found = bench.bench(context(tmp_path), params)
    assert found["launch"]["launch_id"] == "L1"
    assert found["fingerprint"]["env"]["NCCL_PROTO"] == "LL"
    assert "HF_TOKEN" in found["fingerprint"]["env_hashed"]
    folder = Path(found["path"])
    assert (folder / "server.log").read_text() == "logged in with ***\n"
    assert (folder / "launch.sh").read_text().startswith("#!/bin/sh\nexec ")
    assert "hf_0123456789" not in json.dumps(found)


def test_the_only_server_is_meant_where_none_is_named(tmp_path: Path) -> None:
    port = free_port()
    wanted = paced_plan(port)
    with launched(tmp_path, wanted["argv"], wanted):
        params = {"engines": [ENGINE], "bench": DECODE, "run_id": RUN_ID}
        assert bench.bench(context(tmp_path), params)["launch"]["slot"] == "main"


def test_another_listener_on_the_port_is_no_server_of_ours(tmp_path: Path) -> None:
    port = free_port()
    wanted = paced_plan(port)
    with launched(tmp_path, wanted["argv"], wanted) as server, Paced() as other:
        record = json.loads((server.folder / "launch.json").read_text())
        (server.folder / "launch.json").write_text(json.dumps({**record, "port": other.port}))
        params = {"slot": "main", "engines": [ENGINE], "bench": DECODE, "run_id": RUN_ID}
        with pytest.raises(AgentError) as caught:
            bench.bench(context(tmp_path), params)
    assert caught.value.kind == "wrong-listener"


def test_a_server_that_dies_meanwhile_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    port = free_port()
    wanted = paced_plan(port, model="ok@10")
    with launched(tmp_path, wanted["argv"], wanted) as server:
        (server.folder / "server.log").write_text("CUDA error: an illegal memory access\n")

        def end_it() -> None:
            until(lambda: _running_on(port) > 0)
            os.kill(server.pid, signal.SIGKILL)

        killer = threading.Thread(target=end_it)
        killer.start()
        params = {"slot": "main", "engines": [ENGINE], "bench": DECODE, "run_id": RUN_ID}
        with pytest.raises(AgentError) as caught:
            bench.bench(context(tmp_path), params)
        killer.join()
    assert caught.value.kind == "died"
    assert caught.value.evidence[-1] == "CUDA error: an illegal memory access"
    assert caught.value.detail["exit"] == {"signal": 9}
    assert caught.value.detail["alive"] is False
    assert caught.value.detail["log"] == str(server.folder / "server.log")
    assert caught.value.detail["cause"]
    assert not (tmp_path / ".stoker" / "runs").exists()


def _running_on(port: int) -> float:
    return traffic.parse(http.get("127.0.0.1", port, "/metrics", 5).body.decode(), METRICS).running or 0


# A real engine.


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A real llama-server on a port, tuned by a variable."""
    folder = tmp_path_factory.mktemp("llama")
    model, port = folder / "tiny.gguf", free_port()
    tinymodel.write(model, hidden=256, layers=2)
    argv = [
        str(realengine.program()),
        "--model",
        str(model),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--metrics",
    ]
    argv += ["--device", "none", "--n-gpu-layers", "0", "--threads", "1"]
    env = {**os.environ, "LLAMA_ARG_N_PARALLEL": "2", "MY_API_TOKEN": "tell-nobody"}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=log, env=env)
    try:
        until(lambda: _healthy(port), 30)
        yield port
    finally:
        server.kill()
        server.wait()


def _healthy(port: int) -> bool:
    try:
        return http.get("127.0.0.1", port, "/health", 2).status == 200
    except http.HttpError:
        return False


ALL_ENGINES = [engine.to_wire() for engine in engines.all_engines()]


@pytest.mark.engine
def test_a_real_llama_server_is_measured_with_what_is_in_force(tmp_path: Path, llama: int) -> None:
    found = measure(tmp_path, llama, engines=ALL_ENGINES, bench={**DECODE, "tokens": 50})
    assert found["engine"] == "llamacpp"
    assert [run["valid"] for run in found["runs"]] == [True, True], found["runs"]
    assert found["contaminated"] == []
    taken = found["fingerprint"]
    assert taken["env"]["LLAMA_ARG_N_PARALLEL"] == "2"
    assert taken["env_source"] == "memory"
    assert taken["args"]["total_slots"] == 2
    assert taken["versions"]["engine"]
    assert "MY_API_TOKEN" in taken["env_hashed"]
    assert "tell-nobody" not in json.dumps(found)


@pytest.mark.engine
def test_a_strangers_tokens_on_a_real_llama_server_contaminate(tmp_path: Path, llama: int) -> None:
    def ask() -> None:
        time.sleep(0.3)
        _complete(llama, "any", 400, ignore_eos=True)

    stranger = threading.Thread(target=ask)
    stranger.start()
    found = measure(tmp_path, llama, engines=ALL_ENGINES, bench={**DECODE, "runs": 3, "tokens": 200})
    stranger.join()
    assert len(found["contaminated"]) == 1
    assert "others" in found["contaminated"][0]


def test_a_folder_that_cannot_be_written_does_not_cost_the_measurement(tmp_path: Path) -> None:
    (tmp_path / ".stoker").mkdir()
    (tmp_path / ".stoker" / "runs").write_text("a file in the way, as a full disk would be")
    with Paced() as server:
        found = measure(tmp_path, server.port)
    assert [run["valid"] for run in found["runs"]] == [True, True]
    assert found["path"] == ""
    assert "runs" in found["unkept"]


def test_the_last_runs_stay_and_drafts_of_dead_writers_go(tmp_path: Path) -> None:
    runs = tmp_path / ".stoker" / "runs"
    for number in range(60):
        (runs / f"old-{number:02}").mkdir(parents=True)
        os.utime(runs / f"old-{number:02}", (number, number))
    dead = subprocess.Popen(["true"])
    dead.wait()
    (runs / f".x.{dead.pid}.new").mkdir()
    (runs / f".y.{os.getpid()}.new").mkdir()
    (runs / "a file of somebody's").write_text("x")
    with Paced() as server:
        measure(tmp_path, server.port)
    left = sorted(path.name for path in runs.iterdir())
    assert left == sorted(
        [RUN_ID, f".y.{os.getpid()}.new", "a file of somebody's", *(f"old-{n:02}" for n in range(11, 60))]
    )
