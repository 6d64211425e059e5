"""What the inventory files say, before it is worked out which host has which variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker.errors import Problem

Vars = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where something is written; ``line`` 0 where no file is meant."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def problem(self, what: str, hint: str = "") -> Problem:
        """A mistake here."""
        return Problem(self.file, self.line, what, hint, self.column)


@dataclass
class GroupDef:
    """A group, gathered from every place that mentions it.

    Args:
        place: The first mention.
        vars: Inline variables, the last mention of a name winning.
        hosts: Its own hosts in order.
        children: Its child groups in order, each with the place that says so.
        priority: ``ansible_group_priority``.
    """

    name: str
    place: Place
    vars: Vars = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, Place] = field(default_factory=dict)
    priority: int = 1


@dataclass
class HostDef:
    """A host, gathered from every place that mentions it.

    Args:
        place: The first mention.
        port: As in ``name:port`` at the first mention.
        vars: Inline variables, the last mention of a name winning.
        path: The inventory file of the first mention, absolute; empty where there is none.
    """

    name: str
    place: Place
    port: int | None = None
    vars: Vars = field(default_factory=dict)
    path: str = ""


@dataclass
class Definitions:
    """Everything that a set of inventory files defines, in order of first mention.

    ``all`` and ``ungrouped`` are always among the groups.
    """

    groups: dict[str, GroupDef] = field(default_factory=dict)
    hosts: dict[str, HostDef] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("all", "ungrouped"):
            self.groups[name] = GroupDef(name, Place("built in"))

    def group(self, name: str, place: Place) -> GroupDef:
        """The group of this name, made where it is new."""
        return self.groups.setdefault(name, GroupDef(name, place))

    def vars_of(self, host: str) -> Vars:
        """Where a host's inline variables go: as in Ansible to the group that is called so, where one is."""
        return self.groups[host].vars if host in self.groups else self.hosts[host].vars

    def host(self, name: str, place: Place, port: int | None, path: str) -> HostDef:
        """The host of this name, made where it is new; a port can be given only at the first mention."""
        known = self.hosts.get(name)
        if known is None:
            known = self.hosts[name] = HostDef(name, place, port, path=path)
            if port is not None:
                known.vars["ansible_port"] = port
        elif port is not None and port != known.port:
            # Ansible drops it without a word.
            what = f"the port {port} of {name} comes too late: it is defined at {known.place}"
            self.problems.append(place.problem(what, "give the port there, or as ansible_port"))
        return known
