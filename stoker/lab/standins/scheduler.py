"""The decoding loop of a stand-in: continuous batching at the model's pace, kept by absolute deadlines.

It runs in the process that leads the ranks. Messages are JSON over a SEQPACKET socket. In come
``{"rid", "prompt", "max_new"}``, ``{"abort": rid}`` and ``{"stop": true}``; out go
``{"out": [[rid, tokens, finish]], "running", "waiting", "steps", "drafted", "accepted"}``, once a step.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

from stoker.lab.standins import pace

Message = dict[str, Any]


@dataclass(frozen=True)
class StepPlan:
    """How the loop steps.

    Args:
        pace: The slowest rank's.
        drafts: Tokens drafted in a speculative step; 0: no speculation.
        max_running: Requests that decode together; more wait.
        seed: What makes this launch's jitter.
    """

    pace: pace.Pace
    drafts: int
    max_running: int
    seed: tuple[object, ...]


@dataclass
class _Running:
    rid: int
    prompt: int
    max_new: int
    factor: float
    deck: Iterator[int]
    made: int = 0


@dataclass(frozen=True)
class Step:
    """What one step was, for the engine's log.

    Args:
        kind: ``prefill`` or ``decode``.
        batch: Requests that took part.
        waiting: Requests that wait.
        tokens: Prompt tokens read, or tokens decoded.
        held: Tokens of all running requests.
    """

    kind: str
    batch: int
    waiting: int
    tokens: int
    held: int


@dataclass
class Scheduler:
    """The loop.

    Args:
        plan: How it steps.
        inbox: Where requests come from.
        outbox: Where tokens go.
        busy: Called with True and False when work begins and ends.
        log: Called after each step.
    """

    plan: StepPlan
    inbox: socket.socket
    outbox: socket.socket
    busy: Callable[[bool], None]
    log: Callable[[Step], None]
    _waiting: list[_Running] = field(default_factory=list)
    _running: list[_Running] = field(default_factory=list)
    _count: int = 0
    _stopped: bool = False

    def run(self) -> None:
        """Serve until told to stop, or until the other side is gone."""
        launch_factor = pace.jitter(*self.plan.seed)
        deadline = time.perf_counter()
        while not self._stopped:
            if not self._running and not self._waiting:
                self.busy(False)
                self._receive(block=True)
                self.busy(bool(self._waiting))
                deadline = time.perf_counter()
                continue
            if self._waiting and len(self._running) < self.plan.max_running:
                deadline = self._prefill(deadline)
            else:
                deadline = self._decode(deadline, launch_factor)
            self._receive(block=False)

    def _prefill(self, deadline: float) -> float:
        """Read the prompts of those that wait; each gets its first token."""
        room = self.plan.max_running - len(self._running)
        new, self._waiting = self._waiting[:room], self._waiting[room:]
        tokens = sum(request.prompt for request in new)
        deadline += pace.PREFILL_S + pace.PREFILL_S_PER_TOKEN * tokens
        _sleep_until(deadline)
        self._running += new
        self._emit({request.rid: 1 for request in new}, steps=0)
        self.log(Step("prefill", len(new), len(self._waiting), tokens, self._held()))
        return deadline

    def _decode(self, deadline: float, launch_factor: float) -> float:
        """One step of all that run."""
        step_s = self.plan.pace.step_s(len(self._running), self.plan.drafts)
        deadline += step_s / launch_factor / min(request.factor for request in self._running)
        _sleep_until(deadline)
        made = {request.rid: next(request.deck) for request in self._running}
        batch, held = len(self._running), self._held()
        self._emit(made, steps=batch)
        self.log(Step("decode", batch, len(self._waiting), sum(made.values()), held))
        return deadline

    def _emit(self, made: dict[int, int], *, steps: int) -> None:
        out: list[list[object]] = []
        for request in self._running:
            count = min(made.get(request.rid, 0), request.max_new - request.made)
            request.made += count
            if count:
                done = request.made >= request.max_new
                out.append([request.rid, count, "length" if done else None])
        self._running = [request for request in self._running if request.made < request.max_new]
        accepted = sum(made.values()) - steps if steps else 0
        self._send({"out": out, "steps": steps, "drafted": steps * self.plan.drafts, "accepted": accepted})

    def _send(self, message: Message) -> None:
        counts = {"running": len(self._running), "waiting": len(self._waiting)}
        with contextlib.suppress(OSError):  # nobody listens: the GPU is held all the same
            self.outbox.send(json.dumps({**message, **counts}).encode())

    def _held(self) -> int:
        return sum(request.prompt + request.made for request in self._running)

    def _receive(self, *, block: bool) -> None:
        while not self._stopped and (block or select.select([self.inbox], [], [], 0)[0]):
            try:
                data = self.inbox.recv(1 << 16)
            except OSError:
                data = b""
            if not data:  # the frontend is gone: an engine that outlives it holds on to the GPU
                while True:
                    time.sleep(3600)
            self._take(json.loads(data))
            block = False

    def _take(self, message: Message) -> None:
        if "stop" in message:
            self._stopped = True
        elif "abort" in message:
            rid = message["abort"]
            self._running = [request for request in self._running if request.rid != rid]
            self._waiting = [request for request in self._waiting if request.rid != rid]
            self._send({"out": [], "steps": 0, "drafted": 0, "accepted": 0})
        else:
            self._count += 1
            seed = (*self.plan.seed, self._count)
            deck = [1] if not self.plan.drafts else pace.acceptance_deck(self.plan.drafts, seed)
            self._waiting.append(
                _Running(
                    message["rid"], message["prompt"], message["max_new"], pace.jitter(*seed), cycle(deck)
                )
            )
            self._send({"out": [], "steps": 0, "drafted": 0, "accepted": 0})


def _sleep_until(deadline: float) -> None:
    left = deadline - time.perf_counter()
    if left > 0:
        time.sleep(left)
