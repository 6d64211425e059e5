"""What all connections of one command share, and the ways to hosts through it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from stoker.reach.become import BecomeTransport
from stoker.reach.client import Agent
from stoker.reach.door import Unreachable
from stoker.reach.hostkeys import Entry
from stoker.reach.keys import Keyring
from stoker.reach.known_hosts import KnownHosts
from stoker.reach.links import Links
from stoker.reach.local import LocalTransport
from stoker.reach.login import locked
from stoker.reach.route import Hop, chain, resolve
from stoker.reach.ssh import SshTransport
from stoker.reach.sshconfig import SshConfig
from stoker.reach.target import ReachSettings, Target
from stoker.reach.transport import Transport

if TYPE_CHECKING:  # what shows keys is loaded where they are shown
    from stoker.reach.trust import Shown

_TRIES = 3  # as often as ssh asks for a passphrase


class Reach:
    """What all connections of one command share: settings, ssh_config, known hosts, keys, jump hosts.

    Args:
        settings: How hosts are reached.
        known_hosts: Known host keys; None: a fresh store.

    Raises:
        InputError: ssh_config cannot be read.
    """

    def __init__(self, settings: ReachSettings, known_hosts: KnownHosts | None = None) -> None:
        self.settings = settings
        self._configs = {"": SshConfig(settings.ssh_config)}
        self._known = known_hosts or KnownHosts()
        self._keys = Keyring()
        self._links = Links(self._known, self._keys)
        self._routes: dict[Target, Hop] = {}

    def route(self, target: Target) -> Hop:
        """The way to a host; nothing is connected.

        Raises:
            InputError: What the inventory or ssh_config says is wrong.
        """
        if target not in self._routes:
            self._routes[target] = resolve(target, self.settings, self._config(target.options.config))
        return self._routes[target]

    def _config(self, file: str) -> SshConfig:
        """The ssh_config that a host's options name (``-F``), or that of the settings."""
        if file not in self._configs:
            self._configs[file] = SshConfig(file)
        return self._configs[file]

    def unlock(self, targets: Iterable[Target], ask: Callable[[str], str]) -> None:
        """Open the private keys that want a passphrase, each asked for once, before anybody is connected to.

        Args:
            targets: The hosts that will be.
            ask: Gets a key's path, and returns what was typed; not called from another thread.

        Raises:
            InputError: As :meth:`route`.
        """
        hops = [hop for one in targets if one.connection == "ssh" for hop in chain(self.route(one))]
        for identity in locked(hops, self._keys):
            for _ in range(_TRIES):
                phrase = ask(identity.path)
                if not phrase or self._keys.unlock(identity.path, phrase):
                    break

    def transport(self, target: Target) -> Transport:
        """Connect and log in.

        Raises:
            HostUnreachable: Whatever stood in the way.
            InputError: As :meth:`route`.
        """
        transport = LocalTransport() if target.connection == "local" else self._ssh(target)
        return BecomeTransport(target.name, transport, target.become) if target.become else transport

    def _ssh(self, target: Target) -> Transport:
        hop = self.route(target)
        try:
            return SshTransport(self._links.open(hop, self.settings.login_timeout_s))
        except Unreachable as error:
            raise error.at(target.name) from error

    def shown(self, target: Target) -> Shown:
        """The keys that a host shows, beside those that are known; nobody logs in to it.

        Raises:
            HostUnreachable: Whatever stood in the way; a revoked key.
            InputError: As :meth:`route`.
        """
        from stoker.reach.trust import ask

        try:
            return ask(self.route(target), self._links, self._known, self.settings.login_timeout_s)
        except Unreachable as error:
            raise error.at(target.name) from error

    def trust(self, host: str, shown: Shown) -> list[Entry]:
        """Record what a host showed; the lines with other keys of it that stay elsewhere.

        Raises:
            HostUnreachable: It cannot be recorded.
        """
        try:
            return self._known.trust(shown.hop, shown.keys)
        except Unreachable as error:
            raise error.at(host) from error

    def connect(self, target: Target, stop: threading.Event | None = None) -> Agent:
        """Connect, log in and start the agent.

        Args:
            target: The host.
            stop: Set to end whatever the agent is asked to do (Ctrl-C in a fan-out).

        Raises:
            HostUnreachable: Not reached.
            HostFailed: Reached, and no agent could be started (``no-python``, ``no-shell``, ``timeout``,
                ``become-denied``).
            InputError: As :meth:`route`.
        """
        transport = self.transport(target)
        try:
            return Agent(target, transport, self.settings, stop)
        except BaseException:
            transport.close()
            raise
