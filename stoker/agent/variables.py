"""Which variables tune an engine, which may hold a secret, and how a value is shown."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Callable, Iterable, List, Set

TUNING_PREFIXES = ("NCCL_", "CUDA_", "SGLANG_", "VLLM_", "TORCH_", "PYTORCH_", "OMP_", "LLAMA_ARG_")
# A token of text (``token-map``, ``token_ids``) is none that lets somebody in.
_CREDENTIAL = re.compile(
    r"(^|_)(API_?KEYS?|KEY|TOKEN(?!_(MAP|IDS?|LEN(GTH)?|LIMIT|COUNT|BUDGET|SIZE|TYPE)(_|$))|SECRETS?"
    r"|PASSW(OR)?D|PASSPHRASE|CREDENTIALS?|AUTH(ORIZATION)?|BEARER|COOKIE)(_|$)"
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SHOWN = 2000
_SECRET_CHARS = 4  # a shorter one would blot out half of every line, and hides nothing
_LINE_CHARS = 8  # a line of a secret that has several
# Texts are cut for people: of a long secret this much of its beginning gives it away.
_HEAD_CHARS = 12
_BLOT = "***"
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
    """The same text with each secret value blotted out, also one that JSON escapes or a cut shortened."""
    return _all_blotted(text, _forms(secrets))


def without(secrets: Iterable[str], value: Any) -> Any:
    """A JSON value with each secret blotted out of every text in it.

    Out of names, and of what programs go by, only where it is long: a short one may be an ordinary word.
    """
    forms = _forms(secrets)
    long = [form for form in forms if len(form) >= _HEAD_CHARS]
    if not forms:
        return value
    return each_text(value, lambda text: _all_blotted(text, forms), lambda text: _all_blotted(text, long))


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


def _forms(secrets: Iterable[str]) -> List[str]:
    """The ways in which secrets get into a text, longest first."""
    found: Set[str] = set()
    for secret in secrets:
        found.update((secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]))
        if "\n" in secret:  # a log has it line by line
            found.update(line for line in secret.splitlines() if len(line) >= _LINE_CHARS)
    return sorted((form for form in found if len(form) >= _SECRET_CHARS), key=len, reverse=True)


def _all_blotted(text: str, forms: Iterable[str]) -> str:
    for form in forms:
        text = _blotted(text, form)
    return text


def _blotted(text: str, secret: str) -> str:
    head = secret[:_HEAD_CHARS] if len(secret) >= _HEAD_CHARS + 4 else secret
    at = text.find(head)
    while at >= 0:
        # By character: how much of it the text has (it is no path).
        had = len(os.path.commonprefix((text[at:], secret)))  # noqa: RUF071
        text = text[:at] + _BLOT + text[at + had :]
        at = text.find(head, at + len(_BLOT))
    return text
