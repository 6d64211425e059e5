"""What a host tells, in words for people."""

from __future__ import annotations

from typing import Any


def process_line(process: dict[str, Any]) -> str:
    """A process of the wire as one line: pid, user, age, GPU memory, title, why it was picked."""
    gpu = "" if process.get("gpu_mib") is None else f" {process['gpu_mib']} MiB"
    held = ",".join(str(index) for index in process.get("gpus") or [])
    where = f" GPU {held}{gpu}" if held else ""
    age = f"{process['age_s']:.0f} s" if process.get("age_s") is not None else "?"
    title = str(process.get("title") or process.get("cmdline") or "")[:60]
    user, reason = process.get("user", "?"), process.get("reason", "")
    return f"{process['pid']:>7} {user} {age}{where}  {title}  ({reason})"


def hook_line(hook: dict[str, Any]) -> str:
    """A hook or a drain of the wire as one line; one that only would run has neither time nor outcome."""
    took = "" if hook.get("seconds") is None else f" ({hook['seconds']:.1f} s)"
    said = str(hook.get("command") or hook.get("output") or "")
    return f"{hook['when']}: {said}{took}"


def counts(number: int, one: str, many: str) -> str:
    """``1 launch``, ``2 launches``."""
    return f"{number} {one if number == 1 else many}"
