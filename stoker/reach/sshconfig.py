"""ssh_config, read with paramiko where that reads it right, and by ``ssh -G`` where it does not."""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import paramiko
from paramiko.ssh_exception import ConfigParseError

from stoker.errors import InputError
from stoker.reach.sshargs import SshOptions, option

USER_FILE = Path("~/.ssh/config")
SYSTEM_FILE = Path("/etc/ssh/ssh_config")
# paramiko applies a Match with a word it does not know; these it knows. (Its `exec` reads our own input.)
_MATCH_WORDS = frozenset(("all", "host", "originalhost", "user", "localuser"))
_MATCH_BARE = frozenset(("all", "canonical", "final"))
_SEPARATOR = re.compile(r"\s*=\s*|\s+")
_DEPTH = 16
_SSH_G_TIMEOUT_S = 10.0
# What of a configuration concerns us; the rest is ssh's own business.
_OURS = (
    "user",
    "port",
    "identityfile",
    "identitiesonly",
    "stricthostkeychecking",
    "userknownhostsfile",
    "connecttimeout",
    "proxyjump",
    "proxycommand",
)


@dataclass(frozen=True)
class HostConfig:
    """What ssh_config says of one host.

    Args:
        address: ``HostName``, or the name itself.
        alias: ``HostKeyAlias``: the name its key is known under; may be empty.
        hash_known_hosts: Whether names are written hashed.
        identity_agent: Socket of the ssh-agent, or ``none``; empty for the login's own.
        options: The rest.
    """

    address: str
    alias: str = ""
    hash_known_hosts: bool = False
    identity_agent: str = ""
    options: SshOptions = field(default_factory=SshOptions)


@dataclass(frozen=True)
class _Line:
    file: str
    number: int
    text: str

    @property
    def words(self) -> list[str]:
        """Keyword in lower case, then the rest of the line."""
        keyword, _, rest = _SEPARATOR.sub("\0", self.text, count=1).partition("\0")
        return [keyword.lower(), rest]

    @property
    def place(self) -> str:
        return f"{self.file}:{self.number}"


class _Parser(paramiko.SSHConfig):
    """paramiko's reader, less the tokens whose values the inventory may still change (``%p``)."""

    TOKENS_BY_CONFIG_KEY = {  # noqa: RUF012 - as in the base class
        **paramiko.SSHConfig.TOKENS_BY_CONFIG_KEY,
        "proxycommand": [],
        "proxyjump": [],
    }


class SshConfig:
    """One configuration, read once.

    Args:
        setting: A file; ``none`` for no configuration; empty for the user's file and then the system's.

    Raises:
        InputError: A file that cannot be read or understood, as file:line.
    """

    def __init__(self, setting: str = "") -> None:
        self._setting = setting
        lines: list[_Line] = []
        for file, folder, needed in _files(setting):
            lines += _block_end(lines) + list(_read(file, folder, needed))
        self._beyond = _beyond_paramiko(lines)
        self._is_general = self._beyond is None and all(map(_is_general, lines))
        self._general: HostConfig | None = None
        self._parser = _Parser()
        if self._beyond is None:
            self._parse(lines)
        elif shutil.which("ssh") is None:
            raise InputError(
                f"{self._beyond.text!r} is more than can be read without OpenSSH's client",
                where=self._beyond.place,
                next_step="install the OpenSSH client here, or name a simpler file in the setting ssh_config",
            )

    def _parse(self, lines: Sequence[_Line]) -> None:
        for line in lines:
            try:
                # The same rules for one line as for the whole, so that the place of a mistake is known.
                paramiko.SSHConfig().parse([line.text])
            except (ConfigParseError, ValueError) as error:
                raise InputError(f"ssh_config: {error}", where=line.place) from error
        self._parser.parse([line.text for line in lines])

    def lookup(self, name: str, user: str = "", port: int | None = None) -> HostConfig:
        """What the configuration says of a host.

        Args:
            name: As it would be given to ssh.
            user: Login name where the inventory says one.
            port: Port where the inventory says one.

        Raises:
            InputError: A value that is wrong, or a configuration that ssh itself refuses.
        """
        if self._is_general:
            return self._same_for_all(name)
        if self._beyond is None:
            try:
                found: dict[str, Any] = dict(self._parser.lookup(name))
            except (ConfigParseError, paramiko.SSHException, ValueError, KeyError) as error:
                raise InputError(f"ssh_config cannot be applied: {error}", where=name) from error
        else:
            found = _ask_ssh(self._setting, name, user, port)
        return _host_config(name, found)

    def _same_for_all(self, name: str) -> HostConfig:
        """What a configuration says that speaks of all hosts alike; paramiko would work it out for each."""
        if self._general is None:
            found = dict(self._parser.lookup(""))
            self._general = replace(_host_config(name, found), address=str(found.get("hostname") or ""))
        return self._general if self._general.address else replace(self._general, address=name)


def _is_general(line: _Line) -> bool:
    """Whether a line says the same of every host."""
    keyword, rest = line.words
    return keyword != "match" and (keyword != "host" or rest.strip() == "*") and "%" not in line.text


def _files(setting: str) -> list[tuple[Path, Path, bool]]:
    """(file, folder of relative includes, whether it must exist)."""
    home = Path("~/.ssh").expanduser()
    if setting == "none":
        return []
    if setting:
        return [(Path(setting).expanduser(), home, True)]
    return [(USER_FILE.expanduser(), home, False), (SYSTEM_FILE, SYSTEM_FILE.parent, False)]


