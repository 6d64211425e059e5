"""The fingerprint: what is read of a real server, what is kept out of it, what is owned up to as unread."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker import engines
from stoker.agent.asking import http
from stoker.agent.context import Context
from stoker.agent.evidence import fingerprint, serverinfo
from stoker.agent.evidence.environment import Hasher
from stoker.agent.evidence.versions import Disk
from stoker.agent.gpus.gpu import GpuState
from stoker.agent.gpus.gpurows import Gpu, GpuProcess
from stoker.agent.measuring.sampler import Sampler, under_load
from stoker.agent.processes.procs import look
from stoker.agent.session import Session
from tests.agent.launched import Launched, free_port, plan, until
from tests.agent.programs_paced import METRICS, PROGRAM, Paced

ENGINE = {
    **engines.get("openai").to_wire(),
    "metrics": METRICS,
    "info_paths": ["/nowhere", "/info"],
    "workers": ["worker:.*"],
    "rewrites": {"NCCL_CUMEM_ENABLE": "0"},
    "env_prefixes": ["PACED_"],
}
# A launcher with two workers that rename themselves, differ in one variable, and set one by themselves.
FAMILY = Path(__file__).parent / "programs_paced" / "family.py"


def take(home: Path, port: int, **fields: Any) -> dict[str, Any]:
    ctx = Context(session=Session({**os.environ, "HOME": str(home)}))
    params = {"port": port, "engines": [ENGINE], "salt": "pepper", "salt_id": "p1", **fields}
    found = fingerprint.take(ctx, params)
    return dict(json.loads(json.dumps(found)))


def family(home: Path, env: Mapping[str, str], **fields: Any) -> tuple[Launched, dict[str, Any]]:
    """A launched family, and the parameters that mean it."""
    port = free_port()
    wanted = plan([sys.executable, FAMILY, str(port)], port, env=env, **fields) | {"engine": ENGINE}
    server = Launched(home, wanted)
    record = {**server.launch, "profile_hash": wanted["profile_hash"], "bind": "127.0.0.1", "port": port}
    record |= {"engine": ENGINE["name"], "gpus": [], "script": ""}
    (server.folder / "launch.json").write_text(json.dumps(record))
    until(lambda: _answers(port))
    return server, {"plan": wanted}


def _answers(port: int) -> bool:
    try:
        return http.get("127.0.0.1", port, "/v1/models", 2).status == 200
    except http.HttpError:
        return False


def test_tuning_is_recorded_by_value_and_everything_else_by_salted_hash(tmp_path: Path) -> None:
    env = {**os.environ, "NCCL_PROTO": "LL", "PACED_DEPTH": "3", "PLAIN": "words", "NCCL_TOKEN": "hush-hush"}
    with Paced(env=env) as server:
        found = take(tmp_path, server.port)
    assert found["env"]["NCCL_PROTO"] == "LL"
    assert found["env"]["PACED_DEPTH"] == "3"
    assert "PLAIN" not in found["env"]
    assert found["env_hashed"]["PLAIN"] == Hasher("pepper").of("PLAIN", "words")
    assert "NCCL_TOKEN" not in found["env"], "a credential-like name is never recorded by value"
    assert "NCCL_TOKEN" in found["env_hashed"]
    assert "hush-hush" not in json.dumps(found)
    assert (found["salt_id"], found["env_source"]) == ("p1", "memory")


def test_hashes_are_of_name_value_and_salt() -> None:
    assert Hasher("a").of("X", "1") == Hasher("a").of("X", "1")
    assert len({Hasher("a").of("X", "1"), Hasher("b").of("X", "1"), Hasher("a").of("Y", "1")}) == 3
    assert len(Hasher("a").of("X", "\udcff")) == 16


def test_without_a_salt_nothing_else_is_recorded_and_that_is_said(tmp_path: Path) -> None:
    with Paced(env={**os.environ, "PLAIN": "words"}) as server:
        found = take(tmp_path, server.port, salt=None)
    assert (found["env_hashed"], found["salt_id"]) == ({}, "")
    assert any("no salt was given" in line for line in found["unread"])


def test_prefixes_of_the_request_decide_what_is_recorded_by_value(tmp_path: Path) -> None:
    with Paced(env={**os.environ, "NCCL_PROTO": "LL", "OTHER_X": "1"}) as server:
        found = take(tmp_path, server.port, prefixes=["OTHER_"])
    assert found["env"] == {"OTHER_X": "1"}
    assert "NCCL_PROTO" in found["env_hashed"]


def test_renamed_workers_are_read_live_and_their_differences_are_kept(tmp_path: Path) -> None:
    server, params = family(tmp_path, {"NCCL_PROTO": "LL"})
    with server:
        found = take(tmp_path, 0, **params)
    assert found["env"]["NCCL_PROTO"] == "LL"
    assert found["env_source"] == "memory"
    assert sorted(found["env_differs"]["PACED_RANK"].values()) == ["0", "1"]
    assert sorted(found["env_differs"]["PACED_ODD"].values(), key=str) == ["1", None]
    assert "PACED_ODD" not in found["env"]


def test_what_the_engine_sets_by_itself_is_told_apart_from_the_profile(tmp_path: Path) -> None:
    server, params = family(tmp_path, {"NCCL_PROTO": "LL"})
    with server:
        found = take(tmp_path, 0, **params)
    assert found["env"]["NCCL_CUMEM_ENABLE"] == "0"
    assert found["engine_set"] == ["NCCL_CUMEM_ENABLE"]


def test_what_the_profile_sets_is_not_the_engines_own(tmp_path: Path) -> None:
    server, params = family(tmp_path, {"NCCL_CUMEM_ENABLE": "0"})
    with server:
        assert take(tmp_path, 0, **params)["engine_set"] == []


def test_arguments_lose_what_looks_like_a_key(tmp_path: Path) -> None:
    with Paced("--key", "sk-0123456789abcdef") as server:
        found = take(tmp_path, server.port)
    assert "sk-0123456789abcdef" not in json.dumps(found)
    assert found["argv"][-2:] == ["--key", "***"]


def test_the_first_path_that_answers_tells_the_arguments(tmp_path: Path) -> None:
    with Paced() as server:
        found = take(tmp_path, server.port)
    assert found["args"] == {"tp_size": 2, "nested": {"depth": 3}}


def test_a_server_that_does_not_tell_is_unread_with_the_reason(tmp_path: Path) -> None:
    silent = {**ENGINE, "info_paths": ["/nowhere"]}
    with Paced() as server:
        found = take(tmp_path, server.port, engines=[silent])
    assert found["args"] == {}
    assert "arguments as the server reports them: GET /nowhere: it answers 404" in found["unread"]


def test_arguments_are_bounded_whatever_the_server_says() -> None:
    raw = {
        "deep": {"a": {"b": {"c": {"d": {"e": 1}}}}},
        "long": "x" * 5000,
        "list": list(range(500)),
        "hf_token": "t",
        "ssl_key_password": "p",
        "launch_command": "python --api-key sk-1",
        "internal_states": [{"a": 1}],
        "max_tokens": 5,
        "none": None,
    }
    told = serverinfo._told(raw)
    assert set(told) == {"deep", "long", "list", "max_tokens"}
    assert told["long"].startswith("sha256:")
    assert len(told["list"]) == 64
    assert "e" not in json.dumps(told["deep"]).replace("deep", "")


def test_the_host_and_the_limits_of_the_workers_are_told(tmp_path: Path) -> None:
    with Paced() as server:
        os.sched_setaffinity(server.process.pid, {0})
        found = take(tmp_path, server.port)
    assert found["process"]["cpus_allowed"] == "0"
    assert found["process"]["nice"] == str(os.getpriority(os.PRIO_PROCESS, 0))
    assert found["host"]["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found["host"]["pid_ns"] == str(Path("/proc/self/ns/pid").readlink())
    assert found["versions"]["kernel"] == os.uname().release


def test_conf_files_that_nccl_reads_are_hashed(tmp_path: Path) -> None:
    (tmp_path / ".nccl.conf").write_text("NCCL_PROTO=LL\n")
    with Paced(env={**os.environ, "HOME": str(tmp_path)}) as server:
        found = take(tmp_path, server.port)
    digest = hashlib.sha256(b"NCCL_PROTO=LL\n").hexdigest()
    assert found["conf_files"][f"{tmp_path}/.nccl.conf"] == digest


def test_a_named_conf_file_replaces_the_homes(tmp_path: Path) -> None:
    (tmp_path / ".nccl.conf").write_text("NCCL_PROTO=LL\n")
    (tmp_path / "mine.conf").write_text("NCCL_ALGO=Ring\n")
    env = {**os.environ, "HOME": str(tmp_path), "NCCL_CONF_FILE": f"{tmp_path}/mine.conf"}
    with Paced(env=env) as server:
        found = take(tmp_path, server.port)
    assert f"{tmp_path}/mine.conf" in found["conf_files"]
    assert f"{tmp_path}/.nccl.conf" not in found["conf_files"]


def test_versions_are_read_from_the_venv_that_really_runs(tmp_path: Path) -> None:
    venv = _venv(tmp_path, {"vllm": "0.32.0+cpu", "torch": "2.13.0", "nvidia_nccl_cu12": "2.28.9"})
    (venv / "lib/python3.11/site-packages/torch").mkdir()
    (venv / "lib/python3.11/site-packages/torch/version.py").write_text("cuda: Optional[str] = '12.8'\n")
    port = free_port()
    command: list[str | Path] = [venv / "bin" / "python", "-S", PROGRAM, "--port", str(port)]
    wanted = plan(command, port, served=("ok",)) | {
        "engine": {**ENGINE, "distribution": "vllm", "workers": []}
    }
    with Launched(tmp_path, wanted) as server:
        until(lambda: _answers(port))
        record = {**server.launch, "profile_hash": "0" * 12, "bind": "127.0.0.1", "port": port, "gpus": []}
        (server.folder / "launch.json").write_text(json.dumps(record))
        found = take(tmp_path, 0, plan=wanted)
    assert found["versions"] | {"kernel": ""} == {
        "engine": "0.32.0+cpu",
        "torch": "2.13.0",
        "cuda": "12.8",
        "python": "3.11.9",
        "kernel": "",
    }
    # Installed is not mapped: what no worker has loaded is not claimed.
    assert "version of nccl: no libnccl is mapped by the worker" in found["unread"]


def _venv(folder: Path, distributions: Mapping[str, str]) -> Path:
    venv = folder / "venv"
    packages = venv / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\nversion = 3.11.9\n")
    for name, version in distributions.items():
        info = packages / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return venv


def test_a_distribution_is_found_by_any_spelling_and_not_by_a_prefix(tmp_path: Path) -> None:
    venv = _venv(tmp_path, {"nvidia_nccl_cu12": "2.28.9", "torch_audio": "9"})
    process = look(os.getpid())
    assert process is not None
    disk = Disk(process, {})
    disk.packages = lambda: [str(venv / "lib/python3.11/site-packages")]  # type: ignore[method-assign]
    assert disk.distribution("nvidia-nccl-cu*") == "2.28.9"
    assert disk.distribution("torch") == ""


# GPUs.


def sample(**fields: Any) -> dict[str, Any]:
    base = {"index": 0, "uuid": "GPU-0", "name": "X", "utilization": 90, "clock_sm_mhz": 1980, "pcie_gen": 5}
    return Gpu(**{**base, **fields}).to_wire()


def throttle(*reasons: str) -> dict[str, Any]:
    return {"mask": "0x0", "reasons": list(reasons)}


def test_a_gpu_is_told_as_it_was_under_load() -> None:
    idle = sample(utilization=0, clock_sm_mhz=345, pcie_gen=1, throttle=throttle("gpu_idle"))
    busy = [sample(clock_sm_mhz=mhz, temperature_c=60 + i) for i, mhz in enumerate((1900, 1950, 1980))]
    found = under_load([idle, *busy])
    assert (found["clock_sm_mhz"], found["pcie_gen"], found["temperature_c"]) == (1950, 5, 62)
    assert found["samples"] == 3


def test_a_gpu_that_was_never_busy_is_told_as_it_was() -> None:
    assert under_load([sample(utilization=0, clock_sm_mhz=345)])["clock_sm_mhz"] == 345


def test_a_reason_for_lower_clocks_counts_when_it_held_half_of_the_time() -> None:
    samples = [sample(throttle=throttle("hw_thermal_slowdown"))] * 3 + [
        sample(throttle=throttle("sw_power_cap"))
    ]
    found = under_load(samples)
    assert found["throttle"]["reasons"] == ["hw_thermal_slowdown"]
    assert found["throttle"]["seen"] == {"hw_thermal_slowdown": 3, "sw_power_cap": 1}


def test_what_the_driver_does_not_know_stays_unknown_under_load() -> None:
    found = under_load([sample(power_w=None, clock_sm_mhz=None)])
    assert (found["power_w"], found["clock_sm_mhz"]) == (None, None)


def test_the_sampler_sees_processes_that_come_meanwhile() -> None:
    ours = GpuProcess("GPU-0", 10, "sglang::scheduler", 100)
    other = GpuProcess("GPU-0", 11, "train.py", 100)
    answers = [[ours], [ours, other]]
    asked = threading.Event()

    def query(facts: Any, env: Any) -> GpuState:
        if len(answers) == 1:
            asked.set()
        return GpuState("ok", "", [Gpu(0, uuid="GPU-0")], answers.pop(0) if len(answers) > 1 else answers[0])

    sampler = Sampler(None, {}, interval_s=0.01, query=query)  # type: ignore[arg-type]
    sampler.start()
    assert asked.wait(5)
    sampler.stop()
    assert not sampler.is_alive()
    assert sampler.passers_by([{"index": 3, "uuid": "GPU-0"}]) == [("train.py", 11, 3)]
    assert sampler.machine()["samples"] >= 2
