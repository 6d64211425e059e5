"""One command on one bare channel, without the agent: what ``inv exec`` does."""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from stoker.errors import HostFailed
from stoker.reach.door import Unreachable
from stoker.reach.reach import Reach
from stoker.reach.target import Target
from stoker.reach.transport import Channel, Deadline, Stream

# Of each stream the last so many characters are kept; whoever watches gets all of it.
KEEP = 16 << 20
_TICK_S = 0.2
# A background child may hold the streams of a command that has ended; it is not waited for.
_LINGER_S = 0.3
_START_S = 30.0

OnOutput = Callable[[Stream, str], None]


class Finished(NamedTuple):
    """How a command ended.

    Args:
        rc: Its exit code; -1 where a signal ended it.
        stdout: What it wrote.
        stderr: What it complained of.
    """

    rc: int
    stdout: str
    stderr: str


class _Kept:
    """A stream as text, its end kept; a character split over two reads arrives whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []
        self._size = 0

    def add(self, data: bytes, final: bool = False) -> str:
        text = self._decoder.decode(data, final)
        self._parts.append(text)
        self._size += len(text)
        while self._size - len(self._parts[0]) > KEEP:
            self._size -= len(self._parts.pop(0))
        return text

    @property
    def text(self) -> str:
        return "".join(self._parts)


def run_bare(
    target: Target,
    command: str,
    reach: Reach,
    *,
    stdin: bytes = b"",
    timeout_s: float | None = None,
    on_output: OnOutput | None = None,
    stop: threading.Event | None = None,
) -> Finished:
    """Run a command in the host's login shell.

    Args:
        target: The host.
        command: As the shell gets it.
        reach: How hosts are reached.
        stdin: Its input.
        timeout_s: Until it must have ended; then it is ended on the host, as far as sshd passes signals on.
        on_output: Gets (stream, text) as it comes.
        stop: Set to end it.

    Raises:
        HostUnreachable: Not reached, or lost on the way.
        HostFailed: ``timeout``, ``cancelled``.
        InputError: What the inventory or ssh_config says is wrong.
    """
    transport = reach.transport(target)
    try:
        channel = transport.open(command, Deadline(_START_S))
        try:
            return _Following(target.name, channel, on_output).follow(stdin, Deadline(timeout_s), stop)
        finally:
            channel.close()
    except Unreachable as error:
        raise error.at(target.name) from error
    finally:
        transport.close()


class _Following:
    """A running command and what it has said so far."""

    def __init__(self, host: str, channel: Channel, on_output: OnOutput | None) -> None:
        self._host = host
        self._channel = channel
        self._on_output = on_output
        self._kept: dict[Stream, _Kept] = {"stdout": _Kept(), "stderr": _Kept()}

    def follow(self, stdin: bytes, deadline: Deadline, stop: threading.Event | None) -> Finished:
        try:
            if stdin:  # in a thread of its own: the command may want to be read before it reads
                threading.Thread(target=self._feed, args=(stdin,), name="stdin", daemon=True).start()
            else:
                self._channel.end_input()
            self._drain(deadline, stop)
        except BaseException:
            self._channel.terminate()
            raise
        for stream in ("stdout", "stderr"):
            self._take(stream, b"", final=True)
        status = self._channel.exit_status(_LINGER_S)
        if status is None:
            raise Unreachable("lost", "the connection was lost before the command ended")
        return Finished(status, self._kept["stdout"].text, self._kept["stderr"].text)

    def _feed(self, stdin: bytes) -> None:
        try:
            self._channel.send(stdin)
        except Unreachable:
            return  # it reads no more; how it ends says the rest
        self._channel.end_input()

    def _drain(self, deadline: Deadline, stop: threading.Event | None) -> None:
        """Take both streams until the command has ended.

        Raises:
            HostFailed: ``timeout``, ``cancelled``.
            Unreachable: The link is gone.
        """
        quiet_since: float | None = None
        while True:
            said = self._channel.read(min(_TICK_S, deadline.left_s))
            if said == ("stdout", b""):
                return
            if said is not None:
                self._take(*said)
                quiet_since = None
            elif self._channel.exit_status(0) is not None:
                quiet_since = quiet_since or time.monotonic()
                if time.monotonic() - quiet_since > _LINGER_S:
                    return
            if deadline.passed:
                raise self._ended(
                    "timeout", f"the command was not done within {deadline.seconds:g} s and was ended"
                )
            if stop is not None and stop.is_set():
                raise self._ended("cancelled", "the command was interrupted")

    def _take(self, stream: Stream, data: bytes, final: bool = False) -> None:
        text = self._kept[stream].add(data, final)
        if text and self._on_output is not None:
            self._on_output(stream, text)

    def _ended(self, kind: str, what: str) -> HostFailed:
        lines = (self._kept["stdout"].text + "\n" + self._kept["stderr"].text).splitlines()
        return HostFailed(what, host=self._host, kind=kind, evidence=[line for line in lines if line][-5:])
