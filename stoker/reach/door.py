"""The one door through which errors of sockets and paramiko come in."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import paramiko
from paramiko.ssh_exception import IncompatiblePeer, NoValidConnectionsError

from stoker.errors import HostUnreachable

_NO_ROUTE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.EADDRNOTAVAIL)
_GONE = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED, errno.ESHUTDOWN, errno.ENOTCONN, errno.EBADF)
# RFC 4254, 5.1
_CONNECT_FAILED = 2

# Of this machine: most such hosts are those of a lab that is down.
_LOOPBACK = re.compile(r"(?:^|@)\[?(?:127\.|localhost:|::1\])")
_HERE = "check the port, and that sshd runs there; a lab's hosts are started by inv lab.up"

_NEXT = {
    "refused": "check the port, and that sshd runs there",
    "timeout": "check the address and what lies between: firewall, VPN, jump host",
    "no-route": "check the address and the network: VPN, routes",
    "name-unknown": "check the spelling of ansible_host, or the resolver",
    "banner": "check that an SSH server listens on that port, and its MaxStartups",
    "incompatible": "update the server's OpenSSH, or enable curve25519 and ed25519 there",
}


class Unreachable(Exception):
    """A link that could not be made or was lost, before it is known whose fault it is.

    Args:
        kind: The stable word, e.g. ``refused``.
        what: One sentence.
        evidence: The last lines that show it.
        next_step: What to do about it.
        quick: Whether an immediate second try is worth it.
    """

    def __init__(
        self,
        kind: str,
        what: str,
        *,
        evidence: Iterable[str] = (),
        next_step: str = "",
        quick: bool = False,
    ) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.evidence = tuple(evidence)
        self.next_step = next_step or _NEXT.get(kind, "")
        self.quick = quick

    def at(self, host: str) -> HostUnreachable:
        """The same as an error of one host of the inventory."""
        return HostUnreachable(
            self.what, host=host, kind=self.kind, evidence=self.evidence, next_step=self.next_step
        )


@contextmanager
def door(place: str) -> Iterator[None]:
    """Turn whatever a network library raises inside into :class:`Unreachable`.

    Args:
        place: What was being reached, e.g. ``root@10.1.230.174:22``.
    """
    try:
        yield
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise translate(error, place) from error


def translate(error: Exception, place: str) -> Unreachable:
    """One foreign error as ours.

    Args:
        error: Of a socket or paramiko.
        place: What was being reached.
    """
    if isinstance(error, paramiko.SSHException):
        return _of_ssh(error, place)
    if isinstance(error, NoValidConnectionsError):
        return translate(next(iter(error.errors.values())), place)
    if isinstance(error, socket.gaierror):
        return Unreachable("name-unknown", f"{place}: the name cannot be resolved ({error.strerror})")
    if isinstance(error, TimeoutError):
        return Unreachable("timeout", f"{place}: no answer in time")
    if isinstance(error, ConnectionRefusedError):
        lab = _HERE if _LOOPBACK.search(place) else ""
        return Unreachable("refused", f"{place}: connection refused", next_step=lab)
    number = getattr(error, "errno", None)
    if number in _NO_ROUTE:
        return Unreachable("no-route", f"{place}: {error.strerror}" if isinstance(error, OSError) else place)
    if isinstance(error, EOFError) or number in _GONE:
        return Unreachable("lost", f"{place}: the connection was lost")
    return Unreachable("lost", f"{place}: {error}")


def _of_ssh(error: paramiko.SSHException, place: str) -> Unreachable:
    """paramiko tells much by text alone."""
    text = str(error)
    if isinstance(error, paramiko.ChannelException):
        return _of_channel(error, place)
    if isinstance(error, IncompatiblePeer):
        return Unreachable("incompatible", f"{place}: no algorithm in common", evidence=[text])
    if "protocol banner" in text or "Indecipherable protocol version" in text or "Invalid SSH banner" in text:
        spoke = "Indecipherable" in text or "Invalid" in text
        what = "something else than SSH answers" if spoke else "the connection ended before the SSH banner"
        return Unreachable("banner", f"{place}: {what}", evidence=[text], quick=not spoke)
    if text.startswith("Timeout opening channel"):
        return Unreachable("timeout", f"{place}: no answer in time")
    return Unreachable("lost", f"{place}: {text or type(error).__name__}")


def _of_channel(error: paramiko.ChannelException, place: str) -> Unreachable:
    """A way through a jump host that it would not open; a refused session is told where it is asked for."""
    text = str(error.text)
    if error.code == _CONNECT_FAILED:
        return Unreachable("refused", f"{place}: the jump host could not connect to it", evidence=[text])
    return Unreachable(
        "refused",
        f"{place}: the jump host does not forward",
        evidence=[text],
        next_step="check AllowTcpForwarding and PermitOpen of the jump host's sshd",
    )
