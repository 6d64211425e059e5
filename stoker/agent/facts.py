"""What this host is: identity, device folders, and what a declared facts file says in their place."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping

VARIABLE = "STOKER_HOST_FACTS"


class FactsError(ValueError):
    """The declared facts file cannot be used; the message names it."""


@dataclass(frozen=True)
class Facts:
    """Facts of one host.

    Args:
        simulated: True where the host's GPUs are pretended; whatever was measured there says so.
        boot_id: Identity of this boot.
        init_start: Start of PID 1 in clock ticks since boot: a restarted container has another one.
        pid_ns: Identity of the pid namespace, e.g. ``pid:[4026531836]``.
        gpu_device_dir: Folder of the GPUs' device files ``nvidia0``, ``nvidia1``, ...
        shm_dir: Folder of POSIX shared memory.
        lock_dir: Declared folder for locks; empty: the system's.
        systemd_dir: Folder that is there where systemd is the init; empty: the system's, and none on a
            simulated host.
        unit_dir: Folder of unit files; empty: systemd's own.
        process_env: A process belongs to this host only if its environment holds these; empty: all do.
    """

    simulated: bool = False
    boot_id: str = ""
    init_start: int = 0
    pid_ns: str = ""
    gpu_device_dir: str = "/dev"
    shm_dir: str = "/dev/shm"
    lock_dir: str = ""
    systemd_dir: str = ""
    unit_dir: str = ""
    process_env: Dict[str, str] = field(default_factory=dict)


def load(environ: Mapping[str, str]) -> Facts:
    """The facts of this host.

    Args:
        environ: The login's environment; ``STOKER_HOST_FACTS`` in it names a JSON file of declared facts.

    Raises:
        FactsError: The file is named but cannot be read, or a value has the wrong type.
    """
    facts = real()
    path = environ.get(VARIABLE, "")
    if not path:
        return facts
    values = {**facts.__dict__, **_declared(path)}
    return Facts(**values)


def real() -> Facts:
    """The facts as the kernel tells them; empty where it does not."""
    return Facts(
        boot_id=_text("/proc/sys/kernel/random/boot_id"),
        init_start=_init_start(),
        pid_ns=_link("/proc/self/ns/pid"),
    )


def _declared(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise FactsError(f"{VARIABLE} names {path}, which cannot be used: {error}") from error
    if not isinstance(data, dict):
        raise FactsError(f"{path}: a JSON object is expected")
    return {name: _typed(path, name, data[name]) for name in Facts.__dataclass_fields__ if name in data}


def _typed(path: str, name: str, value: Any) -> Any:
    want = {"simulated": bool, "init_start": int, "process_env": dict}.get(name, str)
    if not isinstance(value, want) or (want is int and isinstance(value, bool)):
        raise FactsError(f"{path}: {name} must be of type {want.__name__}, not {value!r}")
    if isinstance(value, dict) and not all(isinstance(v, str) for v in value.values()):
        raise FactsError(f"{path}: the values of {name} must be text")
    return value


def _init_start() -> int:
    text = _text("/proc/1/stat")
    return int(text[text.rindex(")") + 2 :].split()[19]) if ")" in text else 0


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