def _read(file: Path, folder: Path, needed: bool, depth: int = 0) -> Iterator[_Line]:
    """Every line that says something, includes put in their place.

    Raises:
        InputError: Unreadable, or includes without end.
    """
    try:
        text = file.read_text(errors="surrogateescape")
    except OSError as error:
        if not needed and isinstance(error, FileNotFoundError):
            return
        raise InputError(f"cannot be read: {error.strerror}", where=str(file)) from error
    block: _Line | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = _Line(str(file), number, raw.strip())
        if not line.text or line.text.startswith("#"):
            continue
        keyword, rest = line.words
        if keyword in ("host", "match"):
            block = line
        if keyword != "include":
            yield line
            continue
        if depth >= _DEPTH:
            raise InputError("Include goes round in a circle", where=line.place)
        included = [
            part for path in _included(rest, folder, line) for part in _read(path, folder, False, depth + 1)
        ]
        if block is not None and any(part.words[0] in ("host", "match") for part in included):
            yield line  # conditions inside a condition: beyond paramiko, and told so
            continue
        yield from included
        if included and block is None:
            yield _Line(line.file, line.number, "Host *")


def _included(rest: str, folder: Path, line: _Line) -> list[Path]:
    try:
        patterns = shlex.split(rest)
    except ValueError as error:
        raise InputError(f"Include: {error}", where=line.place) from error
    found: list[Path] = []
    for pattern in patterns:
        path = folder / Path(pattern).expanduser()
        found += sorted(Path(name) for name in glob.glob(str(path)))  # noqa: PTH207 - the pattern may be absolute
    return found


def _block_end(lines: Sequence[_Line]) -> list[_Line]:
    """What keeps the next file's first lines from belonging to the last block of this one."""
    return [_Line(lines[-1].file, lines[-1].number, "Host *")] if lines else []


def _beyond_paramiko(lines: Sequence[_Line]) -> _Line | None:
    """The first line that paramiko would pass over or misread."""
    for line in lines:
        keyword, rest = line.words
        if keyword in ("include", "canonicalizehostname") and rest.lower() not in ("no", "false", "none"):
            return line
        if keyword == "match" and not _known_match(rest):
            return line
    return None


def _known_match(rest: str) -> bool:
    try:
        words = shlex.split(rest)
    except ValueError:
        return True  # broken: paramiko says so, with the place
    if len(words) == 1:
        return words[0].lower() == "all"
    while words:
        word = words.pop(0).lower().removeprefix("!")
        if word not in _MATCH_WORDS or word in _MATCH_BARE or not words:
            return False
        words.pop(0)
    return True


def _ask_ssh(setting: str, name: str, user: str, port: int | None) -> dict[str, Any]:
    """The same question to OpenSSH itself.

    Raises:
        InputError: It refuses the configuration.
    """
    command = ["ssh", "-G"]
    command += ["-F", setting] if setting else []
    command += ["-l", user] if user else []
    command += ["-p", str(port)] if port else []
    try:
        done = subprocess.run(
            [*command, "--", name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SSH_G_TIMEOUT_S,
            encoding="utf-8",
            errors="replace",
            check=True,
        )
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).splitlines()
        raise InputError("ssh refuses its configuration", where=name, evidence=lines[-5:]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"ssh -G does not answer: {error}", where=name) from error
    return _without_defaults(done.stdout)


def _without_defaults(output: str) -> dict[str, Any]:
    """``ssh -G`` prints every value; what equals ssh's own default was said by nobody."""
    found: dict[str, Any] = {}
    for line in output.splitlines():
        keyword, _, value = line.partition(" ")
        if keyword == "identityfile":
            found.setdefault(keyword, []).append(value)
        else:
            found.setdefault(keyword, value)
    names = ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "dsa")
    if set(found.get("identityfile", ())) <= {f"~/.ssh/id_{kind}" for kind in names}:
        found.pop("identityfile", None)
    ours = [str(Path(f"~/.ssh/known_hosts{number}").expanduser()) for number in ("", "2")]
    if found.get("userknownhostsfile", "").split() == ours:
        del found["userknownhostsfile"]
    if found.get("connecttimeout") == "none":
        del found["connecttimeout"]
    return found


def _host_config(name: str, found: dict[str, Any]) -> HostConfig:
    where = f"ssh_config for {name}"
    options = SshOptions()
    for keyword in found:  # in the order of mention: of ProxyJump and ProxyCommand the first counts
        if keyword not in _OURS:
            continue
        values = found[keyword] if isinstance(found[keyword], list) else [found[keyword]]
        for value in values:
            # paramiko keeps `ProxyCommand none` as None
            options = options.over(option(keyword, "none" if value is None else str(value), where))
    return HostConfig(
        address=str(found.get("hostname") or name),
        alias=str(found.get("hostkeyalias") or ""),
        hash_known_hosts=str(found.get("hashknownhosts", "")).lower() in ("yes", "true"),
        identity_agent=identity_agent(str(found.get("identityagent") or "")),
        options=options,
    )


def identity_agent(value: str) -> str:
    """``IdentityAgent``: a path, ``none``, or the word for the login's own, which is the default."""
    if value.lower() == "none" or value in ("", "SSH_AUTH_SOCK"):
        return value.lower() if value.lower() == "none" else ""
    home = str(Path.home())
    return os.path.expandvars(str(Path(value.replace("%d", home)).expanduser()))
