"""A second channel of a host that carries files: the program at its other end, what it says, and how fast."""

from __future__ import annotations

import base64
import functools
import json
import secrets
import shlex
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import stoker
from stoker.errors import HostFailed
from stoker.reach.client import Agent
from stoker.reach.door import Unreachable
from stoker.reach.transport import Channel, Deadline

_BLOCK = 1 << 18
_START_S = 30.0
_MOST_LINE = 16 << 20
_MOST_NOISE = 1 << 20
_ERRORS_KEPT = 8192
_MOST_OF_LINE = 500
_AGAIN = "look at the host, then run the command again: what was carried before is not carried again"


class Pace:
    """Keeps a stream to a speed.

    Args:
        rate: Bytes a second; None: as fast as it goes.
    """

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    @property
    def block(self) -> int:
        """As many bytes at once as do not come in bursts."""
        return _BLOCK if self._rate is None else max(min(_BLOCK, int(self._rate / 10)), 1)

    def passed(self, size: int) -> None:
        """So many bytes went by: wait until they were due."""
        if self._rate is None:
            return
        now = time.monotonic()
        self._due = max(self._due, now - 0.2) + size / self._rate
        if self._due > now:
            time.sleep(self._due - now)


class Carrier:
    """The program on the host that takes or sends files, as a context.

    Args:
        agent: The host.
        order: What it is to do; see ``stoker/agent/carry.py``.
        pace: How fast bytes are taken from it.

    Raises:
        HostFailed: ``io``: it does not start.
        HostUnreachable: Lost on the way.
    """

    def __init__(self, agent: Agent, order: dict[str, Any], pace: Pace | None = None) -> None:
        self._host = agent.host
        self._silence_s = agent.silence_s
        self._pace = pace or Pace(None)
        self._buffer = bytearray()
        self._errors = b""
        self._complained = 0
        self._mark = "stoker-" + secrets.token_hex(8)
        python = str(agent.hello["executable"])
        try:
            self._channel: Channel = agent.transport.open(_command(python, self._mark), Deadline(_START_S))
        except Unreachable as error:
            raise error.at(self._host) from error
        try:
            # The empty line is for a start-up file that reads one.
            whole = {"silence_s": self._silence_s, "alive_s": self._silence_s / 4, **order}
            self._channel.send(b"\n" + f"{self._mark} {json.dumps(whole)}\n".encode())
            self._skip_to_mark()
        except Unreachable as error:
            self._channel.close()
            raise error.at(self._host) from error
        except BaseException:
            self._channel.close()
            raise
        self._ended = threading.Event()
        if order["do"] == "send":
            threading.Thread(target=self._live, name=f"alive {self._host}", daemon=True).start()

    def _live(self) -> None:
        """Say that we are here: our disk may sync gigabytes, or a slow rate be asked for."""
        while not self._ended.wait(self._silence_s / 4):
            try:
                self._channel.send(b"\n")
            except Unreachable:
                return  # whoever reads notices

    def __enter__(self) -> Carrier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._channel.close()

    @property
    def last_words(self) -> list[str]:
        """The end of what it complained of."""
        lines = self._errors.decode(errors="replace").splitlines()
        return [line[:_MOST_OF_LINE] for line in lines if line][-5:]

    def send(self, data: bytes) -> None:
        """Give it bytes.

        Raises:
            HostFailed: ``io``: it said why it takes no more.
            Unreachable: The link is gone.
        """
        try:
            self._channel.send(data)
        except Unreachable:
            self.answer("put")  # what it said last tells more
            raise

    def answer(self, word: str) -> dict[str, Any]:
        """Its next line.

        Args:
            word: What must be in it.

        Raises:
            HostFailed: ``io``: its error; ``bad-result``: it is no such answer.
            Unreachable: The link is gone.
        """
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MOST_LINE or not self._more():
                raise self.failed("bad-result", "the host does not answer as it should", self.last_words)
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        error = message.get("error") if isinstance(message, dict) else None
        if isinstance(error, dict):
            raise self.failed("io", f"{error.get('path')}: {error.get('what')}", self.last_words)
        if not isinstance(message, dict) or word not in message:
            raise self.failed("bad-result", "the host does not answer as it should", [repr(line[:200])])
        return message

    def take(self, size: int) -> Iterator[bytes]:
        """Exactly so many bytes of what it sends, or fewer where it ends.

        Raises:
            Unreachable: The link is gone.
            HostFailed: ``io``: it complains without end.
        """
        while size:
            if not self._buffer and not self._more():
                return
            most = min(size, self._pace.block)
            if len(self._buffer) <= most:
                block, self._buffer = bytes(self._buffer), bytearray()
            else:
                block = bytes(self._buffer[:most])
                del self._buffer[:most]
            size -= len(block)
            self._pace.passed(len(block))
            yield block

    def failed(self, kind: str, what: str, evidence: list[str]) -> HostFailed:
        """An error of this host."""
        return HostFailed(what, host=self._host, kind=kind, evidence=evidence, next_step=_AGAIN)

    def _skip_to_mark(self) -> None:
        """Pass over what the login shell prints."""
        mark, noise = self._mark.encode() + b"\n", 0
        while mark not in self._buffer:
            noise += max(len(self._buffer) - len(mark), 0)
            del self._buffer[: -len(mark)]
            if noise > _MOST_NOISE or not self._more():
                raise self.failed("io", "the host does not carry files", self.last_words)
        del self._buffer[: self._buffer.index(mark) + len(mark)]

    def _more(self) -> bool:
        """Wait for more of what it says; False at its end.

        Raises:
            Unreachable: Lost, or silent for too long.
            HostFailed: ``io``: it complains without end.
        """
        while True:
            said = self._channel.read(self._silence_s)
            if said is None:
                raise _lost(f"nothing came for {self._silence_s:g} s")
            stream, data = said
            if stream == "stderr":
                self._errors = (self._errors + data)[-_ERRORS_KEPT:]
                self._complained += len(data)
                if self._complained > _MOST_NOISE:
                    raise self.failed("io", "what carries files complains without end", self.last_words)
                continue
            self._buffer += data
            if not data:
                status = self._channel.exit_status(1.0)
                if status is None:
                    raise _lost("the connection was lost")
                if status < 0:
                    raise _lost("what carries them was killed")
            return bool(data)


def _lost(why: str) -> Unreachable:
    return Unreachable("lost", f"{why} while files were carried", next_step=_AGAIN)


def _command(python: str, mark: str) -> str:
    """For the login shell, of whatever kind it is."""
    return f"exec {shlex.quote(python)} -ISuc '{_program()}' {mark}"


@functools.cache
def _program() -> str:
    """The program on one line, without a character that a shell could misread."""
    source = (Path(stoker.__file__).parent / "agent" / "carry.py").read_bytes()
    packed = base64.b64encode(zlib.compress(source, 9)).decode()
    return f'import zlib,binascii;exec(zlib.decompress(binascii.a2b_base64("{packed}")))'
