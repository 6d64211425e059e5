"""Log in: which keys are tried in which order, or a password, and what to say when none of them is taken."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import paramiko
from paramiko.agent import AgentSSH
from paramiko.ssh_exception import BadAuthenticationType

from stoker.reach.door import Unreachable
from stoker.reach.hostkeys import HostKey
from stoker.reach.keys import Identity, Keyring
from stoker.reach.route import Hop
from stoker.reach.sockets import within

DEFAULT_KEYS = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_AGENT_S = 5.0
_SECOND_FACTORS = frozenset(("keyboard-interactive", "password", "gssapi-with-mic", "hostbased"))


class Login:
    """paramiko's authentication strategy: called once the server's key has been accepted.

    Args:
        hop: Where to log in, as whom, with what.
        keys: Private keys.
    """

    def __init__(self, hop: Hop, keys: Keyring) -> None:
        self._hop = hop
        self._keys = keys
        self._tried: list[str] = []
        self._allowed: list[str] = []
        self._agent: paramiko.Agent | _Socket | _Nobody | None = None
        self._agent_keys: dict[bytes, paramiko.agent.AgentKey] = {}
        self._offered: set[bytes] = set()

    def authenticate(self, transport: paramiko.Transport) -> None:
        """Log in.

        Raises:
            Unreachable: ``login-denied`` with every key that was tried, or ``second-factor``.
        """
        if self._hop.password:
            self._with_password(transport)
            return
        try:
            for name, key in self._candidates():
                if self._try(transport, name, key):
                    return
                if not transport.is_active():
                    raise self._denied("the server ended it after so many keys", "name the right key: ")
        finally:
            if self._agent is not None:
                self._agent.close()
        raise self._denied("no key is accepted", "check the user, and its authorized_keys, or ")

    def _with_password(self, transport: paramiko.Transport) -> None:
        """The key that the inventory names, and then its password; nothing else is offered.

        Raises:
            Unreachable: ``login-denied``, ``second-factor``.
        """
        for identity in map(self._keys.identity, self._hop.identities if self._hop.identities_only else ()):
            if identity.key is None:
                self._tried.append(f"{identity.path} {identity.problem}")
            elif self._try(transport, f"{identity.path} ({_describe(identity.key)})", identity.key):
                return
        if not self._try_password(transport):
            raise self._denied("the password is not accepted", "check ansible_password, or ")

    def _try_password(self, transport: paramiko.Transport) -> bool:
        """Send the password, or give it as the answer to the one question of a server that asks (PAM).

        Raises:
            Unreachable: ``second-factor``: it is right and does not suffice.
        """
        ways = ("password", "keyboard-interactive")
        for way in ways:
            try:
                if way == "password":
                    wanted = transport.auth_password(self._hop.user, self._hop.password, fallback=False)
                else:
                    wanted = transport.auth_interactive(self._hop.user, self._answers)
            except BadAuthenticationType as error:
                self._allowed = list(error.allowed_types)
                self._tried.append(f"{way}: not allowed")
                continue
            except paramiko.AuthenticationException:
                self._tried.append(f"{way}: refused")
                continue
            if wanted:
                self._tried.append(f"{way}: accepted, but not enough")
                raise self._second_factor(wanted)
            return True
        return False

    def _answers(self, title: str, instructions: str, prompts: Sequence[tuple[str, bool]]) -> list[str]:
        """A password is asked for alone and not echoed; any other question gets no answer."""
        hidden = len(prompts) == 1 and not prompts[0][1]
        return [self._hop.password if hidden else "" for _ in prompts]

    def _candidates(self) -> Iterator[tuple[str, paramiko.PKey]]:
        """(description, key) in order: named files, then ssh-agent, then the default files."""
        for identity in map(self._keys.identity, self._hop.identities):
            yield from self._usable(identity)
        if self._hop.identities_only:
            return
        for public, key in self._held().items():
            if public not in self._offered:
                yield f"ssh-agent ({_describe(key)})", key
        if self._hop.identities:
            return
        for path in DEFAULT_KEYS:
            file = Path(path).expanduser()
            if file.exists():
                yield from self._usable(self._keys.identity(str(file)))

    def _usable(self, identity: Identity) -> Iterator[tuple[str, paramiko.PKey]]:
        """The key of a file, from the ssh-agent where the file alone does not do."""
        key = identity.key or self._held().get(identity.public)
        if key is None:
            self._tried.append(f"{identity.path} {identity.problem}")
            return
        self._offered.add(identity.public)
        yield f"{identity.path} ({_describe(key)})", key

    def _held(self) -> dict[bytes, paramiko.agent.AgentKey]:
        """What the ssh-agent holds; it is not asked before it is needed.

        Raises:
            Unreachable: ``login-denied``: it does not answer.
        """
        if self._agent is None:
            try:
                self._agent = within(_AGENT_S, lambda: _agent(self._hop.identity_agent))
            except TimeoutError:
                raise self._denied("your ssh-agent does not answer", "end it (ssh-agent -k), or ") from None
            self._agent_keys = {key.asbytes(): key for key in self._agent.get_keys()}
        return self._agent_keys

    def _try(self, transport: paramiko.Transport, name: str, key: paramiko.PKey) -> bool:
        """Offer one key.

        Raises:
            Unreachable: ``second-factor``: the key is right and does not suffice.
        """
        try:
            still_wanted = transport.auth_publickey(self._hop.user, key)
        except BadAuthenticationType as error:
            self._allowed = list(error.allowed_types)
            self._tried.append(f"{name}: refused")
            return False
        except paramiko.AuthenticationException as error:
            text = str(error)
            refused = not text or text.startswith("Authentication failed")
            self._tried.append(f"{name}: {'refused' if refused else text}")
            return False
        if not still_wanted:
            return True
        self._tried.append(f"{name}: accepted, but not enough")
        if "publickey" not in still_wanted and _SECOND_FACTORS & set(still_wanted):
            raise self._second_factor(still_wanted)
        return False

    def _second_factor(self, wanted: list[str]) -> Unreachable:
        return Unreachable(
            "second-factor",
            f"{self._hop}: the key is accepted, and then a second factor is wanted: {', '.join(wanted)}",
            evidence=self._tried,
            next_step="use an account that logs in with a key alone; nobody is there to answer a prompt",
        )

    def _denied(self, why: str, advice: str) -> Unreachable:
        tried = self._tried or ["there was no key to try"]
        allowed = [f"the server would take: {', '.join(self._allowed)}"] if self._allowed else []
        return Unreachable(
            "login-denied",
            f"{self._hop}: login denied: {why}",
            evidence=[*tried, *allowed],
            next_step=advice + "set ansible_private_key_file",
        )


def locked(hops: Iterable[Hop], keys: Keyring) -> list[Identity]:
    """The key files that would be tried, want a passphrase, and are not in the ssh-agent either.

    A default key counts only where nothing else can be tried.
    """
    hops = list(hops)
    named: dict[str, None] = {}
    needs_default = False
    for hop in hops:
        named.update(dict.fromkeys(hop.identities))
        needs_default = needs_default or not (hop.identities or hop.password)
    found = [one for one in map(keys.identity, named) if one.is_locked]
    paths = [path for path in (str(Path(text).expanduser()) for text in DEFAULT_KEYS) if Path(path).exists()]
    defaults = [keys.identity(path) for path in paths] if needs_default else []
    if not found and not any(one.is_locked for one in defaults):
        return []
    held = set().union(*map(_held_keys, {hop.identity_agent for hop in hops}))
    if not held and not any(one.key for one in defaults):
        found += [one for one in defaults if one.is_locked]
    return [one for one in found if one.public not in held]


class _Socket(AgentSSH):
    """An ssh-agent that listens somewhere else than where the login's does."""

    def __init__(self, path: str) -> None:
        super().__init__()
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.connect(path)
            self._connect(link)  # type: ignore[attr-defined]  # paramiko's own way in, for its subclasses
        except (OSError, paramiko.SSHException):
            link.close()

    def close(self) -> None:
        """Let go of it."""
        self._close()  # type: ignore[attr-defined]


class _Nobody(AgentSSH):
    """No ssh-agent at all."""

    def close(self) -> None:
        """Nothing is held."""


def _agent(where: str) -> paramiko.Agent | _Socket | _Nobody:
    """The ssh-agent that ssh_config names, or the login's own."""
    if where == "none":
        return _Nobody()
    return _Socket(where) if where else paramiko.Agent()


def _held_keys(where: str) -> set[bytes]:
    """What an ssh-agent holds; nothing where there is none, or it does not answer."""
    try:
        agent = within(_AGENT_S, lambda: _agent(where))
    except TimeoutError:
        return set()
    try:
        return {key.asbytes() for key in agent.get_keys()}
    finally:
        agent.close()


def _describe(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {HostKey(key.get_name(), key.get_base64()).fingerprint}"
