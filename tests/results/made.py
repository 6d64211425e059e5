"""Records as a host's answers make them: the story's, and variations of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from stoker.results.records.fromjson import build
from stoker.results.records.record import Record, Subject

TUNING = {
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_NTHREADS": "512",
}
BY_ENGINE = {"NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "8"}
GPU = {
    "name": "NVIDIA RTX PRO 6000",
    "clock_sm_mhz": 2400,
    "clock_mem_mhz": 12500,
    "power_limit_w": 600.0,
    "temperature_c": 64,
    "pcie_gen": 5,
    "pcie_width": 16,
    "throttle": {"mask": "0x0", "reasons": []},
}


def fingerprint(**fields: Any) -> dict[str, Any]:
    """What was in force on node174 when it was right; ``fields`` replace."""
    base: dict[str, Any] = {
        "env": {**TUNING, **BY_ENGINE, "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "OMP_NUM_THREADS": "1"},
        "env_hashed": {"PATH": "aa", "HOME": "bb", "HF_HOME": "cc", "STOKER_LAUNCH": "l1"},
        "salt_id": "salt-1",
        "env_source": "memory",
        "env_differs": {},
        "engine_set": sorted(BY_ENGINE),
        "args": {"tp_size": 8, "mem_fraction_static": 0.85, "max_total_num_tokens": 834615, "port": 30000},
        "argv": ["python", "-m", "sglang.launch_server", "--tp-size", "8", "--trust-remote-code"],
        "versions": {
            "engine": "0.5.23",
            "torch": "2.9.1",
            "cuda": "13.0",
            "nccl": "2.28.9",
            "driver": "580.159.04",
            "kernel": "6.8.0",
            "python": "3.12.3",
        },
        "host": {"boot_id": "boot-a", "init_start": 10, "pid_ns": "pid:[1]", "cpus": 64, "load1": 9.0},
        "process": {"cpus_allowed": "0-63", "nice": "0", "memlock": "unlimited"},
        "gpus": [{"index": i, "uuid": f"GPU-{i}", **copy.deepcopy(GPU)} for i in range(8)],
        "strangers": [],
        "conf_files": {},
        "unread": [],
    }
    return {**copy.deepcopy(base), **fields}


def run(index: int, tok_s: float, tokens: int = 500, concurrency: int = 1) -> dict[str, Any]:
    total = tokens * concurrency
    return {
        "index": index,
        "tokens": total,
        "requested": total,
        "seconds": total / tok_s,
        "tok_s": tok_s,
        "ttft_s": 0.2,
        "tpot_s": concurrency / tok_s,
        "valid": True,
        "why": "",
    }


def invalid(index: int, why: str = "1 of 1 requests failed: timeout × 1 (nothing came)") -> dict[str, Any]:
    none = dict.fromkeys(("seconds", "tok_s", "ttft_s", "tpot_s"))
    return {"index": index, "tokens": 0, "requested": 500, **none, "valid": False, "why": why}


def result(paces: Sequence[float], **fields: Any) -> dict[str, Any]:
    """A ``bench`` result of the contract; ``fields`` replace."""
    base: dict[str, Any] = {
        "run_id": "20260101-120000-node174-nccl-tuned-0a1b",
        "started_at": 1767268800.0,
        "bench": {"name": "decode", "runs": max(1, len(paces)), "tokens": 500, "concurrency": 1},
        "launch": {"launch_id": "20260101-115000-ab12", "slot": "kimi", "profile": "nccl-tuned"},
        "engine": "sglang",
        "model": "/models/Kimi-K2.5",
        "engine_version": "0.5.23",
        "simulated": False,
        "warmup": run(-1, 80.0),
        "runs": [run(i, pace) for i, pace in enumerate(paces)],
        "requests": [],
        "contaminated": [],
        "machine": {"samples": 12},
        "fingerprint": fingerprint(),
        "path": "/root/.stoker/runs/x",
    }
    return {**base, **fields}


def subject(**fields: Any) -> Subject:
    base: dict[str, Any] = {
        "host": "node174",
        "engine": "sglang",
        "profile": "nccl-tuned",
        "profile_hash": "0123456789ab",
        "slot": "kimi",
        "resolved": {"engine": "sglang", "env": dict(TUNING)},
    }
    return Subject(**{**base, **fields})


def record(paces: Sequence[float], *, of: Subject | None = None, **fields: Any) -> Record:
    """A record of one launch."""
    return build([result(paces, **fields)], of or subject())


GOOD = (90.6, 88.7, 87.7)


def good(number: int = 0, **fields: Any) -> Record:
    """One of the launches that made the baseline."""
    centre = GOOD[number]
    run_id = f"2026010{number + 1}-120000-node174-nccl-tuned-000{number}"
    paces = [centre, centre + 0.1, centre - 0.2, centre + 0.2, centre]
    return record(paces, run_id=run_id, started_at=1767268800.0 + 86400 * number, **fields)


def bad(**fields: Any) -> Record:
    """The story's: after the reboot, started without the variables."""
    env = {k: v for k, v in fingerprint()["env"].items() if k not in TUNING}
    host = {**fingerprint()["host"], "boot_id": "boot-b"}
    hashed = {**fingerprint()["env_hashed"], "STOKER_LAUNCH": "l2"}
    lost = fingerprint(env=env, host=host, env_hashed=hashed)
    plain = subject(profile="kimi-k25", profile_hash="ffff00000000", resolved={"engine": "sglang"})
    base: dict[str, Any] = {
        "run_id": "20260201-120000-node174-kimi-k25-ffff",
        "started_at": 1769947200.0,
        "fingerprint": {**lost, **fields.pop("fingerprint", {})},
    }
    return record([63.0, 62.9, 62.9, 62.8, 62.9], of=plain, **{**base, **fields})
