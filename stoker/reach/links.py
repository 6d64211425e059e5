"""SSH connections by Fabric, with our socket, transport, keys and host-key policy; jump hosts are shared."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import paramiko
from fabric import Connection
from fabric.config import Config

from stoker.reach.door import Unreachable, door
from stoker.reach.hostcert import parse
from stoker.reach.hostkeys import HostKey
from stoker.reach.keys import Keyring
from stoker.reach.known_hosts import KnownHosts
from stoker.reach.lean import LeanTransport
from stoker.reach.login import Login
from stoker.reach.route import Hop
from stoker.reach.sockets import Alarms, Guard, Proxy, dial, shut

_KEEPALIVE_S = 15
# Our guard comes first; these only keep paramiko's shorter limits out of the way.
_SLACK_S = 5.0
# From here to twice as long until the second try, when a server with MaxStartups dropped the first.
_RETRY_S = 0.3

# Without a handler, paramiko's log of every failed connection would land on the terminal.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _Connection(Connection):  # type: ignore[misc]  # Fabric ships no types
    """Fabric's connection with attributes of its own.

    Fabric's would look each one up among all its names and write it into the config as well, which then
    merges anew and is empty meanwhile for every other thread; it costs as much as the login.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Link:
    """A logged-in connection to one hop.

    Args:
        hop: What it leads to.
        connection: Fabric's.
        below: What carries it and ends with it: a socket, a channel through a jump host, or a ProxyCommand.
        release: Called once, at the end.
        alarms: What knows the time, for whoever waits on it.
    """

    def __init__(self, hop: Hop, connection: Connection, below: Any, release: Any, alarms: Alarms) -> None:
        self.hop = hop
        self.alarms = alarms
        self.transport: paramiko.Transport = connection.transport
        self._connection = connection
        self._below = below
        self._release = release

    @property
    def alive(self) -> bool:
        """Whether it still stands, as far as is known here."""
        return self.transport.is_active()

    def close(self) -> None:
        """End it, and its share of the jump host; a second time is harmless."""
        release, self._release = self._release, None
        if release is None:
            return
        _end(self._connection, self._below)
        release()


class _Shared:
    """A jump host's link while others use it too."""

    def __init__(self) -> None:
        self.link: Future[Link] = Future()
        self.users = 1


class Links:
    """Opens links; shared by all connections of a command.

    Args:
        known_hosts: Known host keys.
        keys: Private keys.
    """

    def __init__(self, known_hosts: KnownHosts, keys: Keyring) -> None:
        self._known_hosts = known_hosts
        self._keys = keys
        self._alarms = Alarms()
        # Nothing of Fabric's own files and variables: the project and ssh_config have said it all.
        self._config = Config(lazy=True, ssh_config=paramiko.SSHConfig())
        self._config._set(_keypath=())  # else each look finds out anew, by an exception, that it has none
        self._lock = threading.Lock()
        self._gateways: dict[Hop, _Shared] = {}

    def open(self, hop: Hop, login_timeout_s: float) -> Link:
        """Connect and log in.

        Args:
            hop: Where to.
            login_timeout_s: From TCP's connection to the login's end, on each hop.

        Raises:
            Unreachable: Whatever stood in the way, on this hop or one before.
        """
        gateway = self._lease(hop.via, login_timeout_s) if hop.via else None
        try:
            return self._try_twice(hop, gateway, login_timeout_s)
        except BaseException:
            self._give_back(gateway)
            raise

    @contextlib.contextmanager
    def carrier(self, hop: Hop, login_timeout_s: float) -> Iterator[Any]:
        """What would carry a connection to a hop, as a socket; the hop itself is not spoken to.

        Raises:
            Unreachable: As :meth:`open`.
        """
        gateway = self._lease(hop.via, login_timeout_s) if hop.via else None
        try:
            below = _below(hop, gateway)
            try:
                yield _socket(below)
            finally:
                shut(_socket(below))
                below.close()
        finally:
            self._give_back(gateway)

    def _try_twice(self, hop: Hop, gateway: Link | None, login_timeout_s: float) -> Link:
        try:
            return self._try(hop, gateway, login_timeout_s)
        except Unreachable as error:
            if not error.quick:
                raise
        time.sleep(random.uniform(_RETRY_S, 2 * _RETRY_S))  # noqa: S311 - jitter, no secret
        return self._try(hop, gateway, login_timeout_s)

    def _try(self, hop: Hop, gateway: Link | None, login_timeout_s: float) -> Link:
        below = _below(hop, gateway)
        connection = self._connection(hop, below, login_timeout_s + _SLACK_S)
        try:
            _log_in(hop, connection, below, Guard(self._alarms, login_timeout_s, _socket(below)))
        except BaseException:
            _end(connection, below)
            raise
        connection.transport.set_keepalive(_KEEPALIVE_S)
        return Link(hop, connection, below, lambda: self._give_back(gateway), self._alarms)

    def _connection(self, hop: Hop, below: Any, patience_s: float) -> Connection:
        """Fabric's connection, told everything: what is left out it would look up by itself."""
        # The kinds of host key that are known are asked for first.
        kinds, wants_certificate = self._known_hosts.kinds(hop), bool(self._known_hosts.authorities(hop))
        connection = _Connection(
            hop.address,
            user=hop.user,
            port=hop.port,
            config=self._config,
            gateway=False,
            forward_agent=False,
            connect_kwargs={
                "sock": _socket(below),
                "auth_strategy": Login(hop, self._keys),
                "transport_factory": lambda sock, **_: LeanTransport(sock, kinds, wants_certificate),
                "banner_timeout": patience_s,
                "auth_timeout": patience_s,
            },
        )
        connection.client.set_missing_host_key_policy(_Policy(hop, self._known_hosts))
        return connection

    def _lease(self, hop: Hop, login_timeout_s: float) -> Link:
        """A jump host's link: one connection for all hosts behind it, and one failure for all who wait."""
        with self._lock:
            shared = self._gateways.get(hop)
            if shared is not None and shared.link.done() and not shared.link.result().alive:
                shared = None
            mine = shared is None
            if shared is None:
                shared = self._gateways[hop] = _Shared()
            else:
                shared.users += 1
        if mine:
            try:
                shared.link.set_result(self.open(hop, login_timeout_s))
            except BaseException as error:
                with self._lock:
                    self._gateways.pop(hop, None)
                shared.link.set_exception(error)
                raise
        return shared.link.result()

    def _give_back(self, gateway: Link | None) -> None:
        """Close a jump host's link behind its last user."""
        if gateway is None:
            return
        with self._lock:
            shared = self._gateways.get(gateway.hop)
            if shared is not None and shared.link.done() and shared.link.result() is gateway:
                shared.users -= 1
                if shared.users:
                    return
                del self._gateways[gateway.hop]
        gateway.close()


