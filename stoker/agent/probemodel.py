"""What a model's ``config.json`` and an engine's last log tell of its all-reduces."""

from __future__ import annotations

import glob
import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional

from . import state
from .context import Context
from .procs import read_file

_CONFIG_BYTES = 4 << 20
_LOG_BYTES = 4 << 20
_SHOWN = 8
# Where a model of many parts (an eye, an ear) keeps what its language model is.
_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_TYPES = ("bfloat16", "float16", "float32")
_LINE = re.compile(r"all[-_ ]?reduce|\bNVLS\b|symm_mem|mscclpp", re.IGNORECASE)
# The whole configuration on one line mentions it and says nothing of what is in use.
_CONFIG_LINE = re.compile(r"server_args=|ServerArgs\(|with config:|non-default args", re.IGNORECASE)
_OFF = re.compile(
    r"custom all[-_ ]?reduce.{0,40}(is disabled|failed|not supported)|disable_custom_all_reduce=True", re.I
)
_BACKENDS = re.compile(r"Using \[(.*?)\] all-?reduce backends", re.IGNORECASE)
# Backends that are not NCCL; ``NCCL_SYMM_MEM`` is.
_OWN_BACKEND = re.compile(r"\b(?:CUSTOM|QUICK_REDUCE|FLASHINFER|SYMM_MEM|MSCCLPP|TRTLLM)\b", re.IGNORECASE)
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
        something else than what the engine does) or ``unknown``.
    """
    latest = state.current(ctx.home, slot)
    if latest is None:
        return {"way": "unknown", "lines": [], "log": ""}
    text = read_file(str(latest["log"]), _LOG_BYTES).decode("utf-8", "replace")
    return {**way_of(text.splitlines()), "log": str(latest["log"])}


def way_of(lines: List[str]) -> Dict[str, Any]:
    """``{way, lines}`` of a log's lines."""
    told = [line for line in lines if _LINE.search(line)]
    plain = [line for line in told if not _CONFIG_LINE.search(line)]
    way = "unknown"
    if any(_OFF.search(line) for line in told):
        way = "nccl"
    for line in plain:
        hit = _BACKENDS.search(line)
        if hit:
            way = "own" if _OWN_BACKEND.search(hit.group(1)) else "nccl"
        elif way == "unknown" and _OWN_LINE.search(line) and not _OFF.search(line):
            way = "own"
    shown = list(dict.fromkeys(line.strip()[:240] for line in plain))
    return {"way": way, "lines": shown[:_SHOWN]}
