"""Threads that are kept from one piece of work to the next."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType


class Crew:
    """Threads for many small fan-outs one behind the other, as a context.

    To start a thread is to wait until it runs: of fifty hosts that take each step of a book together, that is
    more than what the steps themselves cost. All are daemons, since one that hangs must not keep the program
    from ending.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._size = 0

    def do(self, call: Callable[[], None]) -> None:
        """Have something called in a thread of its own: one that has nothing to do, or a new one.

        Args:
            call: Raises nothing.
        """
        with self._lock:
            is_there = self._idle > 0
            if is_there:
                self._idle -= 1
            else:
                self._size += 1
        if not is_there:
            threading.Thread(target=self._serve, name=f"host {self._size - 1}", daemon=True).start()
        self._calls.put(call)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            with self._lock:
                self._idle += 1

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let them go, each when what it does is done; nobody is waited for."""
        for _ in range(self._size):
            self._calls.put(None)
