"""Certificates of hosts: a key that a certificate authority vouches for (OpenSSH's PROTOCOL.certkeys)."""

from __future__ import annotations

import base64
import fnmatch
import re
import struct
import time
from dataclasses import dataclass

import paramiko
from paramiko.pkey import UnknownKeyType

from stoker.reach.hostkeys import HostKey

SUFFIX = "-cert-v01@openssh.com"
_HOST = 2
# How many strings of the certificate are the key itself.
_PARTS = {"ssh-ed25519": 1, "ssh-rsa": 2}
_PARTS |= {f"ecdsa-sha2-nistp{bits}": 2 for bits in (256, 384, 521)}
# An authority that signs with SHA-1 vouches for nothing.
_SIGNATURES = frozenset((*_PARTS, "rsa-sha2-256", "rsa-sha2-512")) - {"ssh-rsa"}


@dataclass(frozen=True)
class HostCertificate:
    """What a certificate says; whether it is right, :meth:`flaw` tells.

    Args:
        key: The host's key.
        authority: Who signed it.
        key_id: How the authority calls it.
        names: For which names it is; none: for any.
        after: From when on, Unix time.
        before: Until when.
        is_host: Whether it is a host's, and no user's.
        critical: Options that must be understood.
        signed: What the signature is over.
        signature: As SSH writes one.
    """

    key: HostKey
    authority: HostKey
    key_id: str
    names: tuple[str, ...]
    after: int
    before: int
    is_host: bool
    critical: bytes
    signed: bytes
    signature: bytes

    def flaw(self, name: str, now: float | None = None) -> str:
        """Why it does not vouch for a host of this name; empty where it does.

        Args:
            name: As known_hosts would have it, without a port, in lower case.
            now: Unix time; None: the clock's.
        """
        now = time.time() if now is None else now
        if not self.is_host:
            return "is a user's certificate"
        if self.critical:
            return "has critical options, which a host's certificate must not"
        if not self.after <= now < self.before:
            return "is not valid yet" if now < self.after else "has expired"
        if self.names and not any(_matches(name, pattern) for pattern in self.names):
            return f"is for {', '.join(self.names)}"
        return "" if self._is_signed() else "is not signed by that authority"

    def _is_signed(self) -> bool:
        kind = _Reader(self.signature).text()
        if kind not in _SIGNATURES:
            return False
        try:
            key = paramiko.PKey.from_type_string(self.authority.kind, base64.b64decode(self.authority.blob))
            return bool(key.verify_ssh_sig(self.signed, paramiko.Message(self.signature)))
        except (paramiko.SSHException, ValueError, UnknownKeyType):
            return False


def parse(blob: bytes) -> HostCertificate | None:
    """A certificate as a server shows it; None for what is none."""
    try:
        return _parsed(blob)
    except (struct.error, ValueError, KeyError):
        return None


def _parsed(blob: bytes) -> HostCertificate:
    reader = _Reader(blob)
    kind = reader.text()
    if not kind.endswith(SUFFIX):
        raise ValueError(kind)
    kind = kind.removesuffix(SUFFIX)
    reader.string()  # nonce
    begin = reader.at
    for _ in range(_PARTS[kind]):
        reader.string()
    plain = _string(kind.encode()) + blob[begin : reader.at]
    reader.number("!Q")  # serial
    is_host = reader.number("!I") == _HOST
    key_id = reader.text()
    listed = _Reader(reader.string())
    names: list[str] = []
    while listed.at < len(listed.data):
        names.append(listed.text().lower())
    after, before = reader.number("!Q"), reader.number("!Q")
    critical = reader.string()
    reader.string()  # extensions
    reader.string()  # reserved
    authority = reader.string()
    signed = blob[: reader.at]
    return HostCertificate(
        key=HostKey(kind, base64.b64encode(plain).decode()),
        authority=HostKey(_Reader(authority).text(), base64.b64encode(authority).decode()),
        key_id=key_id,
        names=tuple(names),
        after=after,
        before=before,
        is_host=is_host,
        critical=critical,
        signed=signed,
        signature=reader.string(),
    )


class _Reader:
    """SSH's wire format, read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def string(self) -> bytes:
        size = self.number("!I")
        if self.at + size > len(self.data):
            raise ValueError("shorter than it says")
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str:
        return self.string().decode("utf-8")


def _string(data: bytes) -> bytes:
    return struct.pack("!I", len(data)) + data


def _matches(name: str, pattern: str) -> bool:
    """OpenSSH's patterns: ``*`` and ``?``; brackets are themselves."""
    return re.fullmatch(fnmatch.translate(re.sub(r"\[", "[[]", pattern)), name) is not None
