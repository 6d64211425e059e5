"""vLLM itself, on the CPU: workers, orphans, shared memory, failures. Run by ``tests/real/vllm-cpu``."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.e2e.project import Ended
from tests.real.conftest import COMMAND_S, Site, kill_hard, lives, living, parent_of, shared_memory

SAME = ("tuning", "arguments", "versions", "gpus", "limits", "environment")  # how busy the host is may differ
TUNING = "VLLM_CPU_OMP_THREADS_BIND"


def result(ended: Ended, code: int = 0) -> dict[str, Any]:
    assert ended.code == code, ended.text
    found: dict[str, Any] = ended.json["hosts"]["box"]["results"][0]
    return found


def error(ended: Ended) -> dict[str, Any]:
    assert ended.code == 3, ended.text
    found: dict[str, Any] = ended.json["hosts"]["box"]["error"]
    return found


def servers(site: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result(site.inv("status"))["servers"]
    return found


def ours(site: Site) -> dict[str, Any]:
    (server,) = [server for server in servers(site) if server["launch"]]
    return server


def titles(server: dict[str, Any]) -> list[str]:
    return sorted(process["title"].split()[0].split("/")[-1] for process in server["processes"])


def eventually(holds: Callable[[], Any], what: str, within_s: float = 300.0) -> Any:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {within_s} s")


def orphaned(site: Site, server: dict[str, Any]) -> tuple[list[dict[str, Any]], set[str]]:
    """SIGKILL to the API server alone: the processes that live on, and the server's shared memory."""
    pid = server["launch"]["pid"]
    shared = shared_memory(process["pid"] for process in server["processes"])
    kill_hard(pid)
    time.sleep(3)  # what obeys the loss of its parent has done so by then
    rest = [one for one in server["processes"] if one["pid"] != pid and lives(one["pid"])]
    told = [f"{one['pid']} (parent {parent_of(one['pid'])}) {one['title'][:100]}" for one in rest]
    site.note("3 s after SIGKILL of the API server:\n" + "\n".join([*told, *sorted(shared)]))
    return rest, shared


def existing(paths: set[str]) -> set[str]:
    return {path for path in paths if Path(path).exists()}


def test_a_tuned_server_is_proven_measured_killed_hard_replaced_and_explained(site: Site) -> None:
    first = result(site.inv("restart", "--profile", "tuned"))
    proof = first["proof"]
    assert proof["verdict"] == "in-force"
    assert TUNING in proof["variables"]
    assert {worker["title"] for worker in proof["workers"]} >= {"VLLM::EngineCore"}
    assert {worker["source"] for worker in proof["workers"]} == {"memory"}
    assert first["completion"]["tokens"] >= 2

    server = ours(site)
    assert (server["state"], server["health"], server["proof"]["verdict"]) == ("up", 200, "in-force")
    site.note(f"processes: {titles(server)}")

    measured = result(site.inv("bench"))
    assert measured["tok_s"] > 0
    folder = site.project.root / "results" / measured["run_id"]
    bench = json.loads((folder / "bench.json").read_text())
    assert bench["engine_version"].startswith("0.32.0")
    requests = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    assert [one["tokens"] for one in requests] == [32] * 3 * 4, "a warm-up and two runs of four requests"

    rest, left = orphaned(site, server)
    assert {"VLLM::EngineCore"} <= {one["title"] for one in rest}, "vLLM's workers survived it before"
    seen = ours(site)
    assert seen["state"] == "down", seen

    second = result(site.inv("restart", "--profile", "plain"))
    ended = {process["pid"] for process in second["kill"]["ended"]}
    assert ended >= {one["pid"] for one in rest}
    assert not [one for one in rest if lives(one["pid"])]
    assert second["kill"]["released"]["processes"] is True
    assert not existing(left)
    assert second["completion"]["tokens"] >= 2

    later = result(site.inv("bench"))
    told = result(site.inv("explain", "--run", later["run_id"], "--against", measured["run_id"]))
    likely = [cause["name"] for cause in told["causes"] if cause["confidence"] == "likely"]
    assert TUNING in likely, told

    kill_hard(core_of(site))
    eventually(lambda: not living(site.home), "the end of a server without its core", 60)
    gone = ours(site)
    site.note(f"after SIGKILL of the engine core: {gone['state']}: {gone['why']}")
    assert gone["state"] == "down", gone
    site.note(
        "\n".join(f"{cause['confidence']}: {cause['title']} ({cause['detail']})" for cause in told["causes"])
    )


