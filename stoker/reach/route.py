"""The way to one host, complete: inventory over ssh_config over settings, jump hosts included."""

from __future__ import annotations

import functools
import os
import pwd
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from stoker.errors import InputError
from stoker.reach.sshargs import SshOptions
from stoker.reach.sshconfig import SshConfig, identity_agent
from stoker.reach.target import ReachSettings, Target, split_address

SSH_PORT = 22
SYSTEM_KNOWN_HOSTS = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
_MOST_HOPS = 8


@dataclass(frozen=True)
class Hop:
    """One SSH server on the way, the last one being the host itself.

    Args:
        address: Name or IP address to connect to.
        port: TCP port.
        user: Login name.
        key_name: The name its key is known under (``HostKeyAlias``); empty: address and port.
        identities: Private key files, tried in this order.
        identities_only: Whether no other keys (ssh-agent, defaults) are tried.
        strict: Whether a host key that was never seen is refused.
        known_hosts: Files of host keys; the first is written.
        hash_known_hosts: Whether names are written hashed.
        connect_timeout_s: Until TCP is connected.
        via: The jump host through which it is reached.
        proxy_command: Shell command whose streams are the connection, tokens expanded; empty for none.
        identity_agent: Socket of the ssh-agent; ``none`` for no agent; empty for the login's own.
        password: To log in with; tried behind the inventory's own key, in place of all others.
    """

    address: str
    port: int
    user: str
    key_name: str = ""
    identities: tuple[str, ...] = ()
    identities_only: bool = False
    strict: bool = False
    known_hosts: tuple[Path, ...] = ()
    hash_known_hosts: bool = False
    connect_timeout_s: float = 10.0
    via: Hop | None = None
    proxy_command: str = ""
    identity_agent: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.user}@{address}:{self.port}"


def chain(hop: Hop) -> list[Hop]:
    """A hop and the jump hosts before it."""
    return [hop, *(chain(hop.via) if hop.via else ())]


def resolve(target: Target, settings: ReachSettings, config: SshConfig) -> Hop:
    """The way to a host.

    Args:
        target: What the inventory says; it beats ssh_config.
        settings: Defaults.
        config: ssh_config.

    Raises:
        InputError: A jump host that is no address, a circle of jump hosts, a wrong value in ssh_config.
    """
    # A key that the inventory names is the key: offering others first ends in "too many failures".
    named = (target.key_file,) if target.key_file else ()
    said = SshOptions(user=target.user, port=target.port, identity_files=named).over(target.options)
    if named and said.identities_only is None:
        said = said.over(SshOptions(identities_only=True))
    return _Resolver(target, settings, config, said).hop(target.address, said, depth=0)


@dataclass(frozen=True)
class _Resolver:
    target: Target
    settings: ReachSettings
    config: SshConfig
    said: SshOptions

    def hop(self, name: str, said: SshOptions, depth: int, via: Hop | None = None) -> Hop:
        """One server and everything before it."""
        if depth > _MOST_HOPS:
            raise InputError("the jump hosts go round in a circle", where=self.target.name)
        found = self.config.lookup(name, said.user, said.port)
        named = said.host_name.replace("%h", name) or found.address
        address = split_address(named, f"HostName of {name}")[1]
        # Only the inventory's own key stands alone; those of ssh_config come beside.
        keys = said.identity_files if said.identities_only else None
        options = said.over(found.options)
        hashed = found.hash_known_hosts if said.hash_known_hosts is None else said.hash_known_hosts
        user, port = options.user or _login_name(), options.port or SSH_PORT
        jump = "" if via else _unless_none(options.proxy_jump)
        command = "" if via else _unless_none(options.proxy_command)
        return Hop(
            address=address,
            port=port,
            user=user,
            key_name=said.key_alias or found.alias,
            identities=tuple(_path(file) for file in (options.identity_files if keys is None else keys)),
            identities_only=bool(options.identities_only),
            strict=bool(options.strict) or self.settings.strict,
            known_hosts=self._known_hosts(options.known_hosts),
            hash_known_hosts=hashed,
            connect_timeout_s=options.connect_timeout_s or self.settings.connect_timeout_s,
            via=via or self._jumps(jump, (name, address), port, depth),
            proxy_command=_expanded(command, address, port, user, name),
            identity_agent=identity_agent(said.identity_agent or found.identity_agent),
            password="" if depth else self.target.password,
        )

    def _jumps(self, text: str, own_names: tuple[str, str], own_port: int, depth: int) -> Hop | None:
        """``first,second``: the first is connected to first, each one through the one before."""
        hop: Hop | None = None
        for part in text.split(",") if text else ():
            user, name, port = split_address(part.strip().removeprefix("ssh://"), self.target.name)
            if name in own_names and port in (None, own_port):
                return hop  # a wildcard in ssh_config that matches the jump host itself
            hop = self.hop(name, self._said_of_jump(user, port), depth + 1, hop)
        return hop

    def _said_of_jump(self, user: str, port: int | None) -> SshOptions:
        """The inventory's host-key policy holds on every hop; its key is offered beside the hop's own."""
        return SshOptions(
            user=user,
            port=port,
            identity_files=self.said.identity_files,
            strict=self.said.strict,
            known_hosts=self.said.known_hosts,
            connect_timeout_s=self.said.connect_timeout_s,
        )

    def _known_hosts(self, said: tuple[str, ...]) -> tuple[Path, ...]:
        """As the inventory says, else the setting, else ssh_config, else the user's file and the system's."""
        if self.settings.known_hosts and not self.said.known_hosts:
            return self.settings.known_hosts
        if [word.lower() for word in said] == ["none"]:
            return ()
        own = tuple(Path(_path(file)) for file in said) or (Path("~/.ssh/known_hosts").expanduser(),)
        return own + SYSTEM_KNOWN_HOSTS


def _unless_none(text: str) -> str:
    return "" if text.lower() == "none" else text


def _path(text: str) -> str:
    return str(Path(text).expanduser())


@functools.cache
def _login_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _expanded(command: str, address: str, port: int, user: str, name: str) -> str:
    """A ProxyCommand with its tokens in place, each of them quoted."""
    values = {"%%": "%", "%h": address, "%p": str(port), "%r": user, "%n": name}
    result, rest = "", command
    while rest:
        token = rest[:2]
        if token in values:
            result += values[token] if token == "%%" else shlex.quote(values[token])  # noqa: S105
            rest = rest[2:]
        else:
            result, rest = result + rest[0], rest[1:]
    return result
