"""Options for ssh in an inventory (``ansible_ssh_common_args``): where and how to connect."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from stoker.errors import InputError, nearest

_VALUED = {"F": "-F", "J": "ProxyJump", "i": "IdentityFile", "p": "Port", "l": "User"}
# What Stoker has a way of its own for: they change nothing about where a connection ends.
_PASSED_OVER = frozenset(
    (
        "addkeystoagent",
        "batchmode",
        "checkhostip",
        "clearallforwardings",
        "compression",
        "connectionattempts",
        "controlmaster",
        "controlpath",
        "controlpersist",
        "exitonforwardfailure",
        "gssapiauthentication",
        "gssapidelegatecredentials",
        "ipqos",
        "kbdinteractiveauthentication",
        "loglevel",
        "numberofpasswordprompts",
        "passwordauthentication",
        "preferredauthentications",
        "pubkeyauthentication",
        "requesttty",
        "sendenv",
        "serveralivecountmax",
        "serveraliveinterval",
        "tcpkeepalive",
        "updatehostkeys",
        "verifyhostkeydns",
        "visualhostkey",
    )
)
# Passing these over could weaken what somebody meant.
_ALGORITHMS = frozenset(
    (
        "casignaturealgorithms",
        "ciphers",
        "hostbasedacceptedalgorithms",
        "hostkeyalgorithms",
        "kexalgorithms",
        "macs",
        "pubkeyacceptedalgorithms",
        "pubkeyacceptedkeytypes",
    )
)
_FLAGS_PASSED_OVER = "CTaqvx"


@dataclass(frozen=True)
class SshOptions:
    """What was said; empty or None where nothing was.

    Args:
        user: Login name.
        port: TCP port.
        identity_files: Private keys.
        identities_only: No other keys than these.
        proxy_jump: ``user@host:port,…``; ``none`` for no jump.
        proxy_command: Command whose streams are the connection; ``none`` for none.
        strict: True: unknown host keys are refused. False: recorded.
        known_hosts: Files of host keys; the word ``none`` for no file.
        connect_timeout_s: Until TCP is connected.
        host_name: Where it is connected to in place of the inventory's address.
        key_alias: The name its host key is known under.
        hash_known_hosts: Whether names are written hashed.
        identity_agent: Socket of the ssh-agent, or ``none``.
        config: ssh_config to read in place of the user's and the system's.
    """

    user: str = ""
    port: int | None = None
    identity_files: tuple[str, ...] = ()
    identities_only: bool | None = None
    proxy_jump: str = ""
    proxy_command: str = ""
    strict: bool | None = None
    known_hosts: tuple[str, ...] = ()
    connect_timeout_s: float | None = None
    host_name: str = ""
    key_alias: str = ""
    hash_known_hosts: bool | None = None
    identity_agent: str = ""
    config: str = ""

    def over(self, weaker: SshOptions) -> SshOptions:
        """These where they say something, else the weaker ones; keys add up."""
        if weaker == SshOptions():
            return self
        merged = {}
        for item in fields(self):
            mine, theirs = getattr(self, item.name), getattr(weaker, item.name)
            merged[item.name] = mine if mine not in (None, "", ()) else theirs
        if self.proxy_jump or self.proxy_command:  # one way to connect excludes the other
            merged.update(proxy_jump=self.proxy_jump, proxy_command=self.proxy_command)
        keys = dict.fromkeys((*self.identity_files, *weaker.identity_files))
        return replace(SshOptions(**merged), identity_files=tuple(keys))


def parse(args: Iterable[str], where: str) -> SshOptions:
    """Read command-line options of ssh.

    Args:
        args: Texts as in the inventory, in the order of Ansible's command line: of two mentions the first
            counts, as for ssh.
        where: The host, for messages.

    Raises:
        InputError: An option that is not supported, by its name; a value that is wrong.
    """
    texts = tuple(args)
    try:
        return _parsed(texts)
    except InputError:  # told with the host's name
        return _parse(texts, where)


@functools.lru_cache(maxsize=64)
def _parsed(texts: tuple[str, ...]) -> SshOptions:
    """A group's options are those of each of its hosts."""
    return _parse(texts, "")


def _parse(texts: tuple[str, ...], where: str) -> SshOptions:
    result = SshOptions()
    for text in texts:
        for name, value in _options(text, where):
            result = result.over(option(name, value, where))
    return result


