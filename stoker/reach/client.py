"""The agent's client: one connection, one agent, calls with events."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from stoker.errors import HostFailed, HostUnreachable
from stoker.reach import parcel
from stoker.reach.boot import Booting
from stoker.reach.door import Unreachable
from stoker.reach.target import ReachSettings, Target
from stoker.reach.transport import Channel, Deadline, Transport
from stoker.reach.wire import Wire

PING_S = 10.0
# How long an agent has to answer a cancel, and to end when it is told to.
CANCEL_S = 5.0
GOODBYE_S = 2.0

OnEvent = Callable[[dict[str, Any]], None]


class Agent:
    """The agent on one host. Calls come one after the other; ``cancel`` and ``close`` from any thread.

    Args:
        target: The host.
        transport: The way to it; closed with this.
        settings: How long to wait for its greeting, and for a word of it later.
        stop: Set to end whatever the agent is asked to do.

    Attributes:
        hello: The greeting: ``python``, ``pid``, ``uid``, ``user``, ``executable``, ``version``.
        silence_s: Without a word for this long the host is lost.
    """

    def __init__(
        self,
        target: Target,
        transport: Transport,
        settings: ReachSettings,
        stop: threading.Event | None = None,
    ) -> None:
        self.host = target.name
        self.silence_s = settings.silence_s
        self.transport = transport
        self._stop = stop or threading.Event()
        self._turn = threading.RLock()
        self._closed = threading.Event()
        self._running: int | None = None
        self._calls = 0
        self._is_whole = False
        deadline = Deadline(settings.login_timeout_s)
        booting = Booting(target.name, target.python, self.silence_s)
        try:
            self._channel: Channel = transport.open(booting.command, deadline)
            # A command that ended early closes the channel in the middle of this; what it said tells more.
            with contextlib.suppress(Unreachable):
                self._channel.send(booting.input)
            self._wire = Wire(self._channel, booting.wait(self._channel, deadline), self.silence_s)
            self.hello: dict[str, Any] = self._greeting(deadline)
        except Unreachable as error:
            raise error.at(self.host) from error
        threading.Thread(target=self._ping, name=f"ping {self.host}", daemon=True).start()

    def call(
        self,
        op: str,
        params: dict[str, Any],
        *,
        on_event: OnEvent | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Run one operation.

        Args:
            op: Its name.
            params: JSON types.
            on_event: Gets each event, in this thread.
            timeout_s: Deadline of ours: then the step is cancelled on the host.

        Returns:
            The operation's result.

        Raises:
            HostFailed: The operation failed, was ``cancelled``, or passed the deadline (``timeout``).
            HostUnreachable: ``lost``.
        """
        with self._turn, self._losing(op):
            if self._stop.is_set():
                raise HostFailed(f"{op} was not begun: interrupted", host=self.host, kind="cancelled")
            self._calls += 1
            self._running = self._calls
            try:
                self._complete(op)
                self._wire.send({"id": self._running, "op": op, "params": params})
                return self._follow(op, on_event or _ignore, Deadline(timeout_s))
            except KeyboardInterrupt:
                self._abandon()
                self.close()
                raise
            except (HostFailed, Unreachable):
                raise
            except BaseException:  # of on_event: what was asked for must not go on unseen
                self._abandon()
                raise
            finally:
                self._running = None

    def cancel(self) -> None:
        """Ask the agent to end what it is doing; the call then ends with its answer."""
        running = self._running
        if running is not None:
            with contextlib.suppress(Unreachable):
                self._wire.send({"cancel": running})

    def leave(self) -> None:
        """Tell the agent to end without waiting for it; who closes many tells all of them first."""
        if not self._closed.is_set():
            self._channel.end_input()

    def close(self) -> None:
        """End the agent and the connection; a second time is harmless.

        The agent is given a moment, so that what it holds (locks) is free when this returns.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        self._channel.end_input()
        # A call that runs in another thread sees the end itself.
        if self._turn.acquire(timeout=GOODBYE_S):
            try:
                with contextlib.suppress(Unreachable):
                    self._wire.await_end(Deadline(GOODBYE_S))
            finally:
                self._turn.release()
        self._channel.close()
        self.transport.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Following one call.

    def _follow(self, op: str, on_event: OnEvent, deadline: Deadline) -> dict[str, Any]:
        """Events until the result.

        Raises:
            HostFailed: The error it ended with, or that it did not end in time.
            Unreachable: The link is gone.
        """
        ending: Deadline | None = None
        number = self._running
        for message in self._wire.messages():
            if ending is None and (deadline.passed or self._stop.is_set()):
                ending = Deadline(CANCEL_S)
                self.cancel()
            if ending is not None and ending.passed:
                raise self._did_not_end(op, deadline)
            if message is None or message.get("id") != number:
                continue
            if "event" in message:
                if isinstance(message["event"], dict):
                    on_event(message["event"])
            elif "error" in message:
                raise self._failed(op, message["error"], deadline)
            else:
                return dict(message.get("result") or {})
        raise AssertionError("messages end by an error")

    def _complete(self, op: str) -> None:
        """Send the rest of the agent before the first operation that may need it."""
        if not self._is_whole and op not in parcel.CORE_OPERATIONS:
            self._is_whole = True
            self._wire.send(parcel.rest())

    def _greeting(self, deadline: Deadline) -> dict[str, Any]:
        for message in self._wire.messages():
            if message is not None and "hello" in message:
                return dict(message["hello"])
            if deadline.passed:
                break
        raise Unreachable("timeout", f"the agent did not greet within {deadline.seconds:g} s")

    def _abandon(self) -> None:
        """Cancel the running call and wait a moment for its answer, whatever it is."""
        number, deadline = self._running, Deadline(CANCEL_S)
        self.cancel()
        with contextlib.suppress(Unreachable):
            for message in self._wire.messages():
                answered = message is not None and message.get("id") == number and "event" not in message
                if answered or deadline.passed:
                    return

    def _ping(self) -> None:
        """The agent ends by itself when it hears nothing, so it must hear something between calls too."""
        number = 0
        while not self._closed.wait(min(PING_S, self.silence_s / 4)):
            number += 1
            try:
                self._wire.send({"ping": number})
            except Unreachable:
                return  # the next call tells

    # Saying what went wrong.

    @contextlib.contextmanager
    def _losing(self, op: str) -> Iterator[None]:
        """A lost link as an error of this host."""
        try:
            yield
        except Unreachable as error:
            raise self._lost(op, error) from error

    def _lost(self, op: str, error: Unreachable) -> HostUnreachable:
        lost = Unreachable(
            error.kind,
            f"lost during {op}: {error.what}" if error.kind == "lost" else error.what,
            evidence=[*error.evidence, *self._wire.last_words],
            next_step=error.next_step or "look at the host, then run the command again",
        )
        return lost.at(self.host)

    def _failed(self, op: str, error: Any, deadline: Deadline) -> HostFailed:
        """The agent's error; one that our own deadline caused says so."""
        if not isinstance(error, dict):
            error = {"what": str(error)}
        kind = str(error.get("kind") or "fault")
        if kind == "cancelled" and deadline.passed:
            return self._did_not_end(op, deadline)
        detail = error.get("detail")
        return HostFailed(
            str(error.get("what") or f"{op} failed"),
            host=self.host,
            kind=kind,
            evidence=[str(line) for line in error.get("evidence") or ()],
            next_step=str(error.get("next") or ""),
            detail=detail if isinstance(detail, dict) else None,
        )

    def _did_not_end(self, op: str, deadline: Deadline) -> HostFailed:
        kind, what = "cancelled", f"{op} was told to end, and finishes on the host what it must"
        if deadline.passed:
            kind, what = "timeout", f"{op} was not done within {deadline.seconds:g} s and was cancelled"
        return HostFailed(
            what,
            host=self.host,
            kind=kind,
            next_step="see `inv status` for what runs there",
            detail={"unfinished": True},
        )


def _ignore(event: dict[str, Any]) -> None:
    """Nobody watches."""
