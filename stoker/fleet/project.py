"""The wiring of one command: settings → inventory, profiles, results; each loaded once, when it is needed."""

from __future__ import annotations

import getpass
import hashlib
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.config.settings import Settings
from stoker.errors import InputError
from stoker.fleet.hostdata import reading

if TYPE_CHECKING:  # a command that launches nothing need not load what reads and plans profiles
    from stoker.config.files.yamltree import Vault
    from stoker.config.inventories.inventory import Host, Inventory
    from stoker.config.linting.lint import Finding
    from stoker.config.profiles.profile import Library, Profile
    from stoker.config.secrecy.secrets import Secrets
    from stoker.fleet.gate import Gate
    from stoker.plan import LaunchPlan
    from stoker.results.baselines.baseline import Baselines
    from stoker.results.records.store import Store


class Project:
    """A project's folder with everything in it.

    Args:
        settings: Typed settings.
        environ: The controller's environment, for secrets.
        inventory: ``--inventory`` as typed; empty for the setting.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str], *, inventory: str = "") -> None:
        self.settings = settings
        self.environ = environ
        self._inventory = inventory

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.settings.root

    @property
    def inventory_path(self) -> Path:
        """The file or folder of the inventory."""
        return self.root / self._inventory if self._inventory else self.settings.path("inventory")

    @cached_property
    def inventory(self) -> Inventory:
        """The inventory; ConfigError with every mistake in it."""
        path = self.inventory_path
        if not path.exists():
            hint = "write it, point --inventory at one, or lay a new project: stoker init DIR"
            if self._inventory.endswith(","):  # as Ansible's -i takes it
                hint = f"hosts that stand in no file go to --host: --host {self._inventory}"
            raise InputError("there is no inventory", where=self.shown(path), next_step=hint)
        from stoker.config.inventories import inventory as inventories

        playbooks = self.settings.path("playbooks")
        return inventories.load([path], root=self.root, playbooks=playbooks, open_vault=self.open_vault)

    def open_vault(self, vault: Vault, where: str) -> str:
        """What stands in a vault; see ``Secrets.opened``."""
        return self.secrets.opened(vault, where=where)

    def try_vault(self, vault: Vault, where: str) -> None:
        """See that a vault can be opened; InputError where it cannot."""
        self.open_vault(vault, where)

    @cached_property
    def gate(self) -> Gate:
        """What lints the profiles that are about to be used."""
        from stoker.fleet.gate import Gate

        return Gate(self.library.examine)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What the linter has to say about the profiles that were let through so far."""
        return self.gate.warnings if "gate" in vars(self) else ()  # most commands need no linter

    @cached_property
    def library(self) -> Library:
        """The tuning profiles."""
        from stoker.config.profiles.profile import Library

        return Library(self.settings.path("profiles"), self.root)

    @cached_property
    def store(self) -> Store:
        """The records that came back."""
        from stoker.results.records.store import Store

        return Store(self.settings.path("results"))

    @cached_property
    def baselines(self) -> Baselines:
        """The accepted results."""
        from stoker.results.baselines.baseline import Baselines

        return Baselines(self.settings.path("baselines"))

    @cached_property
    def secrets(self) -> Secrets:
        """Where ``!secret NAME`` is looked up."""
        from stoker.config.secrecy.secrets import Secrets

        sources = dict(self.settings.secrets)
        named = self.settings.vault_password_file or self.environ.get("ANSIBLE_VAULT_PASSWORD_FILE", "")
        if named:
            from stoker.config.secrecy import vault

            sources.setdefault(vault.PASSWORD, vault.source(named, self.root))
        return Secrets(self.environ, self.settings.secret_command or None, sources=sources)

    @cached_property
    def owner(self) -> str:
        """Who we are, for the lock's message: ``user@controller``."""
        return f"{getpass.getuser()}@{socket.gethostname()}"

    @cached_property
    def engines(self) -> list[dict[str, Any]]:
        """Every engine as data, so that a host can recognise servers that somebody started by hand."""
        from stoker import engines

        return [engine.to_wire() for engine in engines.all_engines()]

    @cached_property
    def salt(self) -> tuple[str, str]:
        """The project's salt for hashed environment values, and its id.

        Made at the first use in ``.stoker/salt`` (0600), which git ignores: hashes under one salt can be
        compared, and nobody without the salt can guess values from a record.
        """
        path = self.root / ".stoker" / "salt"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            temporary = path.with_name(f"salt.{os.getpid()}")
            temporary.touch(mode=0o600)
            temporary.write_text(secrets.token_hex(16))
            try:
                os.link(temporary, path)  # unlike a rename it never replaces the salt of a command beside us
            except FileExistsError:
                pass
            finally:
                temporary.unlink()
        salt = path.read_text().strip()
        return salt, hashlib.sha256(salt.encode()).hexdigest()[:8]

    def hosts(self, patterns: Sequence[str]) -> tuple[Host, ...]:
        """The hosts that ``--host`` names.

        Args:
            patterns: Ansible patterns; one with a trailing comma is an ad-hoc list; none is every host.

        Raises:
            InputError: Nothing matches a term, or the inventory is wrong.
        """
        from stoker.config.inventories import inventory as inventories

        adhoc = [p for p in patterns if inventories.is_adhoc(p)]
        named = [p for p in patterns if p not in adhoc]
        found: dict[str, Host] = {}
        if named or not patterns:
            found.update((host.name, host) for host in self.inventory.select(named or ["all"]))
        for text in adhoc:
            found.update(inventories.adhoc(text).hosts)
        if not found:
            raise InputError("the inventory has no host", where=self.shown(self.settings.path("inventory")))
        return tuple(found.values())

    def inventory_of(self, patterns: Sequence[str]) -> Inventory:
        """The inventory that ``--host`` chooses from: its own where only ad-hoc lists are named."""
        from stoker.config.inventories import inventory as inventories

        adhoc = [pattern for pattern in patterns if inventories.is_adhoc(pattern)]
        if not adhoc or len(adhoc) < len(patterns):
            return self.inventory
        return inventories.adhoc(",".join(adhoc))

    def profile(self, name: str, host: Host) -> Profile:
        """A profile as resolved for a host; ``run:RUN-ID`` is what that run had.

        Raises:
            InputError: Unknown, or wrong.
        """
        from stoker.config.profiles.profile import Profile

        if name.startswith("run:"):
            return Profile.from_plain(dict(self.store.load(name.removeprefix("run:")).resolved))
        return self.library.resolve(name, host)

    def plan(self, name: str, host: Host, *, secrets: bool = True) -> LaunchPlan:
        """The complete plan of a profile on a host.

        Args:
            name: The profile.
            host: The host.
            secrets: Look its secrets up too; looking at a server needs none, and a colleague may have none.
        """
        return self._build(name, host, self.profile(name, host), secrets)

    def plan_again(self, launch: Mapping[str, Any], host: Host, *, secrets: bool = True) -> LaunchPlan:
        """The plan of a launch as the host recorded it, whatever the project's files say today.

        Args:
            launch: As the host recorded it.
            host: The host.
            secrets: Look its secrets up too.

        Raises:
            HostFailed: ``bad-result``: the record holds no usable profile.
            InputError: There is no such secret, or a launch template is wrong.
        """
        from stoker.config.profiles.profile import Profile

        with reading(host.name, "the launch that it recorded"):
            profile = Profile.from_plain(dict(launch.get("resolved") or {}))
        return self._build(str(launch.get("profile") or ""), host, profile, secrets)

    def _build(self, name: str, host: Host, profile: Profile, secrets: bool) -> LaunchPlan:
        from stoker.plan import build

        templates = [self.settings.path("profiles") / "templates"]
        source = self.secrets if secrets else None
        return build(host, name, profile, secrets=source, templates=templates)

    def shown(self, path: Path) -> str:
        """A path as the user would type it in the project's folder."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)
