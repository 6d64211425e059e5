"""Which variables tune an engine, which may hold a secret, and how a value is shown."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterable

from . import blot

TUNING_PREFIXES = ("NCCL_", "CUDA_", "SGLANG_", "VLLM_", "TORCH_", "PYTORCH_", "OMP_", "LLAMA_ARG_")
# A token of text (``token-map``, ``token_ids``) is none that lets somebody in.
_CREDENTIAL = re.compile(
    r"(^|_)(API_?KEYS?|KEY|TOKEN(?!_(MAP|IDS?|LEN(GTH)?|LIMIT|COUNT|BUDGET|SIZE|TYPE)(_|$))|SECRETS?"
    r"|PASSW(OR)?D|PASSPHRASE|CREDENTIALS?|AUTH(ORIZATION)?|BEARER|COOKIE)(_|$)"
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHOWN = 2000
# What the contract, the plan or we ourselves wrote, and programs go by: no word of it is a short secret.
_NAMES = ("kind", "type", "slot", "launch_id", "profile", "profile_hash", "marker", "boot_id")
_OURS = frozenset((*_NAMES, "path", "log", "script", "resolved"))


def is_credential(name: str) -> bool:
    """Whether a variable, flag or field of that name may hold a secret: its value is then never shown.

    Args:
        name: In any spelling: ``HF_TOKEN``, ``--ssl-key-password``, ``apiKey``.
    """
    plain = _HUMP.sub("_", name).lstrip("-").replace("-", "_").replace(".", "_")
    return bool(_CREDENTIAL.search(plain.upper()))


def shown(value: str) -> str:
    """A value as text for people: bytes that are no UTF-8 as escapes, and not without end."""
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + f"… ({len(text)} characters)"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The same text with each secret blotted out, in whatever form a program printed it."""
    return blot.of(tuple(secrets)).blotted(text)


def without(secrets: Iterable[str], value: Any) -> Any:
    """A JSON value with each secret blotted out of every text in it.

    Out of names, and of what programs go by, only where it is long: a short one may be an ordinary word.
    """
    values = tuple(secrets)
    if not values:
        return value
    return each_text(value, blot.of(values).blotted, blot.of(values, blot.HEAD_CHARS).blotted)


def each_text(value: Any, change: Callable[[str], str], ours: Callable[[str], str]) -> Any:
    """A JSON value with every text in it changed.

    Args:
        ours: Changes the names of objects, and what programs go by.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            ours(name) if isinstance(name, str) else name: each_text(
                item, ours if name in _OURS else change, ours
            )
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [each_text(item, change, ours) for item in value]
    return value
