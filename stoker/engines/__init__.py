"""The engines Stoker knows, each as data in a module of its own."""

from __future__ import annotations

from stoker.engines.base import Engine
from stoker.engines.llamacpp import LLAMACPP
from stoker.engines.openai import OPENAI
from stoker.engines.sglang import SGLANG
from stoker.engines.transformers import TRANSFORMERS
from stoker.engines.vllm import VLLM
from stoker.errors import InputError, nearest

_ENGINES = (SGLANG, VLLM, LLAMACPP, TRANSFORMERS, OPENAI)


def all_engines() -> tuple[Engine, ...]:
    """Every engine, in the order of the documentation."""
    return _ENGINES


def names() -> tuple[str, ...]:
    """Their names, as a profile writes them."""
    return tuple(engine.name for engine in _ENGINES)


def get(name: str) -> Engine:
    """The engine of that name.

    Raises:
        InputError: No engine is called that; the nearest name is the hint.
    """
    for engine in _ENGINES:
        if engine.name == name:
            return engine
    raise InputError(f"unknown engine {name!r}", next_step=nearest(name, names()))
