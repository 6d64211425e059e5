"""What a command said on many hosts, the same output once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.errors import HostError
from stoker.fleet.pool import HostResult


@dataclass(frozen=True)
class Group:
    """Hosts on which a command ended alike.

    Args:
        hosts: Their names, in order.
        rc: The exit code.
        stdout: What it wrote.
        stderr: What it complained of.
    """

    hosts: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str


def fold(results: Sequence[HostResult]) -> list[Group]:
    """The outputs of ``exec``, the most frequent first; hosts on which it did not end are left out."""
    found: dict[tuple[int, str, str], list[str]] = {}
    for result in results:
        data = result.data[0].data if result.data else {}
        if isinstance(result.error, HostError) and result.error.kind == "exit":
            data = result.error.detail
        if "rc" in data:
            key = (int(str(data["rc"])), str(data["stdout"]), str(data["stderr"]))
            found.setdefault(key, []).append(result.host)
    groups = [Group(tuple(hosts), *key) for key, hosts in found.items()]
    return sorted(groups, key=lambda group: -len(group.hosts))
