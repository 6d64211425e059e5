"""Which variables tune an engine, which may hold a secret, and how a value is shown."""

from __future__ import annotations

import re
from typing import Any, Iterable

TUNING_PREFIXES = ("NCCL_", "CUDA_", "SGLANG_", "VLLM_", "TORCH_", "PYTORCH_", "OMP_", "LLAMA_ARG_")
_CREDENTIAL = re.compile(
    r"(^|_)(API_?KEYS?|KEY|TOKEN|SECRETS?|PASSW(OR)?D|PASSPHRASE|CREDENTIALS?|AUTH|BEARER|COOKIE)(_|$)",
    re.IGNORECASE,
)
_SHOWN = 2000
_SECRET_CHARS = 4  # a shorter one would blot out half of every line, and hides nothing


def is_credential(name: str) -> bool:
    """Whether a variable of that name may hold a secret: its value is then never shown."""
    return bool(_CREDENTIAL.search(name))


def shown(value: str) -> str:
    """A value as text for people: bytes that are no UTF-8 as escapes, and not without end."""
    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + f"… ({len(text)} characters)"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The same text with each secret value blotted out."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SECRET_CHARS:
            text = text.replace(secret, "***")
    return text


def without(secrets: Iterable[str], value: Any) -> Any:
    """A JSON value with each secret blotted out of every text in it."""
    known = list(secrets)
    if isinstance(value, str):
        return redacted(value, known)
    if isinstance(value, dict):
        return {without(known, name): without(known, item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without(known, item) for item in value]
    return value
