"""The seam: a way to start a command on a host and talk to it, whatever lies between."""

from __future__ import annotations

import time
from typing import Literal, Protocol

Stream = Literal["stdout", "stderr"]


class Channel(Protocol):
    """One command on the host, with its three streams."""

    def send(self, data: bytes) -> None:
        """Send all of it to the command's input.

        Raises:
            Unreachable: The link is gone, or takes nothing for too long.
        """

    def end_input(self) -> None:
        """Say that no more input comes."""

    def read(self, wait_s: float) -> tuple[Stream, bytes] | None:
        """What the command says next.

        Args:
            wait_s: How long to wait for it.

        Returns:
            The stream and some bytes of it; ``("stdout", b"")`` once both have ended; None when nothing came
            in time.

        Raises:
            Unreachable: The link is gone.
        """

    def exit_status(self, wait_s: float) -> int | None:
        """How the command ended: its code, -1 for a signal, None when it is not known in time."""

    def terminate(self) -> None:
        """Ask the host to end the command, as far as that can be asked."""

    def close(self) -> None:
        """Let go of it; a second time is harmless."""


class Transport(Protocol):
    """A way to one host."""

    def open(self, command: str, deadline: Deadline) -> Channel:
        """Start a command in the host's login shell.

        Args:
            command: As the shell gets it.
            deadline: Until it must have been accepted.

        Raises:
            Unreachable: The link is gone or no further channel is allowed.
        """

    def close(self) -> None:
        """Let go of the host; a second time is harmless."""


class Deadline:
    """A moment by which something must be done.

    Args:
        seconds: From now on; None for no deadline.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds left, never below 0; infinite without a deadline."""
        return float("inf") if self._end is None else max(self._end - time.monotonic(), 0.0)

    @property
    def passed(self) -> bool:
        """Whether it is too late."""
        return self._end is not None and time.monotonic() >= self._end
