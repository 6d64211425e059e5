"""Where a host of the inventory is reached, as its variables say, and how patiently."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.config.settings import Settings, host_key_policy
from stoker.errors import InputError, nearest
from stoker.reach.become import Become
from stoker.reach.sshargs import SshOptions, parse

CONNECTIONS = {"ssh": "ssh", "smart": "ssh", "paramiko": "ssh", "paramiko_ssh": "ssh", "local": "local"}
# What would silently mean something else if it were passed over.
_REFUSED = {
    "ansible_become_exe": "sudo is found on the host's PATH",
    "ansible_become_flags": "what sudo is given is Stoker's own: -H, and -n or -S",
}
PASSWORDS = (
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_become_password",
    "ansible_become_pass",
)
"""Variables that may hold a credential: as text, or as ``!secret NAME``."""
# The characters OpenSSH takes in names, without those that a shell would read.
_HOST = re.compile(r"[A-Za-z0-9_.%-]+")
_USER = re.compile(r"[A-Za-z0-9_.+@\\-]+")
_PYTHON = re.compile(r"[\w./~+@%:, -]+")


@dataclass(frozen=True)
class ReachSettings:
    """How hosts are reached.

    Args:
        host_key_policy: ``accept-new`` records a first key, ``strict`` refuses it; a changed one is refused.
        connect_timeout_s: Until TCP is connected.
        login_timeout_s: From then until the agent answers.
        silence_s: Without a word from the host for this long it is lost; the agent gives us up as soon.
        ssh_config: File in place of the user's and the system's; ``none`` for no file; empty for these two.
        known_hosts: Files to read, the first is written; empty: as ssh_config says, else
            ``~/.ssh/known_hosts`` and the system's.
    """

    host_key_policy: str = "accept-new"
    connect_timeout_s: float = 10.0
    login_timeout_s: float = 30.0
    silence_s: float = 45.0
    ssh_config: str = ""
    known_hosts: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        host_key_policy(self.host_key_policy)

    @property
    def strict(self) -> bool:
        """Whether a key that was never seen is refused."""
        return self.host_key_policy == "strict"

    @classmethod
    def of(cls, settings: Settings) -> ReachSettings:
        """The part of a project's settings that is about reaching hosts."""

        def path(text: str) -> Path:
            return settings.root / Path(text).expanduser()

        config = settings.ssh_config
        return cls(
            host_key_policy=settings.host_key_policy,
            connect_timeout_s=settings.connect_timeout_s,
            login_timeout_s=settings.login_timeout_s,
            silence_s=settings.silence_s,
            ssh_config=config if config in ("", "none") else str(path(config)),
            known_hosts=tuple(path(text) for text in settings.known_hosts),
        )


@dataclass(frozen=True)
class Target:
    """One host of the inventory as it is to be reached; what it does not say, ssh_config may.

    Args:
        name: The inventory's name.
        address: Name or IP address to connect to; looked up in ssh_config.
        connection: ``ssh`` or ``local``.
        port: None where nothing says.
        user: Empty where nothing says.
        key_file: The one key to log in with; empty where nothing says.
        python: The interpreter to use there; empty: looked for.
        password: To log in with; empty where nothing says: then keys alone are tried.
        become: As whom commands run; None: as who logged in.
        options: What ``ansible_ssh_common_args`` and ``ansible_ssh_extra_args`` say.
    """

    name: str
    address: str
    connection: str = "ssh"
    port: int | None = None
    user: str = ""
    key_file: str = ""
    python: str = ""
    password: str = field(default="", repr=False)
    become: Become | None = None
    options: SshOptions = field(default_factory=SshOptions)

    @classmethod
    def of(cls, name: str, variables: Mapping[str, Any]) -> Target:
        """Read a host's variables.

        Args:
            name: The inventory's name: an address (``user@address:port`` too) where no variable says another.
            variables: Rendered values.

        Raises:
            InputError: A value that is wrong, or a variable whose meaning is not supported.
        """
        _refuse(name, variables)
        args = [_text(name, variables, f"ansible_ssh_{kind}args") for kind in ("", "common_", "extra_")]
        options = parse(args, where=name)
        user, address, port = split_address(
            _text(name, variables, "ansible_host", "ansible_ssh_host") or name, where=name
        )
        said_port = _value(variables, "ansible_port", "ansible_ssh_port")
        return cls(
            name=name,
            address=address,
            connection=_connection(name, variables),
            port=port_number(said_port, name) if said_port not in (None, "") else options.port or port,
            user=_user(_text(name, variables, "ansible_user", "ansible_ssh_user"), name)
            or options.user
            or user,
            key_file=_text(name, variables, "ansible_private_key_file", "ansible_ssh_private_key_file"),
            python=_python(name, variables),
            password=_password(name, variables, *PASSWORDS[:3]),
            become=_become(name, variables),
            options=options,
        )


