"""The proof, on real process trees under the real shim."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.starting import proof
from tests.agent.launched import PROGRAMS, Launched, plan, until

TUNING = {"NCCL_PROTO": "LL", "NCCL_ALGO": "Ring", "NCCL_NTHREADS": "512"}
TREE = PROGRAMS / "tree.py"

Prove = Callable[..., dict[str, Any]]


@pytest.fixture
def prove(tmp_path: Path) -> Iterator[Prove]:
    """Launch a command, wait until it says that it is up, and prove it."""
    running: list[Launched] = []

    def run(
        *argv: str | Path, engine: str = "sglang", env: Mapping[str, str] = TUNING, **more: Any
    ) -> dict[str, Any]:
        server = Launched(tmp_path / str(len(running)), plan(argv, 1, engine=engine, env=env, **more))
        running.append(server)
        log = server.folder / "server.log"
        until(lambda: log.exists() and "up" in log.read_text())
        return proof.prove(server.ctx, server.params())

    yield run
    for server in running:
        server.end()


def tree(*options: str, title: str = "sglang::scheduler_TP") -> list[str]:
    return [sys.executable, str(TREE), "--title", title, *options]


def test_every_worker_runs_with_the_tuning(prove: Prove) -> None:
    found = prove(*tree("--workers", "8"))
    assert found["verdict"] == "in-force"
    assert found["variables"] == sorted(TUNING)
    assert [row["title"] for row in found["workers"]] == [f"sglang::scheduler_TP{i}" for i in range(8)]
    for row in found["workers"]:
        assert (row["source"], row["missing"], row["changed"]) == ("memory", [], {})


def test_one_worker_without_a_variable_is_enough_to_fail(prove: Prove) -> None:
    found = prove(*tree("--unset", "NCCL_ALGO@2"))
    assert found["verdict"] == "not-in-force"
    assert [row["missing"] for row in found["workers"]] == [[], [], ["NCCL_ALGO"], []]


def test_values_are_compared_byte_for_byte(prove: Prove) -> None:
    env = {"NCCL_A": "NO", "NCCL_B": "0644", "NCCL_C": " LL ", "NCCL_D": "é", "NCCL_E": ""}
    found = prove(*tree("--set", "NCCL_A=no@1", "--set", "NCCL_B=644@1", "--set", "NCCL_C=LL@1"), env=env)
    assert [row["changed"] for row in found["workers"]] == [
        {},
        {
            "NCCL_A": {"want": "NO", "have": "no"},
            "NCCL_B": {"want": "0644", "have": "644"},
            "NCCL_C": {"want": " LL ", "have": "LL"},
        },
        {},
        {},
    ]


def test_what_the_engine_adds_is_shown_without_what_looks_like_a_credential(prove: Prove) -> None:
    found = prove(
        *tree("--set", "NCCL_CUMEM_ENABLE=0", "--set", "SGLANG_X_TOKEN=t0ken", "--set", "EDITOR=vi"),
    )
    assert found["verdict"] == "in-force"
    assert found["workers"][0]["added"] == {"NCCL_CUMEM_ENABLE": "0"}
    assert "t0ken" not in str(found)


def test_an_engines_own_rewriting_fails_unless_it_is_expected(prove: Prove) -> None:
    command = tree("--set", "CUDA_DEVICE_MAX_CONNECTIONS=8")
    env = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    surprised = prove(*command, env=env)
    assert surprised["verdict"] == "not-in-force"
    changed = {"CUDA_DEVICE_MAX_CONNECTIONS": {"want": "1", "have": "8", "by_engine": True}}
    assert surprised["workers"][0]["changed"] == changed
    assert prove(*command, env=env, expect={"CUDA_DEVICE_MAX_CONNECTIONS": "8"})["verdict"] == "in-force"


def test_secrets_must_be_there_and_are_never_shown(prove: Prove) -> None:
    secrets = {"HF_TOKEN": "hf-3c5a9d", "VLLM_API_KEY": "k-77aa"}
    found = prove(*tree("--unset", "HF_TOKEN@1"), secrets=secrets)
    assert [row["missing"] for row in found["workers"]] == [[], ["HF_TOKEN"], [], []]
    assert not any(value in str(found) for value in secrets.values())


def test_a_wanted_credential_that_differs_is_told_without_its_values(prove: Prove) -> None:
    found = prove(*tree("--set", "MY_API_KEY=other@0"), env={"MY_API_KEY": "wanted"})
    assert found["workers"][0]["changed"] == {"MY_API_KEY": {}}
    assert found["verdict"] == "not-in-force"


def test_without_titles_the_launcher_and_its_pythons_are_the_workers(prove: Prove) -> None:
    found = prove(*tree("--workers", "2", "--unset", "NCCL_ALGO@1", title=""))
    assert len(found["workers"]) == 3
    assert found["verdict"] == "not-in-force"
    assert [len(row["missing"]) for row in found["workers"]] == [0, 0, 1]


def test_spawned_workers_count_and_the_resource_tracker_does_not(prove: Prove) -> None:
    found = prove(*tree("--workers", "2", "--spawn", title=""))
    assert found["verdict"] == "in-force"
    assert len(found["workers"]) == 3
    assert not any("resource_tracker" in row["title"] for row in found["workers"])


def test_what_a_wrapper_runs_is_the_server(prove: Prove) -> None:
    script = 'NCCL_PROTO=Simple "$@"; exit $?'
    command = ["/bin/sh", "-c", script, "sh", sys.executable, str(TREE), "--workers", "0"]
    found = prove(*command, engine="openai")
    assert [row["changed"] for row in found["workers"]] == [{"NCCL_PROTO": {"want": "LL", "have": "Simple"}}]


@pytest.fixture(scope="session")
def unreadable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose memory nobody can make sense of: static, stripped."""
    out = tmp_path_factory.mktemp("c") / "p"
    compiler = shutil.which("gcc") or pytest.skip("no C compiler")
    command = [str(compiler), "-w", "-static", "-s", "-o", str(out), str(PROGRAMS / "environment.c")]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot link statically")
    return out


@pytest.mark.parametrize(("mode", "source"), [("wipe", "unreadable"), ("keep", "exec")])
def test_what_cannot_be_read_from_memory_is_unproven_never_unset(
    prove: Prove, unreadable: Path, mode: str, source: str
) -> None:
    hold = 'exec 3<>"$1/fifo"; exec "$2" "$3" <&3'
    folder = unreadable.parent
    if not (folder / "fifo").exists():
        os.mkfifo(folder / "fifo")
    found = prove("/bin/sh", "-c", hold, "sh", folder, unreadable, mode, engine="openai")
    assert found["verdict"] == "unproven"
    (row,) = found["workers"]
    assert (row["source"], row["missing"], row["changed"]) == (source, [], {})
    assert row["why"]


def test_a_server_that_has_ended_cannot_be_proven(tmp_path: Path) -> None:
    with Launched(tmp_path, plan(["/bin/true"], 1)) as server:
        until((server.folder / "empty").exists)
        with pytest.raises(AgentError) as caught:
            proof.prove(server.ctx, server.params())
    assert caught.value.kind == "no-server"
