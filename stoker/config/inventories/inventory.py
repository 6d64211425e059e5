"""The inventory: which hosts there are, in which groups, with which variables, as Ansible has it.

Variables apply in Ansible's order, low to high: inline ``all``, inline groups, ``group_vars/all``, other
``group_vars``, inline host, ``host_vars``. Groups go by depth, ``ansible_group_priority`` and name, the last
one winning; a mapping replaces another whole. Values may hold Jinja2 templates, which are kept as they stand.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.config.inventories import names as inventory_names
from stoker.config.inventories import patterns as host_patterns
from stoker.config.inventories import read as inventory_read
from stoker.config.inventories.files import VarsFiles
from stoker.config.inventories.groups import Graph, arrange
from stoker.config.inventories.model import Definitions, HostDef, Place, Vars
from stoker.config.inventories.vars import Holder
from stoker.config.secrecy import vault
from stoker.errors import ConfigError, InputError, Problem


@dataclass(frozen=True)
class Host:
    """One host.

    Args:
        name: ``inventory_hostname``.
        vars: Every variable in force, with ``inventory_hostname``, ``inventory_hostname_short``,
            ``inventory_file``, ``inventory_dir``, ``group_names`` and ``groups``. Values of groups are shared
            between hosts: do not change them.
        groups: Its groups without ``all``, those whose variables win last.
        source: ``file:line`` where it is first defined.
    """

    name: str
    vars: Mapping[str, Any] = field(repr=False)  # passwords may be among them
    groups: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Group:
    """One group.

    Args:
        name: Its name.
        vars: Its inline variables.
        hosts: Names of its own hosts.
        children: Names of its child groups.
        members: Names of all its hosts, its own and then its children's, level by level.
        depth: The longest way from ``all``, which has 0.
        priority: ``ansible_group_priority``.
        source: ``file:line`` where it is first mentioned.
    """

    name: str
    vars: Mapping[str, Any] = field(repr=False)
    hosts: tuple[str, ...]
    children: tuple[str, ...]
    members: tuple[str, ...]
    depth: int
    priority: int
    source: str


@dataclass(frozen=True)
class Inventory:
    """Hosts and groups by name, in order of definition; the groups ``all`` and ``ungrouped`` always exist.

    Args:
        root: Where a pattern's ``@file`` starts.
    """

    hosts: Mapping[str, Host]
    groups: Mapping[str, Group]
    root: Path = Path()

    def select(self, patterns: Sequence[str]) -> tuple[Host, ...]:
        """The hosts that patterns mean, each once, in the order in which they are mentioned.

        Args:
            patterns: Ansible's, one for each ``--host``. Together they are one choice: a ``!`` or ``&`` in
                one of them holds for all. See ``stoker.config.inventories.patterns``.

        Raises:
            InputError: A term that matches nothing, with the nearest names; a broken pattern; no host left.
        """
        members = {name: group.members for name, group in self.groups.items()}
        names = host_patterns.select(patterns, self.hosts, members, root=self.root)
        return tuple(self.hosts[name] for name in names)


def load(
    paths: Sequence[Path],
    *,
    root: Path,
    playbooks: Path | None = None,
    open_vault: vault.Open | None = None,
) -> Inventory:
    """Read inventories and the variable files beside them.

    Args:
        paths: Files, or folders of files; later ones add to earlier ones. Relative ones start at ``root``.
        root: The project's folder; paths are shown relative to it.
        playbooks: The playbooks' folder; its group_vars/ and host_vars/ win over those of inventories.

        open_vault: Opens files of variables that Ansible Vault encrypted; None: they are refused.

    Raises:
        ConfigError: With every mistake of every file.
    """
    inventory, problems = examine(paths, root=root, playbooks=playbooks, open_vault=open_vault)
    if problems:
        raise ConfigError(problems)
    return inventory


def examine(
    paths: Sequence[Path],
    *,
    root: Path,
    playbooks: Path | None = None,
    open_vault: vault.Open | None = None,
) -> tuple[Inventory, tuple[Problem, ...]]:
    """The same with what is wrong beside what could be read.

    Returns:
        The inventory, of use only for saying more where there are mistakes; and every mistake of every file.
    """
    definitions = Definitions()
    sources = [root / path for path in paths]
    for source in sources:
        inventory_read.read(source, root, definitions)
    folders = dict.fromkeys(
        source if inventory_read.is_folder(source) else source.parent for source in sources
    )
    if playbooks is not None:
        folders.pop(root / playbooks, None)  # read once, and last
        folders[root / playbooks] = None
    inventory = _build(definitions, list(folders), root, open_vault)
    return inventory, tuple(definitions.problems)


def is_adhoc(text: str) -> bool:
    """Whether a ``--host`` value is a list of hosts of its own, by its trailing comma, and no pattern."""
    return text.rstrip().endswith(",")


def adhoc(text: str) -> Inventory:
    """An inventory of hosts named on the command line.

    Args:
        text: ``[user@]host[:port]``, ranges allowed, separated by commas; a trailing comma does no harm. The
            hosts' names are without user and port.

    Raises:
        InputError: No name, a broken one, or one host twice with different users or ports.
    """
    definitions = Definitions()
    for part in (part.strip() for part in text.split(",")):
        if part:
            _add_adhoc(part, definitions)
    if not definitions.hosts:
        raise InputError("no host is named", where=text, next_step="e.g. root@10.1.230.174,")
    inventory = _build(definitions, [], Path())
    if definitions.problems:
        raise ConfigError(definitions.problems)
    return inventory


def _add_adhoc(part: str, definitions: Definitions) -> None:
    user, at, rest = part.rpartition("@")
    if at and (not user or user.startswith("-") or any(character.isspace() for character in user)):
        raise InputError(f"{part!r} names no user before the @", next_step="e.g. root@10.1.230.174,")
    names, port = inventory_names.expand_host(rest)
    for name in names:
        variables: Vars = {"ansible_host": name}
        variables |= {"ansible_user": user} if at else {}
        variables |= {"ansible_port": port} if port is not None else {}
        host = definitions.hosts.setdefault(name, HostDef(name, Place("command line"), port, variables))
        if host.vars != variables:
            raise InputError(f"{name} is named twice, and differently", where=part)


def _build(
    definitions: Definitions, folders: Sequence[Path], root: Path, open_vault: vault.Open | None = None
) -> Inventory:
    """Work out groups and variables.

    Args:
        definitions: What the files say.
        folders: Where group_vars/ and host_vars/ are looked for, later ones winning.
        root: Paths are shown relative to it.
        open_vault: As for ``load``.

    Returns:
        What could be made of them; the mistakes of the variable files are added to those of the definitions.
    """
    graph = arrange(definitions)
    noted = definitions.problems
    group_files = [VarsFiles(at / "group_vars", root, Holder.GROUP_FILE, noted, open_vault) for at in folders]
    host_files = [VarsFiles(at / "host_vars", root, Holder.HOST, noted, open_vault) for at in folders]
    inherited = _Inherited(
        definitions, [{name: at.of(name) for name in graph.children} for at in group_files]
    )
    magic_groups = {name: list(members) for name, members in graph.members.items()}
    hosts = {}
    for name, definition in definitions.hosts.items():
        groups = graph.memberships[name]
        variables = inherited.by(groups) | definition.vars
        for files in host_files:
            variables.update(files.of(name))
        variables.update(_magic(definition, groups), groups=magic_groups)
        hosts[name] = Host(name, variables, groups, str(definition.place))
    return Inventory(hosts, _groups(definitions, graph), root)


def _groups(definitions: Definitions, graph: Graph) -> dict[str, Group]:
    return {
        name: Group(
            name,
            group.vars,
            graph.own[name],
            graph.children[name],
            graph.members[name],
            graph.depth[name],
            group.priority,
            str(group.place),
        )
        for name, group in definitions.groups.items()
    }


@dataclass
class _Inherited:
    """What hosts have from their groups; hosts of the same groups have the same.

    Args:
        files: For each folder, every group's variables from ``group_vars``.
    """

    definitions: Definitions
    files: Sequence[Mapping[str, Vars]]
    _known: dict[tuple[str, ...], Vars] = field(default_factory=dict)

    def by(self, groups: tuple[str, ...]) -> Vars:
        """The variables of ``all`` and these groups."""
        if groups not in self._known:
            self._known[groups] = self._merge(groups)
        return self._known[groups]

    def _merge(self, groups: tuple[str, ...]) -> Vars:
        inline = self.definitions.groups
        variables = dict(inline["all"].vars)
        for name in groups:
            variables.update(inline[name].vars)
        for folder in self.files:
            variables.update(folder["all"])
        for folder in self.files:
            for name in groups:
                variables.update(folder[name])
        return variables


def _magic(host: HostDef, groups: tuple[str, ...]) -> Vars:
    """What every host has of itself."""
    short = host.name if inventory_names.is_address(host.name) else host.name.split(".")[0]
    return {
        "inventory_hostname": host.name,
        "inventory_hostname_short": short,
        "inventory_file": host.path or None,
        "inventory_dir": os.path.dirname(host.path) or None,  # noqa: PTH120  (10,000 Paths are slow)
        "group_names": sorted(groups),
    }
