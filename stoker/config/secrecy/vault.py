"""Values that Ansible Vault encrypted: AES-256 in counter mode, keys by PBKDF2, an HMAC over it."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from binascii import Error as NoHex
from binascii import unhexlify
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.config.files import yamlfile
from stoker.config.files.yamlfile import Document
from stoker.config.files.yamltree import Vault
from stoker.config.secrecy.secretsources import FromCommand, FromFile, SecretSource
from stoker.errors import ConfigError, InputError, Problem

PASSWORD = "ANSIBLE_VAULT_PASSWORD"  # noqa: S105  (its name, not a password)
"""The secret that opens vaults, looked up as every other."""
BY_VARIABLE = "ansible-vault/"
"""What the name of a secret begins with that is a host's variable in a vault."""

Open = Callable[[Vault, str], str]
"""Gets a vault and the place that refers to it; gives the text in it, or raises InputError."""

_HEADER = re.compile(r"\$ANSIBLE_VAULT;1\.[12];AES256(;[^;]*)?")
_ITERATIONS = 10_000


def is_vault(value: object) -> bool:
    """Whether a text is one that Ansible Vault made."""
    return isinstance(value, str) and value.lstrip().startswith("$ANSIBLE_VAULT;")


def source(named: str, root: Path) -> SecretSource:
    """Where the password is: a program prints it, and any other file holds it.

    Args:
        named: The path as a person wrote it.
        root: Where a relative one starts.

    Raises:
        InputError: It is no path.
    """
    try:
        path = root / Path(named).expanduser()
    except RuntimeError as error:
        raise InputError(f"{error}", where="vault_password_file") from error
    if "\0" in named:
        raise InputError("is no path: it holds a NUL character", where="vault_password_file")
    if path.is_file() and os.access(path, os.X_OK):
        return FromCommand((str(path),))
    return FromFile(path)


def decrypted(text: str, password: str) -> str:
    """What stands in a vault.

    Args:
        text: As ``ansible-vault`` writes it, with any white space between its lines.
        password: Of this vault.

    Raises:
        InputError: It is no vault, a damaged one, or one of another password; never with the content.
    """
    header, *body = text.split() or [""]
    if not _HEADER.fullmatch(header):
        raise InputError("is no vault of ansible-vault 1.1 or 1.2 with AES256")
    try:
        salt, tag, secret = (unhexlify(part) for part in unhexlify("".join(body)).split(b"\n", 2))
    except (NoHex, ValueError):
        raise InputError("is a damaged vault", next_step="copy it anew, whole") from None
    keys = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS, 80)
    if not hmac.compare_digest(hmac.digest(keys[32:64], secret, "sha256"), tag):
        raise InputError("is a vault of another password", next_step=f"the secret {PASSWORD} holds it")
    return _unpadded(_decrypt(keys[:32], keys[64:], secret))


def sealed(vault: Vault, value: Any) -> Any:
    """A tree of values out of a vault, each of its leaves a vault of its own, so that none is shown."""
    if isinstance(value, dict):
        return {key: sealed(Vault(vault.text, (*vault.path, key)), item) for key, item in value.items()}
    if isinstance(value, list):
        return [sealed(Vault(vault.text, (*vault.path, index)), item) for index, item in enumerate(value)]
    return vault


def variables(text: str, shown: str) -> dict[str, Any]:
    """The variables in a file that is a vault, once it is open.

    Raises:
        InputError: They are no mapping; never with what stands there.
    """
    try:
        data = yamlfile.loads(text, shown).data
    except ConfigError:
        data = ()
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise InputError("what is encrypted here is no mapping of variables", next_step="ansible-vault edit")
    return data


def unsealed(document: Document, open_vault: Open | None) -> Document:
    """A file of variables; where all of it is a vault, each value in it a vault of its own.

    Raises:
        ConfigError: There is no password, it is another one, or no variables are in it.
    """
    if not is_vault(document.data):
        return document
    whole = Vault(document.data)
    try:
        if open_vault is None:
            what = "the file is encrypted by Ansible Vault, and there is no password"
            raise InputError(what, next_step="see vault_password_file")
        found = variables(open_vault(whole, document.file), document.file)
    except InputError as error:
        raise ConfigError([Problem(document.file, 1, error.what, error.next_step)]) from error
    data = {name: sealed(Vault(whole.text, (name,)), value) for name, value in found.items()}
    return Document(document.file, data)


def leaf(text: str, vault: Vault) -> str:
    """The value that a vault's path leads to, as text.

    Args:
        text: What stands in the vault.
        vault: One whose path may lead into a file of variables.

    Raises:
        InputError: It leads nowhere, or to something else than text.
    """
    if not vault.path:
        return text
    value: Any = variables(text, "vault")
    try:
        for step in vault.path:
            value = value[step]
    except (LookupError, TypeError):
        value = None
    if value is None or isinstance(value, bool | dict | list | Vault):
        raise InputError("holds no text here")
    return str(value)


def _decrypt(key: bytes, counter: bytes, secret: bytes) -> bytes:
    # Only who has a vault pays for loading it.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    decryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).decryptor()
    return decryptor.update(secret) + decryptor.finalize()


def _unpadded(padded: bytes) -> str:
    size = padded[-1] if padded else 0
    if not 1 <= size <= 16 or padded[-size:] != bytes([size]) * size:
        raise InputError("is a damaged vault")
    try:
        return padded[:-size].decode()
    except UnicodeDecodeError:  # not chained: the exception holds the content
        raise InputError("holds something that is not UTF-8") from None
