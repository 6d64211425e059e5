"""One lab host on disk: its home, its pretended GPUs, its facts, its engines and models."""

from __future__ import annotations

import json
import shlex
import shutil
import uuid
from pathlib import Path
from typing import Any

import stoker
from stoker.lab import venv
from stoker.lab.state import Folders, write

GPU_NAME = "NVIDIA RTX PRO 6000 (simulated)"
GPU_MEMORY_MIB = 97887
DRIVER = "580.159.04"
CUDA = "13.0"

# What a model's folder must hold for an engine to read it: GiB of weights, files, and its configuration.
_MODELS: dict[str, tuple[float, int, dict[str, Any]]] = {
    "Kimi-K2.5": (
        554.0,
        64,
        {
            "architectures": ["KimiK25ForConditionalGeneration"],
            "model_type": "kimi_k25",
            "max_position_embeddings": 262144,
            "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"},
        },
    ),
    "Kimi-K2.5-Eagle3": (
        5.6,
        1,
        {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "max_position_embeddings": 262144,
        },
    ),
    "Qwen3-8B": (
        15.3,
        5,
        {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "max_position_embeddings": 40960},
    ),
}


def make(places: Folders, name: str, *, gpus: int, load_s: float) -> None:
    """Make or renew a host's folders and boot it. The login's files stay, engines and models are anew.

    Args:
        name: The host's name.
        gpus: How many GPUs it pretends to have.
        load_s: Seconds a stand-in takes to load, by default.
    """
    home, machine = places.home(name), places.machine(name)
    for folder in (home, machine / "locks", machine / "shm"):
        folder.mkdir(parents=True, exist_ok=True)
    _gpus(machine, name, gpus)
    _programs(home, machine)
    _models(home / "models")
    settings = {"host": name, "machine": str(machine), "load_s": load_s}
    for engine in venv.ENGINES:
        venv.make(home / "venvs" / engine.package, engine, settings)
    boot(places, name)


def make_plain(places: Folders, name: str) -> None:
    """Make or renew a host that pretends nothing: it is this machine, with its GPUs, driver and boot.

    Args:
        name: The host's name.
    """
    places.home(name).mkdir(parents=True, exist_ok=True)
    places.machine(name).mkdir(parents=True, exist_ok=True)
    places.facts(name).unlink(missing_ok=True)
    shutil.rmtree(places.home(name) / ".lab-bin", ignore_errors=True)


def is_plain(places: Folders, name: str) -> bool:
    """Whether the host pretends nothing."""
    return not places.facts(name).exists()


def variables(places: Folders, name: str) -> dict[str, Any]:
    """What an inventory says of the host besides how to reach it."""
    if is_plain(places, name):
        return {"ansible_python_interpreter": str(venv.base_python())}
    home = places.home(name)
    return {
        "models": str(home / "models"),
        "sglang_venv": str(home / "venvs" / "sglang"),
        "vllm_venv": str(home / "venvs" / "vllm"),
        "stoker_profiles": ["nccl-tuned"],
    }


def boot(places: Folders, name: str) -> str:
    """A new boot: another identity, another start of PID 1, nothing left in shared memory.

    Returns:
        The new boot id.
    """
    boot_id = str(uuid.uuid4())
    init_start = _kept(places, name).get("init_start", 0) + 1 + uuid.uuid4().int % 1000
    shutil.rmtree(places.machine(name) / "shm", ignore_errors=True)
    (places.machine(name) / "shm").mkdir(parents=True)
    _facts(places, name, boot_id=boot_id, init_start=init_start)
    return boot_id


def boot_id(places: Folders, name: str) -> str:
    """The present one; empty where the host is unknown."""
    return str(_kept(places, name).get("boot_id", ""))


def _kept(places: Folders, name: str) -> dict[str, Any]:
    try:
        facts = json.loads(places.facts(name).read_text(encoding="utf-8"))
        return {key: facts[key] for key in ("boot_id", "init_start")}
    except (OSError, ValueError, KeyError):
        return {}


def _facts(places: Folders, name: str, *, boot_id: str, init_start: int) -> None:
    machine = places.machine(name)
    facts = {
        "simulated": True,
        "boot_id": boot_id,
        "init_start": init_start,
        "pid_ns": f"lab:{name}",
        "gpu_device_dir": str(machine / "dev"),
        "shm_dir": str(machine / "shm"),
        "lock_dir": str(machine / "locks"),
        # A launch keeps HOME whatever else it clears, so HOME tells whose a process is.
        "process_env": {"HOME": str(places.home(name))},
    }
    write(places.facts(name), json.dumps(facts, indent=2) + "\n")


def _gpus(machine: Path, name: str, count: int) -> None:
    shutil.rmtree(machine / "dev", ignore_errors=True)
    (machine / "dev").mkdir(parents=True)
    rows = []
    for index in range(count):
        (machine / "dev" / f"nvidia{index}").touch()
        rows.append(
            {
                "index": index,
                "uuid": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{index}.{name}.lab.stoker')}",
                "name": GPU_NAME,
                "memory_mib": GPU_MEMORY_MIB,
                "bus_id": f"00000000:{0x01 + 0x10 * index:02X}:00.0",
            }
        )
    driver = {"driver": DRIVER, "cuda": CUDA, "gpus": rows}
    write(machine / "gpus.json", json.dumps(driver, indent=2) + "\n")


def _programs(home: Path, machine: Path) -> None:
    """What the host has on its PATH besides the machine's own: nvidia-smi, and a Python for the agent."""
    python = venv.base_python()
    venv.link(home / ".lab-bin" / "python3", python)
    source = Path(stoker.__file__).parent.parent
    code = (
        f"import sys; sys.path.insert(0, {str(source)!r}); "
        f"from stoker.lab.standins.smi import main; sys.exit(main({str(machine)!r}, sys.argv[1:]))"
    )
    text = f'#!/bin/sh\nexec {shlex.quote(str(python))} -IS -c {shlex.quote(code)} "$@"\n'
    write(home / ".lab-bin" / "nvidia-smi", text, mode=0o755)


def _models(folder: Path) -> None:
    for name, (gib, files, config) in _MODELS.items():
        write(folder / name / "config.json", json.dumps({**config, "_comment": "simulated"}, indent=2) + "\n")
        index = {
            "metadata": {"total_size": int(gib * (1 << 30))},
            "weight_map": {
                f"model.layers.{i}.weight": f"model-{i + 1:05d}-of-{files:06d}.safetensors"
                for i in range(files)
            },
        }
        write(folder / name / "model.safetensors.index.json", json.dumps(index) + "\n")
