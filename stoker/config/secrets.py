"""Where ``!secret NAME`` finds its value: the controller's environment, or a command."""

from __future__ import annotations

import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence

from stoker.errors import InputError

MAX_BYTES = 64 * 1024
"""Linux passes no string of more than 128 KiB to a process, and no secret needs half of it."""


class Secrets:
    """Looks secrets up by name, each at most once.

    Args:
        environ: The controller's environment: the variable of the secret's name is its value.
        command: Asked where the environment has none; the name is added as its last argument, and the first
            line of its output is the value.
        timeout_s: For the command.
    """

    def __init__(
        self, environ: Mapping[str, str], command: Sequence[str] | None = None, *, timeout_s: float = 30.0
    ) -> None:
        self._environ = environ
        self._command = tuple(command or ())
        self._timeout_s = timeout_s
        self._known: dict[str, str] = {}

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
        if name not in self._known:
            found = self._environ.get(name)
            if found is None and self._command:
                found = self._ask(name, where)
            if not found:
                raise _missing(name, where, asked=bool(self._command), is_empty=found is not None)
            self._known[name] = _fit(found, name, where)
        return self._known[name]

    def _ask(self, name: str, where: str) -> str:
        """The first line that the command prints.

        It keeps the terminal, where it may ask for a passphrase; what it says on stderr is not read.
        """
        argv = [*self._command, name]
        try:
            process = subprocess.Popen(argv, stdout=subprocess.PIPE, env=dict(self._environ), bufsize=0)
        except (OSError, ValueError) as error:
            raise _failed(name, where, f"{argv[0]} cannot be run: {error}") from error
        deadline = time.monotonic() + self._timeout_s
        try:
            line = _first_line(process, deadline)
            status = process.wait(max(0.1, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            raise _failed(name, where, f"{argv[0]} took longer than {self._timeout_s:g} s") from error
        finally:
            process.kill()
            process.wait()
        if status != 0:
            raise _failed(name, where, f"{argv[0]} ended with {status}")
        try:
            return line.decode()
        except UnicodeDecodeError:  # not chained: the exception holds the value
            raise _failed(name, where, f"{argv[0]} printed something that is not UTF-8") from None


def _first_line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """What a process prints up to the first line break; the rest is read and dropped, so that it can end.

    Raises:
        TimeoutError: It went on beyond the deadline.
    """
    assert process.stdout is not None  # noqa: S101  (it was asked for)
    kept = b""
    with process.stdout as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            chunk = pipe.read(65536)
            if not chunk:
                return kept.partition(b"\n")[0].removesuffix(b"\r")
            if b"\n" not in kept and len(kept) <= MAX_BYTES:
                kept += chunk


def _fit(value: str, name: str, where: str) -> str:
    """The value, if a process can be given it."""
    if "\0" in value:
        raise _failed(name, where, "it contains a NUL character")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:  # not chained: the exception holds the value
        raise _failed(name, where, "it is not UTF-8") from None
    if size > MAX_BYTES:
        raise _failed(name, where, f"it is longer than {MAX_BYTES} bytes")
    return value


def _failed(name: str, where: str, why: str) -> InputError:
    return InputError(f"the secret {name} cannot be used: {why}", where=where)


def _missing(name: str, where: str, *, asked: bool, is_empty: bool) -> InputError:
    if is_empty:
        return InputError(f"the secret {name} is empty", where=where)
    other = "" if asked else ", or set stoker.secret_command"
    return InputError(f"there is no secret {name}", where=where, next_step=f"export {name}=…{other}")