def test_orphans_of_two_workers_are_ended_and_what_their_death_leaves_is_cleaned(site: Site) -> None:
    first = result(site.inv("restart", "--profile", "two"))
    workers = [worker["title"] for worker in first["proof"]["workers"]]
    assert len([title for title in workers if title.startswith("VLLM::Worker")]) == 2, workers
    assert first["proof"]["verdict"] == "in-force"
    rest, left = orphaned(site, ours(site))
    assert len(rest) >= 3, rest
    assert len(left) >= 6, left  # eight where the processor has AVX-512: two more for the workers' all-reduce

    second = result(site.inv("restart", "--profile", "two"))
    assert {process["pid"] for process in second["kill"]["ended"]} >= {one["pid"] for one in rest}
    assert not existing(left)
    assert second["proof"]["verdict"] == "in-force"

    rest, left = orphaned(site, ours(site))
    for process in rest:
        kill_hard(process["pid"])
    assert existing(left) == left, "nothing is left to be cleaned"
    killed = result(site.inv("kill", "--profile", "two"))
    assert set(killed["released"]["shm"]) >= left
    assert not existing(left)


@pytest.fixture
def by_hand(site: Site) -> Iterator[subprocess.Popen[bytes]]:
    """``vllm serve`` as somebody types it: no marker, and titles that wipe the environment."""
    argv = [f"{site.root}/v/bin/vllm", "serve", f"{site.root}/tiny", "--port", str(site.port)]
    argv += ["--max-model-len", "2048", "--dtype", "bfloat16", "--enforce-eager", "--host", "127.0.0.1"]
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with (site.home / "by-hand.log").open("wb") as log:
        server = subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        eventually(lambda: server.poll() is not None or _healthy(site.port), "the server by hand", 900)
        assert server.poll() is None, (site.home / "by-hand.log").read_text()[-3000:]
        yield server
    finally:
        for pid in _session(server.pid):
            kill_hard(pid)
        server.wait()


