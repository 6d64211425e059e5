"""SSH connections by paramiko: our socket, algorithms, keys and host-key policy; jump hosts are shared."""

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


class Link:
    """A logged-in connection to one hop.

    Args:
        hop: What it leads to.
        transport: paramiko's.
        below: What carries it and ends with it: a socket, a channel through a jump host, or a ProxyCommand.
        release: Called once, at the end.
        alarms: What knows the time, for whoever waits on it.
    """

    def __init__(self, hop: Hop, transport: LeanTransport, below: Any, release: Any, alarms: Alarms) -> None:
        self.hop = hop
        self.alarms = alarms
        self.transport = transport
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
        _end(self.transport, self._below)
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
        transport = self._transport(hop, below, login_timeout_s + _SLACK_S)
        try:
            self._log_in(hop, transport, below, Guard(self._alarms, login_timeout_s, _socket(below)))
        except BaseException:
            _end(transport, below)
            raise
        transport.set_keepalive(_KEEPALIVE_S)
        return Link(hop, transport, below, lambda: self._give_back(gateway), self._alarms)

    def _transport(self, hop: Hop, below: Any, patience_s: float) -> LeanTransport:
        """paramiko's transport, which asks for the kinds of host key that are known first."""
        known = self._known_hosts.kinds(hop)
        transport = LeanTransport(_socket(below), known, bool(self._known_hosts.authorities(hop)))
        transport.banner_timeout = transport.auth_timeout = patience_s
        return transport

    def _log_in(self, hop: Hop, transport: LeanTransport, below: Any, guard: Guard) -> None:
        """Banner, key exchange, host key and login, within the time there is.

        Raises:
            Unreachable: Whatever stood in the way.
        """
        try:
            with guard, door(str(hop)):
                transport.start_client()
                self._verify(hop, transport.get_remote_server_key())
                Login(hop, self._keys).authenticate(transport)
        except Unreachable as error:
            if guard.fired:
                raise _too_slow(hop, transport, guard.seconds) from error
            if isinstance(below, Proxy) and error.kind in ("lost", "banner"):
                words = below.last_words()
                raise Unreachable("banner", f"{hop}: its ProxyCommand ended", evidence=words) from error
            raise

    def _verify(self, hop: Hop, key: paramiko.PKey) -> None:
        """Accept, record or refuse a host's key.

        Raises:
            Unreachable: Refused.
        """
        shown = getattr(key, "public_blob", None)
        certificate = parse(shown.key_blob) if shown is not None else None
        if certificate is not None:
            self._known_hosts.verify_certificate(hop, certificate)
        else:
            self._known_hosts.verify(hop, HostKey(key.get_name(), key.get_base64()))

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


def _too_slow(hop: Hop, transport: LeanTransport, login_timeout_s: float) -> Unreachable:
    if not transport.remote_version:
        return Unreachable("banner", f"{hop}: connected, but no SSH banner within {login_timeout_s:g} s")
    return Unreachable(
        "timeout",
        f"{hop}: connected, but the login was not done within {login_timeout_s:g} s",
        next_step="look at the host's load, and at what its sshd waits for (DNS, PAM)",
    )


def _end(transport: LeanTransport, below: Any) -> None:
    """Close a connection and what carries it. The socket first: paramiko's thread would else wait on it."""
    shut(_socket(below))
    transport.close()
    below.close()
