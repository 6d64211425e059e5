"""Private keys for logging in: each file read once, its kind found out, what is wrong with it said."""

from __future__ import annotations

import base64
import inspect
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

_CERTIFICATE = "-cert.pub"


@dataclass(frozen=True)
class Identity:
    """One private key file.

    Args:
        path: Where it is.
        key: Ready to sign; None where it cannot be used by itself.
        problem: Why it cannot; empty where it can.
        is_locked: Whether it wants a passphrase.
        public: The public key's bytes, where they are known: an ssh-agent may hold the same key.
    """

    path: str
    key: paramiko.PKey | None = None
    problem: str = ""
    public: bytes = b""
    is_locked: bool = False


class Keyring:
    """Private keys, shared by all connections and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Identity] = {}

    def identity(self, path: str) -> Identity:
        """The key of a file, read when it is first asked for."""
        with self._lock:
            if path not in self._known:
                self._known[path] = _read(path)
            return self._known[path]

    def unlock(self, path: str, passphrase: str) -> bool:
        """Read a key anew with its passphrase.

        Returns:
            Whether it is open now.
        """
        opened = _read(path, passphrase.encode())
        if opened.key is None:
            return False
        with self._lock:
            self._known[path] = opened
        return True


def _read(path: str, passphrase: bytes | None = None) -> Identity:
    file = path.removesuffix(_CERTIFICATE)
    public = _public(file)
    try:
        key = _private(Path(file).read_bytes(), file, passphrase)
    except OSError as error:
        return Identity(path, problem=f"cannot be read: {error.strerror}", public=public)
    except TypeError:
        # cryptography's way to say that a passphrase is wanted
        what = "has a passphrase: add it to your ssh-agent (ssh-add)"
        return Identity(path, problem=what, public=public, is_locked=True)
    except (ValueError, paramiko.SSHException, AttributeError) as error:
        return Identity(path, problem=f"is no private key that can be used: {_short(error)}", public=public)
    certificate = Path(file + _CERTIFICATE)
    try:
        if certificate.exists():
            key.load_certificate(str(certificate))
    except (OSError, ValueError, paramiko.SSHException) as error:
        return Identity(
            path, problem=f"has a certificate that cannot be used: {_short(error)}", public=public
        )
    return Identity(path, key, public=key.asbytes())


def _private(data: bytes, file: str, passphrase: bytes | None) -> paramiko.PKey:
    """A key of whatever kind; paramiko's own readers ask for the kind, or try each.

    Raises:
        TypeError: It is encrypted.
        ValueError: It is no key, of a kind that paramiko does not know, or the passphrase is wrong.
    """
    try:
        loaded: object = load_ssh_private_key(data, passphrase, **_quickly(load_ssh_private_key))
    except ValueError:
        loaded = load_pem_private_key(data, passphrase, **_quickly(load_pem_private_key))
    if isinstance(loaded, rsa.RSAPrivateKey):
        return paramiko.RSAKey(key=loaded)
    if isinstance(loaded, ec.EllipticCurvePrivateKey):
        return paramiko.ECDSAKey(vals=(loaded, loaded.public_key()))
    if isinstance(loaded, ed25519.Ed25519PrivateKey):
        return paramiko.Ed25519Key(
            filename=file, password=None if passphrase is None else passphrase.decode()
        )
    raise ValueError(f"keys of kind {type(loaded).__name__} are not supported; ed25519 is")


def _quickly(load: Any) -> dict[str, bool]:
    """Do not test an RSA key's primes anew at each start: ssh does not, and it takes a third of a second."""
    name = "unsafe_skip_rsa_key_validation"
    return {name: True} if name in inspect.signature(load).parameters else {}


def _public(file: str) -> bytes:
    """What the ``.pub`` file beside a private key says; empty where there is none."""
    try:
        return base64.b64decode(Path(file + ".pub").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return b""


def _short(error: Exception) -> str:
    return str(error).split(". ")[0].splitlines()[0] if str(error) else type(error).__name__
