"""The graph of groups: what contains what, how deep, and which hosts are where."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stoker.config.inventories.model import Definitions
from stoker.errors import Problem


@dataclass(frozen=True)
class Graph:
    """How the groups of an inventory lie.

    Args:
        depth: Of each group: the longest way from ``all``, which has 0.
        children: Each group's child groups in order.
        own: Each group's own hosts in order.
        members: Each group's hosts in order, own ones first, then those of its children, level by level.
        memberships: Each host's groups without ``all``, in the order in which their variables apply.
    """

    depth: Mapping[str, int]
    children: Mapping[str, tuple[str, ...]]
    own: Mapping[str, tuple[str, ...]]
    members: Mapping[str, tuple[str, ...]]
    memberships: Mapping[str, tuple[str, ...]]


def arrange(definitions: Definitions) -> Graph:
    """Work out the graph.

    Args:
        definitions: A group that contains itself is added to its problems, and its graph is then of no use.
    """
    children = _children(definitions)
    depth, looped = _depths(children)
    definitions.problems.extend(_loops(definitions, children, looped))
    own = _own_hosts(definitions)
    members = {name: _members(name, children, own) for name in children}
    groups = definitions.groups
    definitions.problems.extend(_namesakes(definitions, members))
    order = sorted(groups, key=lambda name: (depth.get(name, 0), groups[name].priority, name))
    memberships: dict[str, list[str]] = {host: [] for host in definitions.hosts}
    for group in order:
        if group != "all":
            for host in members[group]:
                memberships[host].append(group)
    return Graph(depth, children, own, members, {host: tuple(found) for host, found in memberships.items()})


def _namesakes(definitions: Definitions, members: Mapping[str, tuple[str, ...]]) -> Iterable[Problem]:
    """A problem for each host that is called as a group which is more, or less, than this host alone."""
    for name in definitions.hosts.keys() & definitions.groups.keys():
        if members[name] != (name,):
            what = f"a host and a group of others are called {name}"
            hint = "rename one: Ansible takes the variables of the host for those of the group"
            yield definitions.groups[name].place.problem(what, hint)


def _children(definitions: Definitions) -> dict[str, tuple[str, ...]]:
    """Child groups, with ``all`` above every group that nothing else contains."""
    groups = definitions.groups
    contained = {child for group in groups.values() for child in group.children}
    orphans = [name for name in groups if name != "all" and name not in contained]
    children = {name: tuple(group.children) for name, group in groups.items()}
    children["all"] = tuple(dict.fromkeys(("ungrouped", *children["all"], *orphans)))
    return children


def _own_hosts(definitions: Definitions) -> dict[str, tuple[str, ...]]:
    """Each group's own hosts; ``ungrouped`` has exactly those that are in no other group but ``all``."""
    groups = definitions.groups
    grouped = {
        host for name, group in groups.items() if name not in ("all", "ungrouped") for host in group.hosts
    }
    own = {name: tuple(group.hosts) for name, group in groups.items()}
    own["ungrouped"] = tuple(
        host
        for host in dict.fromkeys((*groups["ungrouped"].hosts, *definitions.hosts))
        if host not in grouped
    )
    return own


def _depths(children: Mapping[str, tuple[str, ...]]) -> tuple[dict[str, int], set[str]]:
    """(the longest way from ``all`` to each group, the groups in or below a loop)."""
    open_parents = dict.fromkeys(children, 0)
    for below in children.values():
        for child in below:
            open_parents[child] += 1
    depth = dict.fromkeys(children, 0)
    ready = deque(name for name, count in open_parents.items() if count == 0)
    while ready:
        name = ready.popleft()
        for child in children[name]:
            depth[child] = max(depth[child], depth[name] + 1)
            open_parents[child] -= 1
            if open_parents[child] == 0:
                ready.append(child)
    return depth, {name for name, count in open_parents.items() if count > 0}


def _loops(
    definitions: Definitions, children: Mapping[str, tuple[str, ...]], looped: set[str]
) -> Iterable[Problem]:
    """One problem for each loop: from every looped group upwards until a group comes again."""
    parent = {child: name for name in looped for child in children[name] if child in looped}
    seen: set[str] = set()
    order = {name: number for number, name in enumerate(children)}
    for start in sorted(looped, key=order.__getitem__):
        way: dict[str, None] = {}
        name = start
        while name not in way and name not in seen:
            way[name] = None
            name = parent[name]
        seen.update(way)
        if name in way:
            loop = list(way)[list(way).index(name) :][::-1]
            first = loop.index(min(loop, key=order.__getitem__))
            loop = loop[first:] + loop[:first]
            place = definitions.groups[loop[-1]].children[loop[0]]
            yield place.problem(f"group {loop[0]} contains itself: {' > '.join([*loop, loop[0]])}")


def _members(
    name: str, children: Mapping[str, tuple[str, ...]], own: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    hosts: dict[str, None] = {}
    seen = {name}
    level = [name]
    while level:
        below: list[str] = []
        for group in level:
            hosts.update(dict.fromkeys(own[group]))
            fresh = [child for child in children[group] if child not in seen]
            seen.update(fresh)
            below.extend(fresh)
        level = below
    return tuple(hosts)
