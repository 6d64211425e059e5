"""A model's folder, as far as a stand-in reads it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

_DEFAULT_BYTES = 16 << 30
_DEFAULT_CONTEXT = 32768


@dataclass(frozen=True)
class Model:
    """What is to be served.

    Args:
        path: As given.
        architecture: First of the configuration's.
        context: Tokens that it can attend to.
        size_mib: Weights in all.
        shards: Files of weights.
        needs_trust: Whether it brings code of its own, which must be allowed.
    """

    path: str
    architecture: str
    context: int
    size_mib: int
    shards: int
    needs_trust: bool


class ModelError(Exception):
    """The model cannot be loaded; the text is what the real libraries raise."""


def read(path: str) -> Model:
    """The model of that folder.

    Raises:
        ModelError: There is no such folder (a stand-in has no hub), or its configuration cannot be read.
    """
    if not os.path.isdir(path):  # noqa: PTH112  # no pathlib here: start-up time
        raise ModelError(
            f"OSError: Incorrect path_or_model_id: '{path}'. Please provide either the path to a local "
            "folder or the repo_id of a model on the Hub."
        )
    config = _json(f"{path}/config.json")
    if config is None:
        raise ModelError(
            f"OSError: {path} does not appear to have a file named config.json. Checkout "
            f"'https://huggingface.co/{path}/tree/main' for available files."
        )
    index = _json(f"{path}/model.safetensors.index.json") or {}
    return Model(
        path=path,
        architecture=(config.get("architectures") or ["LlamaForCausalLM"])[0],
        context=int(config.get("max_position_embeddings", _DEFAULT_CONTEXT)),
        size_mib=int(index.get("metadata", {}).get("total_size", _DEFAULT_BYTES)) >> 20,
        shards=len(set(index.get("weight_map", {"": ""}).values())),
        needs_trust="auto_map" in config,
    )


def _json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(
            f"OSError: It looks like the config file at '{path}' is not a valid JSON file."
        ) from error
    return data if isinstance(data, dict) else None