def option(name: str, value: str, where: str) -> SshOptions:
    """One option of ssh as ours; empty where Stoker has its own way.

    Raises:
        InputError: It is not supported, or its value is wrong.
    """
    key = name.lower()
    if key in _PASSED_OVER:
        return SshOptions()
    if key in _ALGORITHMS:
        raise InputError(
            f"ssh option {name} is not supported: Stoker's algorithms are its own",
            where=where,
            next_step="leave it out here; docs/ssh.md lists what is spoken",
        )
    if key not in _READERS:
        known = ", ".join(sorted(_NAMES.values()))
        hint = nearest(name, _NAMES.values())
        raise InputError(
            f"ssh option {name} is not supported", where=where, next_step=hint or f"supported are {known}"
        )
    return SshOptions(**{_FIELDS[key]: _READERS[key](value, _NAMES[key], where)})


def _options(text: str, where: str) -> Iterator[tuple[str, str]]:
    """(name, value) of each option in one text."""
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise InputError(f"ssh options {text!r}: {error}", where=where) from error
    for word in words:
        letter, rest = word[1:2], word[2:]
        if not word.startswith("-") or not letter:
            raise InputError(f"{word!r} is no option of ssh", where=where)
        if not word[1:].strip(_FLAGS_PASSED_OVER):
            continue
        if letter != "o" and letter not in _VALUED:
            raise InputError(f"ssh option -{letter} is not supported", where=where)
        value = rest or next(words, "")
        if not value:
            raise InputError(f"ssh option -{letter} needs a value", where=where)
        yield _named(value) if letter == "o" else (_VALUED[letter], value)


def _named(text: str) -> tuple[str, str]:
    """``Name=value`` or ``Name value``."""
    name = text.replace("=", " ", 1).split(None, 1)
    return name[0], name[1].strip() if len(name) > 1 else ""


def _plain(value: str, name: str, where: str) -> str:
    if not value:
        raise InputError(f"ssh option {name} needs a value", where=where)
    return value


def _port(value: str, name: str, where: str) -> int:
    if not (value.isascii() and value.isdigit() and 0 < int(value) < 65536):
        raise InputError(f"ssh option {name}: {value!r} is no port", where=where)
    return int(value)


def _yes(value: str, name: str, where: str) -> bool:
    if value.lower() not in ("yes", "true", "no", "false"):
        raise InputError(f"ssh option {name}: {value!r} is neither yes nor no", where=where)
    return value.lower() in ("yes", "true")


def _strict(value: str, name: str, where: str) -> bool | None:
    """``ask`` says nothing: a worker cannot ask, so the setting decides."""
    words = {"yes": True, "true": True, "accept-new": False, "no": False, "off": False, "false": False}
    if value.lower() not in words and value.lower() != "ask":
        raise InputError(
            f"ssh option {name}: {value!r} is not known", where=where, next_step="yes or accept-new"
        )
    return words.get(value.lower())


def _files(value: str, name: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(_plain(value, name, where)))
    except ValueError as error:
        raise InputError(f"ssh option {name}: {error}", where=where) from error


def _one_file(value: str, name: str, where: str) -> tuple[str, ...]:
    return (_plain(value, name, where),)


def _seconds(value: str, name: str, where: str) -> float | None:
    if value.lower() == "none":
        return None
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise InputError(f"ssh option {name}: {value!r} is no number of seconds", where=where)
    return float(value)


_NAMES = {
    name.lower(): name
    for name in (
        "-F",
        "ConnectTimeout",
        "HashKnownHosts",
        "HostKeyAlias",
        "HostName",
        "IdentitiesOnly",
        "IdentityAgent",
        "IdentityFile",
        "Port",
        "ProxyCommand",
        "ProxyJump",
        "StrictHostKeyChecking",
        "User",
        "UserKnownHostsFile",
    )
}
_FIELDS = {
    "-f": "config",
    "connecttimeout": "connect_timeout_s",
    "hashknownhosts": "hash_known_hosts",
    "hostkeyalias": "key_alias",
    "hostname": "host_name",
    "identityagent": "identity_agent",
    "identitiesonly": "identities_only",
    "identityfile": "identity_files",
    "port": "port",
    "proxycommand": "proxy_command",
    "proxyjump": "proxy_jump",
    "stricthostkeychecking": "strict",
    "user": "user",
    "userknownhostsfile": "known_hosts",
}
_READERS: dict[str, Any] = {
    "-f": _plain,
    "connecttimeout": _seconds,
    "hashknownhosts": _yes,
    "hostkeyalias": _plain,
    "hostname": _plain,
    "identityagent": _plain,
    "identitiesonly": _yes,
    "identityfile": _one_file,
    "port": _port,
    "proxycommand": _plain,
    "proxyjump": _plain,
    "stricthostkeychecking": _strict,
    "user": _plain,
    "userknownhostsfile": _files,
}
