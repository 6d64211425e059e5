"""What is wrong in settings, inventory and launch templates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker import engines
from stoker.config import settings as settings_file
from stoker.config.files import yamlfile
from stoker.config.inventories import inventory as inventories
from stoker.config.linting.lint import Finding, finding
from stoker.config.templating import script
from stoker.config.templating.template import BadTemplate
from stoker.errors import ConfigError, InputError, Problem, nearest
from stoker.fleet import servers
from stoker.fleet.project import Project
from stoker.fleet.session import target_of

if TYPE_CHECKING:
    from stoker.config.files.yamlfile import Document, Vault
    from stoker.config.inventories.inventory import Host, Inventory
    from stoker.config.profiles.profile import Examined
    from stoker.plan import LaunchPlan

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(: .*)?")
_ENDINGS = ("", ".yml", ".yaml", ".json")
_VARIABLES = ("group_vars", "host_vars")


class PaperProject(Project):
    """A project that is only read: no secret is asked for, and an inventory with mistakes is still one."""

    @cached_property
    def examined_inventory(self) -> tuple[Inventory, tuple[Problem, ...]]:
        """What could be read of the inventory, and every mistake in it."""
        path = self.inventory_path
        if not path.exists():
            hint = "write it, point --inventory at one, or lay a new project: stoker init DIR"
            problem = Problem(self.shown(path), 0, "there is no inventory", hint)
            return inventories.Inventory({}, {}, self.root), (problem,)
        playbooks = self.settings.path("playbooks")
        return inventories.examine([path], root=self.root, playbooks=playbooks, open_vault=self.open_vault)

    @cached_property
    def inventory(self) -> Inventory:
        """What could be read of the inventory."""
        return self.examined_inventory[0]

    def try_vault(self, vault: Vault, where: str) -> None:
        """Nobody is asked for a password here."""

    def plan(self, name: str, host: Host, *, secrets: bool = True) -> LaunchPlan:
        """A plan without its secrets, whatever is asked."""
        return super().plan(name, host, secrets=False)


def settings(project: Project) -> list[Finding]:
    """Every mistake in ``invoke.yaml``, as far as it is Stoker's."""
    path = project.root / "invoke.yaml"
    if not path.is_file():
        return []
    try:
        document = yamlfile.load(path, shown="invoke.yaml")
    except ConfigError as error:
        return [finding(problem, "settings-invalid") for problem in error.problems]
    written = document.data.get("stoker") if isinstance(document.data, dict) else None
    found = []
    for name, value in (written if isinstance(written, dict) else {}).items():
        try:
            settings_file.load(project.root, {str(name): value})
        except InputError as error:
            problem = document.problem(("stoker", name), error.what, error.next_step)
            found.append(finding(problem, "settings-invalid"))
    return found


def inventory(project: Project, patterns: Sequence[str]) -> tuple[tuple[Host, ...], list[Finding]]:
    """The hosts that are looked at, and every mistake in the inventory.

    Raises:
        InputError: A pattern that matches nothing.
    """
    problems: tuple[Problem, ...] = ()
    if isinstance(project, PaperProject):
        problems = project.examined_inventory[1]
    found = [finding(problem, "inventory-invalid") for problem in problems]
    all_hosts = tuple(project.inventory.hosts.values())
    hosts = project.hosts(patterns) if patterns else all_hosts
    found += _unknown_profiles(project, hosts)
    told = {f"{problem.file}:{problem.line}" for problem in problems}
    for host in (host for host in hosts if host.source not in told):
        try:
            target_of(host)
        except InputError as error:
            problem = told_at(host.source, error.what, error.next_step)
            found.append(finding(problem, "inventory-invalid"))
    return hosts, found


def _unknown_profiles(project: Project, hosts: Iterable[Host]) -> list[Finding]:
    """Names in ``stoker_profiles`` that no profile has, at the very places that say them."""
    known = set(project.library.names())
    wrong: dict[str, str] = {}
    for host in hosts:
        try:
            names = servers.desired(host)
        except InputError:
            continue  # told among the inventory's own mistakes
        wrong |= {n: host.source for n in names if n not in known and not n.startswith("run:")}
    if not wrong:
        return []
    told = {name: list(_mentions(project, name)) for name in wrong}
    found = []
    for name, source in wrong.items():
        hint = nearest(name, known)
        what, mend = f"unknown profile {name!r}", hint if hint.startswith("did you") else ""
        for problem in told[name] or [told_at(source, "")]:
            line = Problem(problem.file, problem.line, what, mend, problem.column)
            found.append(finding(line, "inventory-profile"))
    return found


def _mentions(project: Project, name: str) -> Iterator[Problem]:
    """Every place in the inventory where a profile is named."""
    for document in _documents(project):
        for path, value in _values(document.data, ()):
            if path[-1] == "stoker_profiles":
                items = value if isinstance(value, list) else [value]
                for index, item in enumerate(items):
                    if item == name:
                        yield document.problem((*path, index) if isinstance(value, list) else path, "")


def _documents(project: Project) -> list[Document]:
    """Every file of the inventory that can be read."""
    path = project.inventory_path
    beside = [path.parent / name for name in _VARIABLES] if path.is_file() else []
    files = [path] if path.is_file() else []
    for folder in beside or [path]:
        files += [p for p in sorted(folder.rglob("*")) if p.is_file() and p.suffix in _ENDINGS]
    found = []
    for file in files:
        try:
            found.append(yamlfile.load(file, shown=project.shown(file)))
        except ConfigError:
            continue  # told by whoever reads the inventory
    return found


def _values(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value below mappings, with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), item
            yield from _values(item, (*path, key))


def templates(project: Project, usable: Iterable[tuple[str, Host, Examined]]) -> list[Finding]:
    """What is wrong in the project's own launch templates."""
    folder = project.settings.path("profiles") / "templates"
    files = sorted(folder.glob("*.j2")) if folder.is_dir() else []
    found = []
    taken = {f"{name}.sh.j2" for name in (*project.library.names(), *engines.names(), "launch")}
    for file in files:
        try:
            script.check(file.name, [folder])
        except BadTemplate as error:
            found.append(_of_template(project, file, error))
        if file.name not in taken and not _is_part(file.name, files):
            hint = nearest(file.name, taken)
            mend = hint if hint.startswith("did you") else ""
            problem = Problem(project.shown(file), 0, "is the launch template of nothing", mend)
            found.append(finding(problem, "template-unused"))
    for name, host, _ in usable if files else ():
        try:
            project.plan(name, host, secrets=False)
        except BadTemplate as error:
            found.append(_of_template(project, folder, error))
    return found


def _is_part(name: str, files: Sequence[Path]) -> bool:
    """Whether another template includes, imports or extends this one."""
    return any(
        name in file.read_text(encoding="utf-8", errors="replace") for file in files if file.name != name
    )


def _of_template(project: Project, file: Path, error: BadTemplate) -> Finding:
    found = _PLACE.fullmatch(error.where)
    path = Path(found.group("file")) if found else file
    line = int(found.group("line")) if found else error.line
    return finding(Problem(project.shown(path), line, error.what, error.next_step), "template-invalid")


def told_at(where: str, what: str, mend: str = "") -> Problem:
    """A mistake where an error says it is: ``file:line``, with or without more behind."""
    found = _PLACE.fullmatch(where)
    return (
        Problem(found.group("file"), int(found.group("line")), what, mend)
        if found
        else Problem(where, 0, what, mend)
    )
