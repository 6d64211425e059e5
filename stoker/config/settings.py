"""Settings: Invoke's configuration under the key ``stoker``, as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from stoker.config.secrecy import secretsources
from stoker.config.secrecy.secretsources import SecretSource
from stoker.errors import InputError, nearest

HOST_KEY_POLICIES = ("accept-new", "strict")
_DIGITS = 15


@dataclass(frozen=True)
class Settings:
    """What ``invoke.yaml`` (or ``INVOKE_STOKER_*``) may set under ``stoker:``.

    Args:
        root: The project's folder; every relative path below is relative to it.
        inventory: File or folder of the inventory.
        profiles: Folder of the tuning profiles.
        playbooks: Folder of the runbooks.
        baselines: Folder of accepted results, kept in git.
        results: Folder of what came back, not in git.
        forks: Hosts worked on at once.
        serial: Hosts that a changing command rolls over at once; 0 is all.
        host_key_policy: ``accept-new`` records a first key; ``strict`` refuses it.
        known_hosts: Files to read; the first is written. Empty: ``~/.ssh/known_hosts``.
        ssh_config: File to read in place of ``~/.ssh/config``; ``none`` for no file.
        connect_timeout_s: Until TCP is connected.
        login_timeout_s: Until the agent answers, once TCP is connected.
        silence_s: Without a word from the other side for this long, controller and agent give each other up.
        max_loss: Loss that an ``ok`` must rule out, 0..1.
        secret_command: Command whose first output line is the secret; its name is added as last argument.
        secrets: By name where a secret comes from: ``{command: [pass, show, hf]}``, or ``{file: PATH}``
            that only its owner can read.
        vault_password_file: File with the password of Ansible's vaults, or a program that prints it. Empty:
            what ``ANSIBLE_VAULT_PASSWORD_FILE`` names.
    """

    root: Path
    inventory: str = "inventory"
    profiles: str = "profiles"
    playbooks: str = "playbooks"
    baselines: str = "baselines"
    results: str = "results"
    forks: int = 20
    serial: int = 1
    host_key_policy: str = "accept-new"
    known_hosts: tuple[str, ...] = ()
    ssh_config: str = ""
    connect_timeout_s: float = 10.0
    login_timeout_s: float = 30.0
    silence_s: float = 45.0
    max_loss: float = 0.10
    secret_command: tuple[str, ...] = field(default=())
    secrets: Mapping[str, SecretSource] = field(default_factory=dict)
    vault_password_file: str = ""

    def path(self, name: str) -> Path:
        """The folder or file behind one of the path settings.

        Args:
            name: Field name: ``inventory``, ``profiles``, ``playbooks``, ``baselines`` or ``results``.
        """
        return self.root / str(getattr(self, name))


def load(root: Path, values: Mapping[str, Any]) -> Settings:
    """Check and type what Invoke collected.

    Args:
        root: The project's folder.
        values: The mapping under ``stoker``.

    Raises:
        InputError: An unknown key or a value of the wrong kind.
    """
    known = {f.name: f for f in fields(Settings) if f.name != "root"}
    typed: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        if name not in known:
            hint = nearest(name, known)
            raise InputError(f"unknown setting stoker.{name}", where="invoke.yaml", next_step=hint)
        if name == "secrets":
            typed[name] = secretsources.read(value, root, "setting stoker.secrets")
        else:
            typed[name] = _typed(name, value, getattr(Settings, name, ()))
    return Settings(root=root, **typed)


def is_usable(root: Path, name: str, value: Any) -> bool:
    """Whether one setting by itself is right."""
    try:
        load(root, {name: value})
    except InputError:
        return False
    return True


def _typed(name: str, value: Any, default: Any) -> Any:
    """One setting as the kind of its default."""
    where = f"setting stoker.{name}"
    if name == "serial":
        return whole(value, where, word_for_zero="all")
    if name == "host_key_policy":
        return host_key_policy(value, where)
    if isinstance(default, tuple):
        return (value,) if isinstance(value, str) else tuple(str(item) for item in value or ())
    if isinstance(default, float):
        return number(value, where)
    if isinstance(default, int):
        return whole(value, where, least=1)
    return str(value)


def host_key_policy(value: Any, where: str = "") -> str:
    """What to do with a host key that was never seen.

    Raises:
        InputError: No such policy.
    """
    if value not in HOST_KEY_POLICIES:
        hint = nearest(str(value), HOST_KEY_POLICIES)
        raise InputError(f"{value!r} is no host-key policy", where=where, next_step=hint)
    return str(value)


def whole(value: Any, where: str, *, least: int = 0, most: int | None = None, word_for_zero: str = "") -> int:
    """A whole number that a person wrote.

    Args:
        value: Text or number.
        where: Flag or setting, for the message.
        least: Smallest that is right.
        most: Largest that is right.
        word_for_zero: A word that means 0.

    Raises:
        InputError: Not a whole number, too small or too large.
    """
    text = str(value).strip()
    if word_for_zero and text == word_for_zero:
        return 0
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        also = f" or {word_for_zero!r}" if word_for_zero else ""
        raise InputError(f"{value!r} is not a whole number{also}", where=where)
    if len(text) > _DIGITS:  # Python itself refuses to read thousands of them
        raise InputError(f"a number of {len(text)} digits is too large", where=where)
    if int(text) < least:
        raise InputError(f"{text} is too small, the least is {least}", where=where)
    if most is not None and int(text) > most:
        raise InputError(f"{text} is too large, the most is {most}", where=where)
    return int(text)


def number(value: Any, where: str) -> float:
    """A positive number that a person wrote; fractions allowed.

    Raises:
        InputError: Not a positive, finite number.
    """
    try:
        result = float(str(value))
    except ValueError:
        result = -1.0
    if isinstance(value, bool) or not 0 < result < float("inf"):
        raise InputError(f"{value!r} is not a positive number", where=where)
    return result
