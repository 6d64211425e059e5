"""Several servers that are meant for one host: whether they can run side by side."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.config.linting.lint import Finding, at, finding
from stoker.config.profiles.parts import Part
from stoker.config.profiles.profile import Profile
from stoker.config.profiles.sections import Server


@dataclass(frozen=True)
class Meant:
    """A profile that is meant for a host.

    Args:
        name: The profile's.
        tree: Where its values were written.
        profile: As resolved for the host.
    """

    name: str
    tree: Part
    profile: Profile


def clashes(meant: Sequence[Meant]) -> Iterator[Finding]:
    """What two of them both want; told at the later one."""
    for index, later in enumerate(meant):
        for earlier in meant[:index]:
            yield from _between(earlier, later)


def _between(earlier: Meant, later: Meant) -> Iterator[Finding]:
    one, other = earlier.profile.server, later.profile.server
    with_it = f"{later.name} and {earlier.name}"
    if one.name == other.name:
        problem = at(later.tree, ("server", "name"), f"{with_it} use the same slot, {one.name!r}")
        yield finding(problem, "slot-twice")
        return  # only one of them can be meant: the rest follows from that
    if one.port == other.port and _is_shared(one.bind, other.bind):
        problem = at(later.tree, ("server", "port"), f"{with_it} both listen on port {one.port}")
        yield finding(problem, "port-clash")
    shared = _shared_gpus(one, other)
    if shared:
        problem = at(later.tree, ("server", "gpus"), f"{with_it} both use {shared}")
        yield finding(problem, "gpu-clash")


def _is_shared(one: str, other: str) -> bool:
    """Whether listeners on two addresses meet."""
    a, b = ipaddress.ip_address(one), ipaddress.ip_address(other)
    if a.version == b.version:
        return a == b or a.is_unspecified or b.is_unspecified
    return (a.version == 6 and a.is_unspecified) or (b.version == 6 and b.is_unspecified)


def _shared_gpus(one: Server, other: Server) -> str:
    """The GPUs that both use, for people; empty where they share none, or none that is known."""
    if not one.gpus or not other.gpus:
        return ""
    if ("all",) in (one.gpus, other.gpus):
        return "GPUs: one of them uses all"
    same = [str(gpu) for gpu in other.gpus if gpu in one.gpus]
    return ("GPU " if len(same) == 1 else "GPUs ") + ", ".join(same) if same else ""
