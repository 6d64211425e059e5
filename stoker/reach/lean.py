"""paramiko's transport without what costs a fleet time: its algorithms in our order, fewer calls, no polling.

What a connection costs here is mostly Python, and threads that wake each other. Of 100 connections that
begin at once, much of the controller's time was spent on log lines that nobody reads, on timers that never
fire, and on system calls for four bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any, cast

import paramiko
from paramiko.packet import Packetizer

from stoker.reach.hostcert import SUFFIX

# paramiko's own order begins with slow ones: aes128-ctr, and 25 ms of CPU for group14.
CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)
KEX = (
    "curve25519-sha256@libssh.org",
    "curve25519-sha256",
    "ecdh-sha2-nistp256",
    "mlkem768x25519-sha256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group14-sha256",
)
_READ = 1 << 16
# How a server may sign with the key that known_hosts calls ssh-rsa.
_RSA = ("ssh-rsa", "rsa-sha2-512", "rsa-sha2-256")


def _there(wanted: Collection[str], kind: str) -> tuple[str, ...]:
    """Those that this paramiko has."""
    return tuple(name for name in wanted if name in getattr(paramiko.Transport, f"_preferred_{kind}"))


class LeanTransport(paramiko.Transport):
    """paramiko's transport over a connected socket.

    Args:
        sock: What carries it; shut by whoever made it, so that nobody waits for it.
        known: The kinds of host key that are known: asked for first.
        wants_certificate: A host's certificate is asked for before its key.
    """

    # How often a transport looks whether it was closed; ours are closed by shutting what carries them.
    _active_check_timeout = 2.0

    _preferred_ciphers = _there(CIPHERS, "ciphers")
    _preferred_kex = _there(KEX, "kex")

    def __init__(self, sock: Any, known: Collection[str], wants_certificate: bool) -> None:
        self._wants_certificate = wants_certificate
        # What it needs of a socket is less than its signature says.
        super().__init__(cast(Any, _Buffered(sock)), packetizer_class=_Untimed)
        names = {name for kind in known for name in (_RSA if kind == "ssh-rsa" else (kind,))}
        kinds: tuple[str, ...] = self._filter_algorithm("keys")
        self._preferred_keys = tuple(sorted(kinds, key=lambda name: name not in names))

    def _filter_algorithm(self, kind: str) -> tuple[str, ...]:
        """The algorithms of a kind: none of them is disabled."""
        return tuple(getattr(self, f"_preferred_{kind}"))

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """The kinds of host key in our order; paramiko has certificates last, where none is taken."""
        names = tuple(super().preferred_keys)
        if not self._wants_certificate:
            return names
        return tuple(sorted(names, key=lambda name: not name.endswith(SUFFIX)))

    def start_client(self, event: threading.Event | None = None, timeout: float | None = None) -> None:
        """Shake hands; paramiko's own looks every tenth of a second whether it is done.

        Raises:
            SSHException: It failed, or took too long.
        """
        done = event or threading.Event()
        super().start_client(event=done)
        if event is not None:
            return
        if not done.wait(timeout) or not self.is_active():
            raise self.get_exception() or paramiko.SSHException("Negotiation failed.")

    # The server says which of its options a key has; paramiko would write it down letter by letter.
    def _parse_debug(self, message: paramiko.Message) -> None:
        """Pass over it."""

    def _log(self, level: int, message: Any, *args: Any) -> None:
        if self.logger.isEnabledFor(level):
            super()._log(level, message, *args)  # type: ignore[misc]


class _Untimed(Packetizer):
    """Without a timer, and so a thread, for each handshake: the login as a whole has a deadline."""

    def start_handshake(self, timeout: float) -> None:
        """Nothing to start."""


class _Buffered:
    """A socket that is read in large pieces: paramiko asks for four bytes, and then for the rest."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._data = b""
        self._at = 0
        self.send = sock.send
        self.settimeout = sock.settimeout
        self.close = sock.close

    def recv(self, size: int) -> bytes:
        """Up to so many bytes; b"" at the end."""
        if self._at == len(self._data):
            self._data, self._at = bytes(self._sock.recv(max(size, _READ))), 0
        begin = self._at
        self._at = min(begin + size, len(self._data))
        return self._data[begin : self._at]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)
