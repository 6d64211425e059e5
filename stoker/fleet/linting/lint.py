"""The whole project, linted: every file, and every profile as resolved for the hosts it is meant for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stoker.config.linting import profile as lint_profile
from stoker.config.linting.arguments import Known
from stoker.config.linting.host import Meant, clashes
from stoker.config.linting.lint import Finding, finding, fold
from stoker.errors import ConfigError, InputError, Problem, StokerError, nearest
from stoker.fleet import servers
from stoker.fleet.linting import lint_books, lint_files

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host
    from stoker.config.profiles.profile import Examined
    from stoker.fleet.project import Project

# Of a host's runs, for one of the engine that is asked about.
_LATEST = 20
Ask = Callable[["Host", str], "Known | None"]
"""What the engine of a profile takes, as the one on the host told; None where that is not known."""


@dataclass(frozen=True)
class Scope:
    """What is looked at.

    Args:
        profiles: Only these; empty for all.
        patterns: Only hosts of these patterns; empty for all.
        ask: For the hosts' own engines.
    """

    profiles: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    ask: Ask | None = None

    @property
    def is_whole(self) -> bool:
        """Whether everything in the project is looked at, and not only some profiles."""
        return not self.profiles and not self.patterns


@dataclass(frozen=True)
class Report:
    """What was found.

    Args:
        findings: In the order of files and lines.
        checked: How many of what was looked at: ``profiles``, ``hosts``, ``playbooks``, ``baselines``.
    """

    findings: tuple[Finding, ...]
    checked: dict[str, int]


def lint(project: Project, scope: Scope) -> Report:
    """Everything that can be said about a project without touching a host.

    Raises:
        InputError: ``scope`` names a profile or a host that there is not.
    """
    hosts, found = lint_files.inventory(project, scope.patterns)
    names = names_of(project, scope)
    looked = _Profiles(project, scope, hosts)
    found += looked.all(names)
    checked = {"profiles": len(names), "hosts": len(hosts)}
    if scope.is_whole:
        found += lint_files.settings(project)
        found += lint_files.templates(project, looked.usable())
        checked["playbooks"], said = lint_books.playbooks(project)
        found += lint_books.unseen(said, found)
        checked["baselines"], said = lint_books.baselines(project)
        found += said
    return Report(fold(found), checked)


def names_of(project: Project, scope: Scope) -> tuple[str, ...]:
    """The profiles that are looked at.

    Raises:
        InputError: One of those that were named is not there.
    """
    known = project.library.names()
    for name in scope.profiles:
        if name not in known:
            hint = nearest(name, known)
            raise InputError(f"unknown profile {name!r}", where="--profile", next_step=hint)
    return tuple(dict.fromkeys(scope.profiles)) or known


@dataclass
class _Seen:
    """A profile as it is resolved for some hosts, all alike."""

    examined: Examined
    findings: tuple[Finding, ...]
    hosts: list[str] = field(default_factory=list)


class _Profiles:
    """Every profile on every host that it is meant for; alike ones are judged once.

    Args:
        project: The wiring.
        scope: What is looked at.
        hosts: Those that are.
    """

    def __init__(self, project: Project, scope: Scope, hosts: Sequence[Host]) -> None:
        self._project = project
        self._scope = scope
        self._hosts = hosts
        self._seen: dict[tuple[Any, ...], _Seen] = {}
        self._unreadable: dict[str, tuple[Finding, ...]] = {}
        self._measured: dict[str, list[str]] | None = None  # host to its runs, the latest first
        self._together: dict[tuple[int, ...], tuple[list[_Seen], list[str], list[str]]] = {}

    def all(self, names: Sequence[str]) -> list[Finding]:
        """Every finding about these profiles."""
        met = {name for host in self._hosts for name in self._on(host, names)}
        for name in names:
            # Named hosts and no profile: only what is meant for these is asked about.
            if name not in met and (self._scope.profiles or not self._scope.patterns):
                self._look(name, None)
        found = [one for said in self._unreadable.values() for one in said]
        for (name, *_), seen in self._seen.items():
            found += [replace(one, profiles=(str(name),), hosts=tuple(seen.hosts)) for one in seen.findings]
        return [*found, *self._clashes()]

    def usable(self) -> Iterator[tuple[str, Host, Examined]]:
        """Each profile as it is resolved for a host, alike ones once, where it is without mistakes."""
        hosts = {host.name: host for host in self._hosts}
        for (name, *_), seen in self._seen.items():
            if seen.hosts and seen.examined.profile is not None and not seen.examined.problems:
                yield str(name), hosts[seen.hosts[0]], seen.examined

    def _on(self, host: Host, names: Sequence[str]) -> list[str]:
        """Look at what is meant for a host; the names of it."""
        chosen = meant_for(host, self._scope, names)
        seen = [one for name in chosen if (one := self._look(name, host)) is not None]
        if len(seen) > 1 and not (self._scope.profiles and self._scope.patterns):
            key = tuple(map(id, seen))
            self._together.setdefault(key, (seen, chosen, []))[2].append(host.name)
        return chosen

    def _look(self, name: str, host: Host | None) -> _Seen | None:
        """Judge a profile on a host; None where it cannot be read at all."""
        if name in self._unreadable:
            return None
        try:
            examined = self._project.library.examine(name, host)
        except ConfigError as error:
            self._unreadable[name] = tuple(
                replace(finding(problem, "profile-invalid"), profiles=(name,)) for problem in error.problems
            )
            return None
        known = self._scope.ask(host, name) if self._scope.ask and host is not None else None
        versions = self._versions(host, str(examined.data.get("engine")))
        source = known and known.arguments.source
        key = (name, host is None, repr(examined.data), examined.problems, source, tuple(versions.items()))
        if key not in self._seen:
            said = [*lint_profile.check(examined, known, versions), *self._undefined(examined)]
            self._seen[key] = _Seen(examined, tuple(said))
        if host is not None:
            self._seen[key].hosts.append(host.name)
        return self._seen[key]

    def _versions(self, host: Host | None, engine: str) -> dict[str, str]:
        """What the engine ran with on a host when it was last measured there; nothing where it never was."""
        if host is None or not self._project.store.folder.is_dir():
            return {}
        if self._measured is None:
            self._measured = {}
            for row in self._project.store.list():
                if not row.simulated:
                    self._measured.setdefault(row.host, []).append(row.run_id)
        for run_id in self._measured.get(host.name, ())[:_LATEST]:
            with suppress(StokerError):
                record = self._project.store.load(run_id)
                if record.engine == engine:
                    found = dict(record.fingerprint.versions)
                    return {engine: record.engine_version, **found} if record.engine_version else found
        return {}

    def _undefined(self, examined: Examined) -> Iterator[Finding]:
        """Variables that a profile needs and no host has."""
        if not examined.undefined or not self._project.inventory.hosts:
            return
        defined = {name for host in self._project.inventory.hosts.values() for name in host.vars}
        for part, name in examined.undefined:
            if name not in defined:
                hint = nearest(name, defined)
                mend = hint if hint.startswith("did you") else ""
                problem = part.document.problem(part.at, f"no host defines {name!r}", mend)
                yield finding(problem, "profile-undefined")

    def _clashes(self) -> Iterator[Finding]:
        """What the servers of one host both want."""
        for seen, names, hosts in self._together.values():
            meant = [
                Meant(name, one.examined.tree, one.examined.profile)
                for name, one in zip(names, seen, strict=False)
                if one.examined.profile is not None
            ]
            for clash in clashes(meant):
                yield replace(clash, hosts=tuple(hosts))


def meant_for(host: Host, scope: Scope, names: Sequence[str]) -> list[str]:
    """Of these profiles, those that are looked at on a host.

    Args:
        host: The host.
        scope: Where it names hosts and profiles, these profiles are, whether they are meant for it or not.
        names: The profiles that are looked at at all.
    """
    wanted = tuple(names) if scope.profiles and scope.patterns else _desired(host)
    return [name for name in dict.fromkeys(wanted) if name in names]


def engines_of(project: Project, scope: Scope) -> Iterator[tuple[Host, dict[str, Examined]]]:
    """Each host with the profiles that are looked at there, as far as they can be read."""
    names = names_of(project, scope)
    for host in project.hosts(scope.patterns) if scope.patterns else project.inventory.hosts.values():
        found = {}
        for name in meant_for(host, scope, names):
            with suppress(ConfigError):
                found[name] = project.library.examine(name, host)
        yield host, found


def _desired(host: Host) -> tuple[str, ...]:
    """What should run on a host; nothing where that is a mistake, which the inventory has told."""
    try:
        return servers.desired(host)
    except InputError:
        return ()


def problems(findings: Sequence[Finding]) -> list[Problem]:
    """The errors among findings, as mistakes that end a command."""
    return [one.problem() for one in findings if one.severity == "error"]