def split_address(text: str, where: str) -> tuple[str, str, int | None]:
    """``user@address:port`` in its parts; the user may be empty, the port None.

    Raises:
        InputError: No address, or a character that none has.
    """
    rest, _, port = "", "", ""
    user, at, rest = text.rpartition("@")
    if at and not user:
        raise InputError(f"{text!r} has no user before the @", where=where)
    if rest.startswith("["):
        rest, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    elif rest.count(":") == 1:
        rest, _, port = rest.partition(":")
    address = _address(rest, where)
    return _user(user, where), address, port_number(port, where) if port else None


def port_number(value: Any, where: str) -> int:
    """A TCP port.

    Raises:
        InputError: Anything else.
    """
    text = str(value).strip()
    right = text.isascii() and text.isdigit() and 0 < int(text) < 65536
    if isinstance(value, bool) or not right:
        raise InputError(f"{value!r} is no port, a number from 1 to 65535", where=where)
    return int(text)


def _address(text: str, where: str) -> str:
    if ":" in text:
        try:
            ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            raise InputError(f"{text!r} is no address", where=where) from None
        return text
    if not _HOST.fullmatch(text) or text.startswith("-"):
        raise InputError(f"{text!r} is no host name or address", where=where)
    return text


def _user(text: str, where: str) -> str:
    if text and (not _USER.fullmatch(text) or text.startswith("-")):
        raise InputError(f"{text!r} is no user name", where=where)
    return text


def _connection(name: str, variables: Mapping[str, Any]) -> str:
    word = _text(name, variables, "ansible_connection") or "ssh"
    word = word.rpartition(".")[2]  # ansible.builtin.ssh
    if word not in CONNECTIONS:
        hint = nearest(word, CONNECTIONS)
        raise InputError(f"ansible_connection {word!r} is not supported", where=name, next_step=hint)
    return CONNECTIONS[word]


def _python(name: str, variables: Mapping[str, Any]) -> str:
    path = _text(name, variables, "ansible_python_interpreter")
    if path.startswith("auto"):
        return ""
    if path and (not _PYTHON.fullmatch(path) or path.startswith("-")):
        raise InputError(f"ansible_python_interpreter {path!r} is no path of a program", where=name)
    return path


def _become(name: str, variables: Mapping[str, Any]) -> Become | None:
    """As whom commands run.

    Raises:
        InputError: Another method than sudo, or no user name.
    """
    wanted = variables.get("ansible_become")
    if str(wanted).lower() not in ("true", "yes", "on", "1", "y"):
        return None
    method = _text(name, variables, "ansible_become_method").rpartition(".")[2] or "sudo"
    if method != "sudo":
        raise InputError(
            f"ansible_become_method {method!r} is not supported", where=name, next_step="use sudo"
        )
    user = _user(_text(name, variables, "ansible_become_user"), name) or "root"
    return Become(user, _password(name, variables, *PASSWORDS[3:]))


def _password(name: str, variables: Mapping[str, Any], *names: str) -> str:
    """A credential; a number in YAML is the text that it looks like.

    Raises:
        InputError: It cannot be one; never with its value.
    """
    value = _value(variables, *names)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int) or set(str(value)) & set("\0\r\n"):
        raise InputError(f"{names[0]} must be text on one line", where=name)
    return str(value)


def _refuse(name: str, variables: Mapping[str, Any]) -> None:
    for variable, advice in _REFUSED.items():
        if variables.get(variable) not in (None, "", False, "false", "no", "False", "No"):
            raise InputError(f"{variable} is not supported", where=name, next_step=advice)


def _value(variables: Mapping[str, Any], *names: str) -> Any:
    return next((variables[name] for name in names if variables.get(name) not in (None, "")), None)


def _text(where: str, variables: Mapping[str, Any], *names: str) -> str:
    """The first of several spellings that is there, as text.

    Raises:
        InputError: Something that is no text.
    """
    value = _value(variables, *names)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{names[0]} must be text, not {value!r}", where=where)
    return value