def _session(leader: int) -> list[int]:
    """Every process of a session."""
    found = []
    for pid in (int(entry.name) for entry in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                found.append(pid)
    return found


def _healthy(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_server_by_hand_is_seen_measured_and_ended(site: Site, by_hand: subprocess.Popen[bytes]) -> None:
    site.project.write("inventory/host_vars/box.yml", "stoker_profiles: [plain]\n")
    found = {server["pid"]: server for server in servers(site)}
    server = found[by_hand.pid]
    assert (server["engine"], server["port"], server["launch"]) == ("vllm", site.port, None)
    assert "VLLM::EngineCore" in {process["title"] for process in server["processes"]}
    assert server["proof"]["verdict"] == "in-force", (
        "the workers' live environment has what the profile wants"
    )
    measured = result(site.inv("bench", "--port", str(site.port), "--runs", "1"))
    assert measured["tok_s"] > 0
    pids = [process["pid"] for process in server["processes"]]
    killed = result(site.inv("kill", "--profile", "plain"))
    assert {process["pid"] for process in killed["ended"]} >= {by_hand.pid}
    by_hand.wait(10)
    assert not [pid for pid in pids if lives(pid)]
    assert not _healthy(site.port)


def test_a_server_by_hand_is_captured_and_runs_on_with_an_equal_fingerprint(
    site: Site, by_hand: subprocess.Popen[bytes]
) -> None:
    before = result(site.inv("bench", "--port", str(site.port), "--runs", "1"))
    captured = result(site.inv("capture", "--port", str(site.port), "--name", "mine"))
    site.note(f"profiles/mine.yml:\n\n{captured['text']}")
    restarted = result(site.inv("restart", "--profile", "mine"))
    assert by_hand.wait(10) is not None
    assert restarted["proof"]["verdict"] == "in-force", restarted["proof"]
    after = result(site.inv("bench", "--profile", "mine", "--runs", "1"))
    told = result(site.inv("explain", "--run", after["run_id"], "--against", before["run_id"]))
    causes = [
        one["title"] for one in told["causes"] if one["category"] in SAME and one["confidence"] != "unlikely"
    ]
    assert causes == [], told
    result(site.inv("kill", "--slot", "mine", "--yes"))


def test_a_model_that_is_not_there_is_named_as_the_cause(site: Site) -> None:
    plain = site.project.root / "profiles/plain.yml"
    plain.write_text(plain.read_text().replace(f'"{site.root}/tiny"', "nobody/no-such-model"))
    told = error(site.inv("start", "--profile", "plain"))
    assert (told["kind"], told["detail"]["cause"]) == ("died", "model-missing"), told
    assert "model" in told["next"]
    plain.write_text(plain.read_text().replace("nobody/no-such-model", f'"{site.root}/nothing-here"'))
    early = error(site.inv("start", "--profile", "plain"))
    assert early["kind"] == "preflight", early


def test_a_port_taken_after_the_preflight_is_named_with_its_holder(site: Site) -> None:
    start = site.project.start("start", "--host", "box", "--profile", "plain", "--json")
    current = site.home / ".stoker/slots/tiny/current"
    eventually(current.exists, "the launch")
    with socket.create_server(("127.0.0.1", site.port)):
        out, err = start.communicate(timeout=COMMAND_S)
        site.note(f"$ inv start --profile plain (its port is taken meanwhile)\n{err}")
        told = error(Ended(start.returncode, out, err))
        # Stoker sees the stranger long before vLLM tries to listen.
        assert told["kind"] == "wrong-listener", told
        assert f"process {os.getpid()} " in "\n".join(told["evidence"])
        eventually(lambda: not living(site.home), "the end of a vLLM that cannot listen")
    gone = ours(site)
    assert (gone["state"], gone["exit"]) == ("down", {"code": 1}), gone
    site.note(f"and then: {gone['state']}: {gone['why']}")
    log = site.inv("logs", "--lines", "5")
    assert "Address already in use" in log.text


def test_a_kv_cache_beyond_the_memory_is_named_as_the_cause(site: Site) -> None:
    plain = site.project.root / "profiles/plain.yml"
    plain.write_text(plain.read_text().replace("KVCACHE_SPACE: 1", "KVCACHE_SPACE: 50000"))
    told = error(site.inv("start", "--profile", "plain"))
    assert (told["kind"], told["detail"]["cause"]) == ("died", "out-of-memory"), told
    assert "KV cache" in told["next"]
    assert "requested memory for kv" in "\n".join(told["evidence"])


def test_an_engine_core_killed_during_the_start_is_named_as_the_cause(site: Site) -> None:
    start = site.project.start("start", "--host", "box", "--profile", "plain", "--json")
    kill_hard(eventually(lambda: core_of(site), "the engine core", 600))
    out, err = start.communicate(timeout=COMMAND_S)
    site.note(f"$ inv start --profile plain (its engine core is killed meanwhile)\n{err}")
    told = error(Ended(start.returncode, out, err))
    assert (told["kind"], told["detail"]["cause"]) == ("died", "engine-failed"), told


def core_of(site: Site) -> int:
    """The engine core of the slot's launch, once it has its title; else 0."""
    for pid in living(site.home):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"VLLM::EngineCore"):
                return pid
    return 0
