"""Where ``!secret NAME`` finds its value: the controller's environment, a command, or a closed file."""

from __future__ import annotations

import selectors
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.config.files.yamltree import Vault
from stoker.config.secrecy import secretfile
from stoker.config.secrecy.secretsources import FromCommand, FromFile, SecretSource
from stoker.errors import InputError

MAX_BYTES = 64 * 1024
"""Linux passes no string of more than 128 KiB to a process, and no secret needs half of it."""
_POLL_S = 0.05
_STRAGGLER_S = 0.5  # a child of the command may write the line for it


@dataclass(frozen=True)
class _Failure:
    """Why there is no value.

    Args:
        what: The message.
        next_step: The mend.
    """

    what: str
    next_step: str


class Secrets:
    """Looks secrets up by name, each at most once, whichever threads ask.

    Args:
        environ: The controller's environment: the variable of the secret's name is its value.
        command: Asked where neither the environment nor ``sources`` has the name, which is added as its last
            argument; the first line of its output is the value.
        sources: By name, where the environment has none.
        timeout_s: For a command.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        command: Sequence[str] | None = None,
        *,
        sources: Mapping[str, SecretSource] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self._environ = environ
        self._command = tuple(command or ())
        self._sources = dict(sources or {})
        self._timeout_s = timeout_s
        self._known: dict[str, str | _Failure] = {}
        self._opened: dict[str, str] = {}  # a vault's text → what stands in it
        self._from_vaults: set[str] = set()
        self._gate = threading.Lock()  # one question at a time: a command may ask for a passphrase

    def __repr__(self) -> str:
        return "Secrets(…)"

    def value(self, name: str, *, where: str) -> str:
        """A secret.

        Args:
            name: As in ``!secret NAME``.
            where: The place that refers to it, for the message.

        Raises:
            InputError: There is none, it is empty, or no process could be given it. Never with the value.
        """
        with self._gate:
            if name not in self._known:
                try:
                    self._known[name] = self._find(name)
                except InputError as error:
                    self._known[name] = _Failure(error.what, error.next_step)
            found = self._known[name]
        if isinstance(found, _Failure):
            raise InputError(found.what, where=where, next_step=found.next_step)
        return found

    def opened(self, vault: Vault, *, where: str) -> str:
        """What Ansible Vault encrypted.

        Args:
            vault: The value.
            where: The place that refers to it, for the message.

        Raises:
            InputError: There is no password, it is another one, or no process could be given the value.
        """
        from stoker.config.secrecy import vault as vaults

        password = self.value(vaults.PASSWORD, where=where).strip()
        with self._gate:
            try:
                if vault.text not in self._opened:
                    self._opened[vault.text] = vaults.decrypted(vault.text, password)
                found = vaults.leaf(self._opened[vault.text], vault)
            except InputError as error:
                raise InputError(error.what, where=where, next_step=error.next_step) from None
            self._from_vaults.add(found)
        return found

    def referred(self, name: str, variables: Mapping[str, Any], *, where: str) -> str:
        """A secret by the name that a profile refers to it by, which may be that of a variable in a vault.

        Args:
            name: ``NAME``, or ``ansible-vault/VARIABLE``.
            variables: The host's.
            where: The place that refers to it, for the message.

        Raises:
            InputError: As ``value`` and ``opened``.
        """
        from stoker.config.secrecy.vault import BY_VARIABLE

        found = variables.get(name.removeprefix(BY_VARIABLE)) if name.startswith(BY_VARIABLE) else None
        if not isinstance(found, Vault):
            return self.value(name, where=where)
        return _fit(self.opened(found, where=where), name)

    @property
    def values(self) -> tuple[str, ...]:
        """What was looked up so far, so that it can be masked."""
        with self._gate:
            known = tuple(value for value in self._known.values() if isinstance(value, str))
            return (*known, *self._from_vaults)

    def _find(self, name: str) -> str:
        """The value, from the first place that has it."""
        source = self._sources.get(name)
        found = self._environ.get(name)
        if found is None and isinstance(source, FromFile):
            found = self._from_file(source, name)
        elif found is None and isinstance(source, FromCommand):
            found = self._ask(source.argv, name)
        elif found is None and self._command:
            found = self._ask((*self._command, name), name)
        if not found:
            raise _missing(name, asked=bool(self._command or source), is_empty=found is not None)
        return _fit(found, name)

    def _from_file(self, source: FromFile, name: str) -> str:
        try:
            found = secretfile.read(source.path, MAX_BYTES)
        except InputError as error:
            raise _failed(name, error.what, error.next_step) from None
        return _decoded(found, name, str(source.path))

    def _ask(self, argv: Sequence[str], name: str) -> str:
        """The first line that a command prints.

        It keeps the terminal, where it may ask for a passphrase; what it says on stderr is not read.
        """
        try:
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=dict(self._environ), bufsize=0)
        except (OSError, ValueError) as error:
            raise _failed(name, f"{argv[0]} cannot be run: {error}") from error
        deadline = time.monotonic() + self._timeout_s
        try:
            line = _first_line(process, deadline)
            status = process.wait(max(0.1, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise _failed(name, f"{argv[0]} took longer than {self._timeout_s:g} s") from error
        finally:
            process.kill()
            process.wait()
        if status != 0:
            raise _failed(name, f"{argv[0]} ended with {status}")
        return _decoded(line, name, argv[0])


def _first_line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """What a process prints up to the first line break; the rest is read and dropped, so that it can end.

    Its output ends with it, whoever holds that on: a command may have started an agent that stays.

    Raises:
        TimeoutError: It went on beyond the deadline.
    """
    assert process.stdout is not None  # noqa: S101  (it was asked for)
    kept = b""
    with process.stdout as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        ended_at: float | None = None
        while time.monotonic() < deadline:
            # Asked before the pipe is: what it wrote itself can be read by then.
            ended_at = ended_at or (None if process.poll() is None else time.monotonic())
            if not selector.select(_POLL_S):
                if ended_at and (b"\n" in kept or time.monotonic() - ended_at > _STRAGGLER_S):
                    break
                continue
            chunk = pipe.read(65536)
            if not chunk or (ended_at and b"\n" in kept):
                break
            if b"\n" not in kept and len(kept) <= MAX_BYTES:
                kept += chunk
        else:
            raise TimeoutError
    return kept.partition(b"\n")[0].removesuffix(b"\r")


def _decoded(found: bytes, name: str, source: str) -> str:
    try:
        return found.decode()
    except UnicodeDecodeError:  # not chained: the exception holds the value
        raise _failed(name, f"{source} gives something that is not UTF-8") from None


def _fit(value: str, name: str) -> str:
    """The value, if a process can be given it."""
    if "\0" in value:
        raise _failed(name, "it contains a NUL character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:  # not chained: the exception holds the value
        raise _failed(name, "it is not UTF-8") from None
    if size > MAX_BYTES:
        raise _failed(name, f"it is longer than {MAX_BYTES} bytes")
    return value


def _failed(name: str, why: str, next_step: str = "") -> InputError:
    return InputError(f"the secret {name} cannot be used: {why}", next_step=next_step)


def _missing(name: str, *, asked: bool, is_empty: bool) -> InputError:
    if is_empty:
        return InputError(f"the secret {name} is empty")
    other = "" if asked else ", or say in invoke.yaml where it comes from (stoker.secrets, or secret_command)"
    return InputError(f"there is no secret {name}", next_step=f"export {name}=…{other}")
