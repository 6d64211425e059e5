"""What was in force when something was measured, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from stoker.results.records.shape import Shape


@dataclass(frozen=True)
class Fingerprint:
    """What was in force on the host; what could not be read is in ``unread``, and is not the same as absent.

    Args:
        env: Live environment of the workers: tuning variables by value.
        env_hashed: Every other variable by salted hash.
        salt_id: Which salt; hashes under different salts cannot be compared. Empty where nothing was hashed.
        env_source: ``memory`` (live), ``exec`` (as it was at exec: what the program set later is not in it),
            or ``unreadable``.
        env_differs: Variables on which the workers disagree: name to ``{pid: value or hash, null: unset}``.
        engine_set: Names in ``env`` that the engine sets by itself.
        args: Arguments as the server reports them.
        argv: The launcher's command line.
        versions: ``engine python torch cuda nccl driver kernel`` where known.
        host: ``{hostname, boot_id, init_start, pid_ns, simulated, cpus, load1}``.
        process: Limits of the workers: ``{cpus_allowed, nice, cpu_max, memlock}``.
        gpus: One mapping a GPU, under load.
        strangers: Other processes on those GPUs.
        conf_files: Path to sha256 of files that tune NCCL.
        unread: What could not be read, and why.
    """

    env: dict[str, str] = field(default_factory=dict)
    env_hashed: dict[str, str] = field(default_factory=dict)
    salt_id: str = ""
    env_source: str = "unreadable"
    env_differs: dict[str, dict[str, str | None]] = field(default_factory=dict)
    engine_set: tuple[str, ...] = ()
    args: dict[str, Any] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=dict)
    process: dict[str, Any] = field(default_factory=dict)
    gpus: tuple[dict[str, Any], ...] = ()
    strangers: tuple[dict[str, Any], ...] = ()
    conf_files: dict[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self)


def read(shape: Shape) -> Fingerprint:
    """A fingerprint out of a record or an agent's answer.

    Raises:
        InputError: A field of another kind.
    """
    shape.shape("host").check(_HOST)
    differs = shape.shape("env_differs")
    for name in shape.mapping("env_differs"):
        values = differs.shape(name)
        values.check(dict.fromkeys(differs.mapping(name), "text"))
    return Fingerprint(
        env=shape.texts_by_name("env"),
        env_hashed=shape.texts_by_name("env_hashed"),
        salt_id=shape.text("salt_id", ""),
        env_source=shape.text("env_source", "unreadable"),
        env_differs=shape.mapping("env_differs"),
        engine_set=shape.texts("engine_set"),
        args=shape.mapping("args"),
        argv=shape.texts("argv"),
        versions=shape.texts_by_name("versions"),
        host=shape.mapping("host"),
        process=shape.mapping("process"),
        gpus=_objects(shape, "gpus", _GPU),
        strangers=_objects(shape, "strangers", _STRANGER),
        conf_files=shape.texts_by_name("conf_files"),
        unread=shape.texts("unread"),
    )


def _objects(shape: Shape, name: str, kinds: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    for item in shape.shapes(name):
        item.check(kinds)
    return tuple(shape.items(name))


# What is computed with; the rest is only compared and shown.
_HOST: Mapping[str, str] = MappingProxyType(
    {"boot_id": "text", "pid_ns": "text", "hostname": "text", "init_start": "number"}
    | {"cpus": "number", "load1": "number"}
)
_GPU: Mapping[str, str] = MappingProxyType(
    {"index": "whole", "name": "text", "uuid": "text", "throttle": "mapping", "pcie_gen": "number"}
    | {"pcie_width": "number", "power_limit_w": "number", "clock_sm_mhz": "number", "clock_mem_mhz": "number"}
    | {"temperature_c": "number"}
)
_STRANGER: Mapping[str, str] = MappingProxyType(
    {"pid": "whole", "title": "text", "user": "text", "cmdline": "text", "gpus": "items"}
)
