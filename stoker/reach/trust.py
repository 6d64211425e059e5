"""The keys that a server shows, beside those that are known of it, for somebody to compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import paramiko
from paramiko.ssh_exception import IncompatiblePeer

from stoker.reach.door import Unreachable, door
from stoker.reach.hostkeys import HostKey
from stoker.reach.known_hosts import KnownHosts
from stoker.reach.links import Links
from stoker.reach.route import Hop

# One key exchange shows one key: a server is asked once for each kind.
_KINDS = (
    ("ssh-ed25519",),
    ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    ("rsa-sha2-512", "rsa-sha2-256"),
)

State = Literal["known", "new", "changed"]


@dataclass(frozen=True)
class Shown:
    """What one server shows.

    Args:
        hop: The server.
        keys: Its keys, one a kind.
        state: ``known``: all of them are; ``changed``: others are known; ``new``: none is.
        others: The keys that are known in their place, as ``file:line: KIND FINGERPRINT``.
    """

    hop: Hop
    keys: tuple[HostKey, ...]
    state: State
    others: tuple[str, ...] = ()


def ask(hop: Hop, links: Links, known: KnownHosts, timeout_s: float) -> Shown:
    """Let a server show its keys; nobody logs in to it (to a jump host before it, yes).

    Raises:
        Unreachable: Whatever stood in the way; ``host-key-revoked``.
    """
    found = (_key(hop, links, kinds, timeout_s) for kinds in _KINDS)
    keys = tuple(key for key in found if key is not None)
    if not keys:
        raise Unreachable("incompatible", f"{hop}: shows no key of a kind that is known here")
    others, is_known = known.compared(hop, keys)
    state: State = "known" if is_known else "changed" if others else "new"
    return Shown(
        hop, keys, state, tuple(f"{one.place}: {one.key.kind} {one.key.fingerprint}" for one in others)
    )


def _key(hop: Hop, links: Links, kinds: tuple[str, ...], timeout_s: float) -> HostKey | None:
    """The key of a kind; None where the server has none."""
    with links.carrier(hop, timeout_s) as sock, door(str(hop)):
        transport = paramiko.Transport(sock)
        try:
            options = transport.get_security_options()
            options.key_types = [kind for kind in options.key_types if kind in kinds]
            transport.start_client(timeout=timeout_s)
            key = transport.get_remote_server_key()
        except IncompatiblePeer:
            return None
        finally:
            transport.close()
    return HostKey(key.get_name(), key.get_base64())
