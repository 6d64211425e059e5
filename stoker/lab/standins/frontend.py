"""The API process's side of the decoding loop: requests out, tokens in, counters."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.lab.standins import words


class Tokens(NamedTuple):
    """Some tokens of one request.

    Args:
        text: What they say.
        number: How many they are.
        finish: ``length`` or ``stop`` with the last ones, else empty.
    """

    text: str
    number: int
    finish: str


@dataclass
class Stats:
    """What the metrics tell, since the start (``running`` and ``waiting``: now)."""

    running: int = 0
    waiting: int = 0
    requests: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    prompt_tokens: int = 0
    generation_tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0

    @property
    def accept_length(self) -> float:
        """Mean tokens a step of a request; 0 before the first."""
        return 1 + self.accepted / self.steps if self.steps else 0.0


class EngineGoneError(Exception):
    """The engine's processes are gone."""


class Frontend:
    """Sends requests to the loop and hands out what comes back.

    Args:
        requests: Socket towards the loop.
        tokens: Socket from the loop, or from the detokenizer behind it.
    """

    def __init__(self, requests: socket.socket, tokens: socket.socket) -> None:
        self.stats = Stats()
        self._requests = requests
        self._tokens = tokens
        self._queues: dict[int, asyncio.Queue[Tokens | None]] = {}
        self._made: dict[int, int] = {}
        self._uncounted: list[int] = []
        self._last = 0

    def start(self) -> None:
        """Begin to listen to the loop; inside a running event loop."""
        self._tokens.setblocking(False)
        asyncio.get_running_loop().add_reader(self._tokens, self._receive)

    @property
    def in_flight(self) -> int:
        """Requests that have not ended."""
        return len(self._queues)

    async def generate(
        self, prompt_tokens: int, max_new: int, finish: str, *, counted: bool = True
    ) -> AsyncGenerator[Tokens, None]:
        """Have tokens generated; leaving the loop early aborts the request.

        Args:
            prompt_tokens: How many were asked.
            max_new: How many to make.
            finish: Why the last one is the last: ``length`` or ``stop``.
            counted: False for the server's own probes, which the metrics leave out.

        Raises:
            EngineGoneError: The engine's processes ended before the last token.
        """
        self._last += 1
        rid = self._last
        queue = self._queues[rid] = asyncio.Queue()
        self._made[rid] = 0
        self._uncounted += [] if counted else [rid]
        self.stats.requests += counted
        self.stats.prompt_tokens += prompt_tokens if counted else 0
        self._send({"rid": rid, "prompt": prompt_tokens, "max_new": max_new})
        ended = False
        try:
            while not ended:
                tokens = await queue.get()
                if tokens is None:
                    raise EngineGoneError
                ended = bool(tokens.finish)
                yield tokens._replace(finish=finish if ended else "")
        finally:
            del self._queues[rid], self._made[rid]
            self.stats.finished[finish if ended else "abort"] += counted
            if not ended:
                self._send({"abort": rid})

    def stop(self) -> None:
        """Ask the loop to end."""
        self._send({"stop": True})

    def fail(self) -> None:
        """The engine is gone: end what waits for it."""
        asyncio.get_running_loop().remove_reader(self._tokens)
        for queue in self._queues.values():
            queue.put_nowait(None)

    def _send(self, message: dict[str, object]) -> None:
        try:
            self._requests.send(json.dumps(message).encode())
        except OSError:
            for queue in self._queues.values():
                queue.put_nowait(None)

    def _receive(self) -> None:
        try:
            data = self._tokens.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.fail()
            return
        message = json.loads(data)
        stats = self.stats
        stats.running, stats.waiting = message["running"], message["waiting"]
        stats.steps += message["steps"]
        stats.drafted += message["drafted"]
        stats.accepted += message["accepted"]
        for rid, count, finish in message["out"]:
            self._hand_out(rid, count, finish)

    def _hand_out(self, rid: int, count: int, finish: str | None) -> None:
        if rid not in self._uncounted:
            self.stats.generation_tokens += count
        elif finish:
            self._uncounted.remove(rid)
        if rid in self._queues:
            said = words.text(rid, self._made[rid], count)
            self._made[rid] += count
            self._queues[rid].put_nowait(Tokens(said, count, finish or ""))