class _Policy(paramiko.MissingHostKeyPolicy):
    """Every key comes here: paramiko's own store of known keys is left empty."""

    def __init__(self, hop: Hop, known_hosts: KnownHosts) -> None:
        self._hop = hop
        self._known_hosts = known_hosts

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Accept, record or refuse.

        Raises:
            Unreachable: Refused.
        """
        shown = getattr(key, "public_blob", None)
        certificate = parse(shown.key_blob) if shown is not None else None
        if certificate is not None:
            self._known_hosts.verify_certificate(self._hop, certificate)
        else:
            self._known_hosts.verify(self._hop, HostKey(key.get_name(), key.get_base64()))


def _below(hop: Hop, gateway: Link | None) -> Any:
    """What carries the connection."""
    if hop.proxy_command:
        return Proxy(hop.proxy_command)
    if gateway is None:
        return dial(hop)
    with door(f"{hop} through {gateway.hop}"):
        return gateway.transport.open_channel(
            "direct-tcpip", (hop.address, hop.port), ("", 0), timeout=hop.connect_timeout_s
        )


def _socket(below: Any) -> Any:
    return below.socket if isinstance(below, Proxy) else below


def _log_in(hop: Hop, connection: Connection, below: Any, guard: Guard) -> None:
    """Banner, key exchange, host key and login, within the time there is.

    Raises:
        Unreachable: Whatever stood in the way.
    """
    try:
        with guard, door(str(hop)):
            connection.open()
    except Unreachable as error:
        if guard.fired:
            raise _too_slow(hop, connection, guard.seconds) from error
        if isinstance(below, Proxy) and error.kind in ("lost", "banner"):
            words = below.last_words()
            raise Unreachable("banner", f"{hop}: its ProxyCommand ended", evidence=words) from error
        raise


def _too_slow(hop: Hop, connection: Connection, login_timeout_s: float) -> Unreachable:
    transport = connection.client.get_transport()
    if transport is None or not transport.remote_version:
        return Unreachable("banner", f"{hop}: connected, but no SSH banner within {login_timeout_s:g} s")
    return Unreachable(
        "timeout",
        f"{hop}: connected, but the login was not done within {login_timeout_s:g} s",
        next_step="look at the host's load, and at what its sshd waits for (DNS, PAM)",
    )


def _end(connection: Connection, below: Any) -> None:
    """Close a connection and what carries it. The socket first: paramiko's thread would else wait on it."""
    shut(_socket(below))
    connection.client.close()
    below.close()
