"""What was in force in a run, in short, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.results.records.record import Record

_OF_GPU = (
    ("pcie_gen", "PCIe gen {}"),
    ("pcie_width", "x{}"),
    ("power_limit_w", "{} W"),
    ("clock_sm_mhz", "{} MHz"),
)
_VERSIONS = ("engine", "torch", "cuda", "nccl", "driver", "kernel", "python")


def in_force(record: Record) -> list[tuple[str, str]]:
    """Name and text of each: tuning, what the engine set itself, arguments as typed, versions, GPUs.

    What is not known is left out, and said at the end.
    """
    found = record.fingerprint
    own = {name: value for name, value in found.env.items() if name not in found.engine_set}
    theirs = {name: value for name, value in found.env.items() if name in found.engine_set}
    source = "" if found.env_source == "memory" else f" (from {found.env_source}: not proven)"
    parts = [
        (f"tuning{source}", _pairs(own)),
        ("set by the engine", _pairs(theirs)),
        ("arguments", _arguments(record)),
        ("versions", ", ".join(f"{n} {found.versions[n]}" for n in _VERSIONS if found.versions.get(n))),
        ("GPUs", "; ".join(_gpus(found.gpus))),
        ("not read", "; ".join(found.unread)),
    ]
    return [(name, text) for name, text in parts if text]


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(values.items()))


def _arguments(record: Record) -> str:
    """What the profile says; of a server by hand its command line, which holds no key."""
    typed = record.subject.resolved.get("server")
    args = typed.get("args") if isinstance(typed, Mapping) else None
    if isinstance(args, Mapping) and args:
        return " ".join(_argument(str(name), value) for name, value in args.items())
    return " ".join(record.fingerprint.argv)


def _argument(name: str, value: Any) -> str:
    """One argument as typed; a secret by its name only."""
    spelled = "--" + name.lstrip("-")
    if value is True:
        return spelled
    if isinstance(value, Mapping) and "secret" in value:
        return f"{spelled} (secret {value['secret']})"
    if isinstance(value, list):
        return " ".join([spelled, *map(str, value)])
    return f"{spelled} {value}"


def _gpus(gpus: tuple[dict[str, Any], ...]) -> Iterator[str]:
    """GPUs that are alike together: ``8 × NVIDIA H200, PCIe gen 5, x16, 700.0 W``."""
    alike = Counter(
        ", ".join(
            [str(gpu.get("name") or "GPU"), *(t.format(gpu[n]) for n, t in _OF_GPU if gpu.get(n) is not None)]
        )
        for gpu in gpus
    )
    yield from (f"{number} × {text}" for text, number in alike.items())
