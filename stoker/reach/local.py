"""This machine as a host (``ansible_connection: local``): commands are processes."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from pathlib import Path
from typing import IO

from stoker.reach.door import Unreachable
from stoker.reach.transport import Deadline, Stream

_READ = 1 << 16


class LocalTransport:
    """Starts commands here."""

    def open(self, command: str, deadline: Deadline) -> LocalChannel:
        """Start a command in a session of its own (see :class:`stoker.reach.transport.Transport`)."""
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=Path("~").expanduser() if Path("~").expanduser().is_dir() else "/",
                start_new_session=True,  # Ctrl-C in the terminal is ours to pass on
            )
        except OSError as error:
            raise Unreachable("lost", f"cannot start a process here: {error.strerror}") from error
        return LocalChannel(process)

    def close(self) -> None:
        """Nothing is held."""


class LocalChannel:
    """One command of this machine.

    Args:
        process: With three pipes.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._selector = selectors.DefaultSelector()
        for pipe, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            self._selector.register(_pipe(pipe), selectors.EVENT_READ, name)

    def send(self, data: bytes) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        try:
            _pipe(self._process.stdin).write(data)
            _pipe(self._process.stdin).flush()
        except (OSError, ValueError) as error:
            raise Unreachable("lost", "the process reads no more") from error

    def end_input(self) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        with contextlib.suppress(OSError):
            _pipe(self._process.stdin).close()

    def read(self, wait_s: float) -> tuple[Stream, bytes] | None:
        """See :class:`stoker.reach.transport.Channel`."""
        while self._selector.get_map():
            ready = self._selector.select(wait_s)
            if not ready:
                return None
            key = ready[0][0]
            data = os.read(key.fd, _READ)
            if data:
                return key.data, data
            self._selector.unregister(key.fileobj)
        return "stdout", b""

    def exit_status(self, wait_s: float) -> int | None:
        """See :class:`stoker.reach.transport.Channel`."""
        try:
            status = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        return status if status >= 0 else -1

    def terminate(self) -> None:
        """End the command and its process group."""
        if self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of it; an agent that must finish something lives on, as it would over SSH."""
        self.end_input()
        self._selector.close()
        for pipe in (self._process.stdout, self._process.stderr):
            _pipe(pipe).close()
        self._process.poll()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise ValueError("the process was started without this pipe")
    return pipe
