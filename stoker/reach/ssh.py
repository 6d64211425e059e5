"""A host over SSH: commands on channels of one connection."""

from __future__ import annotations

import contextlib
import select

import paramiko
from paramiko.common import cMSG_CHANNEL_REQUEST

from stoker.reach.chunks import in_pieces
from stoker.reach.door import Unreachable, door
from stoker.reach.links import Link
from stoker.reach.sockets import Alarms, Guard
from stoker.reach.transport import Deadline, Stream

_READ = 1 << 16
# A peer that takes no byte for so long is gone.
_SEND_TIMEOUT_S = 45.0
# How long sshd has to show that it passed a signal on, and a second command to do it in its place.
_SIGNAL_S = 0.3
_BESIDE_S = 5.0

# Ends what runs beside it on the same connection: other children of the same sshd that were given the same
# connection (one server process may serve many), each with its process group.
_KILL_SIBLINGS = b"""
[ -n "$SSH_CONNECTION" ] || exit 0
for signal in TERM KILL; do
    found=
    for stat in /proc/[0-9]*/stat; do
        read -r line < "$stat" || continue
        set -- ${line##*) }
        [ "$2" = "$PPID" ] && [ "$3" != "$$" ] || continue
        tr '\0' '\n' < "${stat%stat}environ" | grep -qxF "SSH_CONNECTION=$SSH_CONNECTION" || continue
        kill "-$signal" "-$3" && found=1
    done 2> /dev/null
    [ "$found$signal" = 1TERM ] || exit 0
    sleep 1
done
"""


class SshTransport:
    """A logged-in connection, as a way to start commands.

    Args:
        link: The connection; closed with this.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    def open(self, command: str, deadline: Deadline) -> SshChannel:
        """Start a command in the account's login shell (see :class:`stoker.reach.transport.Transport`)."""
        place = str(self._link.hop)
        with door(place):
            wait_s = min(deadline.left_s, _SEND_TIMEOUT_S)
            channel = self._session(wait_s)
            channel.settimeout(_SEND_TIMEOUT_S)
            with Guard(self._link.alarms, wait_s, channel) as guard:
                try:
                    channel.exec_command(command)
                except paramiko.SSHException as error:
                    if guard.fired:
                        raise Unreachable("timeout", f"{place}: does not start a command") from error
                    raise
        return SshChannel(channel, place, self._link.alarms)

    def _session(self, wait_s: float) -> paramiko.Channel:
        try:
            return in_pieces(self._link.transport.open_session(timeout=wait_s))
        except paramiko.ChannelException as error:
            raise Unreachable(
                "refused",
                f"{self._link.hop}: the server allows no further channel",
                evidence=[str(error.text)],
                next_step="check MaxSessions of its sshd",
            ) from error

    def close(self) -> None:
        """End the connection."""
        self._link.close()


class SshChannel:
    """One command of an SSH connection.

    Args:
        channel: paramiko's.
        place: What was reached, for messages.
        alarms: What knows the time.
    """

    def __init__(self, channel: paramiko.Channel, place: str, alarms: Alarms) -> None:
        self._channel = channel
        self._alarms = alarms
        self._place = place
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)

    def send(self, data: bytes) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        with door(self._place):
            self._channel.sendall(data)

    def end_input(self) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.shutdown_write()

    def read(self, wait_s: float) -> tuple[Stream, bytes] | None:
        """See :class:`stoker.reach.transport.Channel`."""
        if not self._ready():
            # One descriptor of paramiko's stands for both streams and for their end.
            self._poll.poll(wait_s * 1000)
        ended = self._channel.eof_received or self._channel.closed
        with door(self._place):
            if self._channel.recv_ready():
                return "stdout", self._channel.recv(_READ)
            if self._channel.recv_stderr_ready():
                return "stderr", self._channel.recv_stderr(_READ)
        return ("stdout", b"") if ended else None

    def _ready(self) -> bool:
        return self._channel.recv_ready() or self._channel.recv_stderr_ready() or self._channel.closed

    def exit_status(self, wait_s: float) -> int | None:
        """See :class:`stoker.reach.transport.Channel`."""
        self._channel.status_event.wait(wait_s)
        status, known = self._channel.exit_status, self._channel.status_event.is_set()
        lost = status < 0 and not self._channel.get_transport().is_active()
        return status if known and not lost else None

    def terminate(self) -> None:
        """Ask sshd to signal the command (RFC 4254, 6.9); where it does not, do it from beside the command.

        OpenSSH passes no signals on in sessions of root, nor where it runs without privilege separation.
        """
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            for name in ("TERM", "KILL"):
                self._request_signal(name)
                if self._channel.status_event.wait(_SIGNAL_S):
                    return
            self._kill_from_beside()

    def _request_signal(self, name: str) -> None:
        request = paramiko.Message()
        request.add_byte(cMSG_CHANNEL_REQUEST)
        request.add_int(self._channel.remote_chanid)
        request.add_string("signal")
        request.add_boolean(False)
        request.add_string(name)
        self._channel.get_transport()._send_user_message(request)  # type: ignore[attr-defined]

    def _kill_from_beside(self) -> None:
        beside = self._channel.get_transport().open_session(timeout=_BESIDE_S)
        beside.settimeout(_BESIDE_S)
        with Guard(self._alarms, _BESIDE_S, beside):
            beside.exec_command("exec /bin/sh -s")
            beside.sendall(_KILL_SIBLINGS)
            beside.shutdown_write()
            beside.status_event.wait(_BESIDE_S)
        beside.close()

    def close(self) -> None:
        """See :class:`stoker.reach.transport.Channel`."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()
