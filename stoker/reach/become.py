"""Commands as another user of the host: sudo, with or without a password, over the same channel.

What is run stands on no command line, where sudo would log it: a small shell that sudo starts says that it is
up, reads one line, and does what it says. The password is sent once, and only when sudo asks with a prompt
that nobody else knows; where sudo wants none, the command never sees it.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
from dataclasses import dataclass, field

from stoker.config.secrecy.mask import Mask
from stoker.errors import HostFailed
from stoker.reach.door import Unreachable
from stoker.reach.transport import Channel, Deadline, Stream, Transport

# A sudo that asks a directory server takes its time; one that waits for a fingerprint takes for ever.
_SUDO_S = 30.0
_END_S = 5.0
_MOST_WORDS = 8192
_EVIDENCE_LINES = 5

# No exclamation mark, backslash or single quote in it: it stands in single quotes for every login shell.
# `read` takes one byte at a time, so that what comes behind the line is left to the command.
_SHELL = 'echo MARK up $$ >&2; cd 2>/dev/null || cd /; IFS= read -r c; eval "$(printf "$c")"'
# The group of a command, given its pid: sudo itself is in it, and passes the end on.
_END = (
    "read -r l < /proc/PID/stat || exit 0; set -- ${l##*) }; "
    'kill -TERM "-$3"; for n in 1 2 3 4 5; do kill -0 "-$3" 2>/dev/null || exit 0; sleep 0.2; done; '
    'kill -KILL "-$3"'
)


@dataclass(frozen=True)
class Become:
    """As whom commands run on a host.

    Args:
        user: Account of the host.
        password: What sudo may ask for; empty: it must ask for nothing.
    """

    user: str = "root"
    password: str = field(default="", repr=False)


class BecomeTransport:
    """A host whose commands run as another user than the one who logged in.

    Args:
        host: The inventory's name.
        inner: The way to the host; closed with this.
        become: As whom.
    """

    def __init__(self, host: str, inner: Transport, become: Become) -> None:
        self._host = host
        self._inner = inner
        self._become = become

    def open(self, command: str, deadline: Deadline) -> BecomeChannel:
        """Start a command (see :class:`stoker.reach.transport.Transport`).

        Raises:
            HostFailed: ``become-denied``; ``timeout`` where sudo waits for something else.
        """
        mark = "stoker-" + secrets.token_hex(8)
        channel = self._inner.open(_sudo(self._become, mark), deadline)
        rising = _Rising(self._host, channel, self._become, mark)
        try:
            pid = rising.wait(Deadline(min(deadline.left_s, _SUDO_S)))
            channel.send("".join(f"\\{byte:03o}" for byte in command.encode()).encode() + b"\n")
        except BaseException:
            channel.close()
            raise
        return BecomeChannel(self, channel, pid, rising.early)

    def end(self, pid: int) -> None:
        """End a command and what it started, with the same rights as it has."""
        with contextlib.suppress(Unreachable, HostFailed):
            deadline = Deadline(_END_S)
            channel = self.open(_END.replace("PID", str(pid)), deadline)
            try:
                channel.end_input()
                while not deadline.passed and channel.read(deadline.left_s) != ("stdout", b""):
                    continue
            finally:
                channel.close()

    def close(self) -> None:
        """Let go of the host."""
        self._inner.close()


class BecomeChannel:
    """One command as another user.

    Args:
        transport: What can end it.
        inner: sudo's channel.
        pid: Its process on the host.
        early: What came of its output while sudo was asked.
    """

    def __init__(self, transport: BecomeTransport, inner: Channel, pid: int, early: bytes) -> None:
        self._transport = transport
        self._inner = inner
        self._pid = pid
        self._early = early

    def send(self, data: bytes) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        self._inner.send(data)

    def end_input(self) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        self._inner.end_input()

    def read(self, wait_s: float) -> tuple[Stream, bytes] | None:
        """See :class:`stoker.reach.transport.Channel`."""
        early, self._early = self._early, b""
        return ("stdout", early) if early else self._inner.read(wait_s)

    def exit_status(self, wait_s: float) -> int | None:
        """See :class:`stoker.reach.transport.Channel`."""
        return self._inner.exit_status(wait_s)

    def terminate(self) -> None:
        """End the command from beside it: who logged in may not signal what runs as somebody else."""
        self._transport.end(self._pid)

    def close(self) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        self._inner.close()


class _Rising:
    """A sudo that was started and has not said yet whether it does what it is asked."""

    def __init__(self, host: str, channel: Channel, become: Become, mark: str) -> None:
        self._host = host
        self._channel = channel
        self._become = become
        self._prompt = _prompt(mark).encode()
        self._up = f"{mark} up ".encode()
        self._words = b""
        self._is_told = False
        self.early = b""

    def wait(self, deadline: Deadline) -> int:
        """Answer sudo's prompt.

        Returns:
            The pid of what runs now.

        Raises:
            HostFailed: ``become-denied``, ``timeout``.
            Unreachable: The link is gone.
        """
        while not deadline.passed:
            said = self._channel.read(min(deadline.left_s, 1.0))
            if said is None:
                continue
            stream, data = said
            if stream == "stdout" and not data:
                raise self._ended()
            if stream == "stdout":
                self.early += data
                continue
            self._words += data
            pid = self._pid()
            if pid is not None:
                return pid
            if self._prompt in self._words:
                self._answer()
        raise self._failed(
            "timeout", "sudo does not answer", "log in by hand, and see what `sudo -v` waits for"
        )

    def _pid(self) -> int | None:
        line, end, _ = self._words.partition(self._up)[2].partition(b"\n")
        return int(line) if end and line.isdigit() else None

    def _answer(self) -> None:
        self._words = self._words.replace(self._prompt, b"")
        if self._is_told:
            raise self._failed(
                "become-denied", "sudo does not take the password", "set ansible_become_password"
            )
        self._is_told = True
        self._channel.send(self._become.password.encode() + b"\n")

    def _ended(self) -> HostFailed:
        if self._channel.exit_status(1.0) is None:
            raise Unreachable("lost", "the connection ended before sudo had answered")
        if self._become.password:
            return self._failed("become-denied", "sudo does not allow it", "look at sudoers on the host")
        return self._failed(
            "become-denied",
            "sudo does not do it without a password",
            "set ansible_become_password (as !secret NAME), or allow NOPASSWD in sudoers",
        )

    def _failed(self, kind: str, why: str, next_step: str) -> HostFailed:
        text = Mask([self._become.password]).text(self._words[-_MOST_WORDS:].decode(errors="replace"))
        lines = [line for line in text.splitlines() if line.strip()]
        return HostFailed(
            f"cannot become {self._become.user}: {why}",
            host=self._host,
            kind=kind,
            evidence=lines[-_EVIDENCE_LINES:],
            next_step=next_step,
        )


def _prompt(mark: str) -> str:
    return f"{mark} password:"


def _sudo(become: Become, mark: str) -> str:
    """For the login shell, of whatever kind it is."""
    asks = f"-S -p '{_prompt(mark)}'" if become.password else "-n"
    return f"exec sudo -H {asks} -u {shlex.quote(become.user)} -- /bin/sh -c '{_SHELL.replace('MARK', mark)}'"
