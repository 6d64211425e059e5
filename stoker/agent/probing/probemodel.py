"""What a model's ``config.json`` and an engine's last log tell of its all-reduces."""

from __future__ import annotations

import glob
import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..context import Context
from ..launches import state
from ..processes.procs import read_file

_CONFIG_BYTES = 4 << 20
_LOG_BYTES = 4 << 20
_SHOWN = 8
# Where a model of many parts (an eye, an ear) keeps what its language model is.
_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_TYPES = ("bfloat16", "float16", "float32")
_LINE = re.compile(r"all[-_ ]?reduce|nvls|symm_mem|mscclpp", re.IGNORECASE)
# The whole configuration on one line mentions it and says nothing of what is in use.
_CONFIG_LINE = re.compile(r"server_args=|ServerArgs\(|with config:|non-default args", re.IGNORECASE)
_OFF = re.compile(
    r"custom all[-_ ]?reduce.{0,40}(is disabled|failed|not supported)|disable_custom_all_reduce=True", re.I
)
_BACKENDS = re.compile(r"Using \[(.*?)\] all-?reduce backends", re.IGNORECASE)
# Backends that are not NCCL; ``NCCL_SYMM_MEM`` is.
_OWN_BACKEND = re.compile(r"\b(?:CUSTOM|QUICK_REDUCE|FLASHINFER|SYMM_MEM|MSCCLPP|TRTLLM)\b", re.IGNORECASE)
_OWN_ARGUMENT = re.compile(
    r"disable_custom_all_reduce=False|enable_(?:mscclpp|torch_symm_mem|flashinfer_allreduce_fusion)=True"
)
_RANKS = re.compile(r"\b(?:tp_size|tensor_parallel_size)=(\d{1,5})\b")
# NCCL with the switches' multicast: what it does then, other settings hardly touch.
_NVLS_ARGUMENT = re.compile(r"enable_nccl_nvls=True")
_NVLS_LINE = re.compile(r"\d+ Bytes -> Algo NVLS\w* ")
_OWN_LINE = re.compile(r"(?:enabling|using|setup|init\w*) .{0,20}custom[-_ ]?all[-_ ]?reduce", re.IGNORECASE)


def read(env: Mapping[str, str], model: str, path: str) -> Optional[Dict[str, Any]]:
    """The sizes of a model.

    Args:
        env: Of the server: where a hub's models are cached.
        model: As given to the engine.
        path: As a path; empty for a hub's name.

    Returns:
        ``{hidden, layers (null: unknown), dtype, source}``; None where no ``config.json`` tells.
    """
    for place in _places(env, model, path):
        try:
            data = json.loads(read_file(place, _CONFIG_BYTES).decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            found = _sizes(data)
            if found:
                return {**found, "source": place}
    return None


def _places(env: Mapping[str, str], model: str, path: str) -> List[str]:
    if path:
        return [os.path.join(path, "config.json")]
    home = env.get("HF_HOME") or os.path.join(env.get("HOME", "/"), ".cache", "huggingface")
    hub = env.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    name = "models--" + glob.escape(model.replace("/", "--"))
    return sorted(glob.glob(os.path.join(glob.escape(hub), name, "snapshots", "*", "config.json")))[-1:]


def _sizes(data: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    parts = [data[name] for name in _PARTS if isinstance(data.get(name), dict)]
    for part in [*parts, data]:
        hidden = _whole(part, _HIDDEN)
        if hidden:
            dtype = (
                part.get("torch_dtype") or part.get("dtype") or data.get("torch_dtype") or data.get("dtype")
            )
            known = dtype if dtype in _TYPES else "bfloat16"
            return {"hidden": hidden, "layers": _whole(part, _LAYERS), "dtype": known}
    return None


def _whole(data: Mapping[str, Any], names: Any) -> Optional[int]:
    for name in names:
        value = data.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**7:
            return value
    return None


def engine_way(ctx: Context, slot: str) -> Dict[str, Any]:
    """Through what the engine itself reduces, as the log of the slot's last server tells.

    Returns:
        ``{way, lines, log}``: ``way`` is ``nccl``, ``own`` (not through NCCL: then this probe measures
        something else than what the engine does), ``nvls`` (NCCL, through NVLink multicast) or ``unknown``.
    """
    latest = state.current(ctx.home, slot)
    if latest is None:
        return {"way": "unknown", "lines": [], "log": ""}
    text = read_file(str(latest["log"]), _LOG_BYTES).decode("utf-8", "replace")
    return {**way_of(text.splitlines()), "log": str(latest["log"])}


def way_of(lines: List[str]) -> Dict[str, Any]:
    """``{way, lines}`` of a log's lines: what it says of itself, before what its arguments imply."""
    told = [line for line in lines if _LINE.search(line)]
    config = [line for line in told if _CONFIG_LINE.search(line)]
    plain = [line for line in told if not _CONFIG_LINE.search(line)]
    shown = list(dict.fromkeys(line.strip()[:240] for line in plain))
    way = _said(told, plain)
    implied, why = _implied(config)
    if way == "unknown" or (implied == "nvls" and way == "nccl"):
        way, shown = implied, [*why, *shown]
    return {"way": way, "lines": shown[:_SHOWN]}


def _said(told: List[str], plain: List[str]) -> str:
    way = "unknown"
    if any(_OFF.search(line) for line in told):
        way = "nccl"
    for line in plain:
        hit = _BACKENDS.search(line)
        if hit:
            way = "own" if _OWN_BACKEND.search(hit.group(1)) else "nccl"
        elif _NVLS_LINE.search(line):
            way = "nvls"
        elif way == "unknown" and _OWN_LINE.search(line) and not _OFF.search(line):
            way = "own"
    return way


def _implied(config: List[str]) -> Tuple[str, List[str]]:
    """(way, the arguments that say so): an engine does not tell of each choice that it takes by default."""
    text = " ".join(config)
    ranks = [hit.group(0) for hit in _RANKS.finditer(text) if int(hit.group(1)) > 1]
    own = _OWN_ARGUMENT.search(text)
    if own and ranks:
        return "own", [f"{own.group(0)}, {ranks[0]}"]
    nvls = _NVLS_ARGUMENT.search(text)
    return ("nvls", [nvls.group(0)]) if nvls else ("unknown", [])
