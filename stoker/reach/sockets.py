"""Byte streams to an SSH server: TCP, and the streams of a ProxyCommand."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from stoker.reach.door import Unreachable, door
from stoker.reach.route import Hop
from stoker.reach.transport import Deadline

# Sent data without an acknowledgement for this long: the kernel ends the connection.
_USER_TIMEOUT_MS = 30_000

T = TypeVar("T")


def dial(hop: Hop) -> socket.socket:
    """A TCP connection to a hop, its small packets sent at once and a dead peer noticed.

    Raises:
        Unreachable: ``name-unknown``, ``refused``, ``timeout``, ``no-route``.
    """
    deadline = Deadline(hop.connect_timeout_s)
    with door(str(hop)):
        failure: OSError = TimeoutError()
        for family, address in _addresses(hop, deadline):
            link = socket.socket(family, socket.SOCK_STREAM)
            try:
                link.settimeout(max(deadline.left_s, 0.001))
                link.connect(address)
            except OSError as error:
                link.close()
                failure = error
                continue
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
            return link
        if isinstance(failure, TimeoutError):
            raise Unreachable("timeout", f"{hop}: no answer within {hop.connect_timeout_s:g} s")
        raise failure


def _addresses(hop: Hop, deadline: Deadline) -> list[tuple[int, Any]]:
    """What a name resolves to.

    Raises:
        OSError: It cannot be resolved (in time).
    """
    try:
        found = _literal(hop) or within(
            deadline.left_s, lambda: socket.getaddrinfo(hop.address, hop.port, type=socket.SOCK_STREAM)
        )
    except TimeoutError:
        why = f"no answer within {hop.connect_timeout_s:g} s"
        raise socket.gaierror(socket.EAI_AGAIN, why) from None
    return [(family, address) for family, _, _, _, address in found]


def _literal(hop: Hop) -> list[Any]:
    """What an address that is no name stands for: nobody has to be asked, so that no thread is needed."""
    try:
        return socket.getaddrinfo(hop.address, hop.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return []


def within(seconds: float, ask: Callable[[], T]) -> T:
    """Ask what knows no deadline (the resolver, an ssh-agent); it is left behind when it takes too long.

    Raises:
        TimeoutError: It took too long.
        OSError: As it raises.
    """
    answer: list[T | OSError] = []

    def run() -> None:
        try:
            answer.append(ask())
        except OSError as error:
            answer.append(error)

    asking = threading.Thread(target=run, name="asking", daemon=True)
    asking.start()
    asking.join(seconds)
    if not answer:
        raise TimeoutError(f"no answer within {seconds:g} s")
    if isinstance(answer[0], OSError):
        raise answer[0]
    return answer[0]


class Proxy:
    """A running ProxyCommand.

    paramiko's own class spins when the command ends, waits forever on a full error stream, leaves a zombie.

    Args:
        command: For ``/bin/sh``, tokens expanded.
    """

    def __init__(self, command: str) -> None:
        import tempfile

        self.socket, other = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the rest, in close()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                stdin=other.fileno(),
                stdout=other.fileno(),
                stderr=self._errors.fileno(),
                start_new_session=True,  # Ctrl-C is ours: the way to the host must outlive it
            )
        finally:
            other.close()

    def last_words(self) -> list[str]:
        """The end of what it wrote to its error stream."""
        end = self._errors.seek(0, 2)
        self._errors.seek(max(end - 2000, 0))
        return self._errors.read().decode(errors="replace").splitlines()[-5:]

    def close(self) -> None:
        """End it."""
        self.socket.close()
        self._process.terminate()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


class Alarms:
    """Calls back when a time has come: one thread for all, which ends when nothing is awaited any more.

    A thread for each would cost a connection as much as its key exchange.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: dict[int, Callable[[], None]] = {}
        self._due: list[tuple[float, int]] = []
        self._numbers = itertools.count()
        self._is_awake = False

    def set(self, seconds: float, call: Callable[[], None]) -> int:
        """Have something called then, in a thread of its own, unless it is cancelled; returns its number."""
        with self._changed:
            number = next(self._numbers)
            self._calls[number] = call
            heapq.heappush(self._due, (time.monotonic() + seconds, number))
            if not self._is_awake:
                self._is_awake = True
                threading.Thread(target=self._watch, name="alarms", daemon=True).start()
            elif self._due[0][1] == number:
                self._changed.notify()
            return number

    def cancel(self, number: int) -> None:
        """Do not call; too late is harmless."""
        with self._changed:
            self._calls.pop(number, None)
            if not self._calls:
                self._changed.notify()

    def _watch(self) -> None:
        with self._changed:
            while self._calls:
                when, number = self._due[0]
                left_s = when - time.monotonic()
                if number in self._calls and left_s > 0:
                    self._changed.wait(left_s)
                    continue
                heapq.heappop(self._due)
                if number in self._calls:
                    threading.Thread(target=self._calls.pop(number), name="alarm", daemon=True).start()
            self._due.clear()
            self._is_awake = False


class Guard:
    """Shuts a connection when a deadline passes inside: paramiko waits in places that know no timeout.

    Args:
        alarms: What knows the time.
        seconds: Until then.
        link: What to shut: a socket, or a channel of paramiko.
    """

    def __init__(self, alarms: Alarms, seconds: float, link: Any) -> None:
        self.fired = False
        self._alarms = alarms
        self.seconds = seconds
        self._link = link
        self._number = -1

    def _fire(self) -> None:
        self.fired = True
        shut(self._link)

    def __enter__(self) -> Guard:
        self._number = self._alarms.set(self.seconds, self._fire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._alarms.cancel(self._number)


def shut(link: Any) -> None:
    """End a socket's or channel's traffic at once, so that whoever reads from it is woken."""
    with contextlib.suppress(OSError, EOFError):
        if isinstance(link, socket.socket):
            link.shutdown(socket.SHUT_RDWR)
        else:
            link.close()
