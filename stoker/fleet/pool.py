"""Many hosts at once, with a bound: a failed host is a value, and one never stops another."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stoker.errors import HostError, HostInterrupted, HostUnreachable, InputError, OneHostsInput, StokerError
from stoker.fleet.crew import Crew

Status = Literal["ok", "failed", "unreachable", "skipped", "interrupted"]

# After Ctrl-C: how long what runs has to come to an end.
GRACE_S = 10.0
# A Ctrl-C that comes just before a thread begins to wait, or comes to another thread, does not wake it: it is
# seen at the next look.
LOOK_S = 0.5
_TRACEBACK_LINES = 30


@dataclass(frozen=True)
class HostResult:
    """What came of one host.

    Args:
        host: The inventory's name.
        status: ``skipped``: never begun, since another failed; ``interrupted``: cut short, or never begun.
        data: What the work returned; None where it did not.
        error: Why it is not ok.
        seconds: How long it took.
        changed: Whether the host was changed, as the work's data says.
        why: Why a skipped one was not begun.
    """

    host: str
    status: Status
    data: Any = None
    error: StokerError | None = None
    seconds: float = 0.0
    changed: bool = False
    why: str = ""


Work = Callable[[str], Any]
OnDone = Callable[[HostResult], None]


def fan_out(
    items: Sequence[str],
    work: Work,
    *,
    forks: int,
    on_done: OnDone | None = None,
    stop: threading.Event | None = None,
    grace_s: float = GRACE_S,
    crew: Crew | None = None,
) -> list[HostResult]:
    """Do something on every host, so many at once.

    Args:
        items: Names of hosts; one that is named twice is one host.
        work: Does it on one; runs in another thread, and must not ask anybody anything.
        forks: How many at once, at least 1.
        on_done: Gets each result as it comes, in this thread.
        stop: Set by Ctrl-C: whoever gave it to the work's calls ends them by it.
        grace_s: How long after Ctrl-C the running ones may still take.
        crew: Whose threads do it; None: those of this fan-out alone.

    Returns:
        A result a host, in the order of ``items``. After Ctrl-C the ones that were not done are
        ``interrupted``; a second Ctrl-C does not wait for them.

    Raises:
        InputError: Of the work, once the others that were running have ended: nothing more is begun. What
            only one host could show (:class:`OneHostsInput`) is that host's result.
    """
    fan = _Fan(items, work, on_done or _ignore, stop or threading.Event())
    try:
        fan.start(max(forks, 1), crew)
        fan.collect()
    except KeyboardInterrupt:
        fan.interrupt()
        fan.collect_patiently(grace_s)
    except BaseException:  # of on_done
        fan.interrupt()
        raise
    if fan.wrong_input is not None:
        raise fan.wrong_input
    return fan.results()


def roll(
    items: Sequence[str],
    work: Work,
    *,
    serial: int,
    forks: int,
    on_done: OnDone | None = None,
    stop: threading.Event | None = None,
    grace_s: float = GRACE_S,
) -> list[HostResult]:
    """Do something on every host in batches; stop behind the first batch in which one is not ok.

    Args:
        items: Names of hosts.
        work: As for :func:`fan_out`.
        serial: Hosts a batch, at least 1.
        forks: How many at once within a batch.
        on_done: As for :func:`fan_out`; also gets the skipped ones.
        stop: As for :func:`fan_out`.
        grace_s: As for :func:`fan_out`.

    Returns:
        A result a host; those behind a bad batch are ``skipped`` (``interrupted`` after Ctrl-C).

    Raises:
        InputError: As :func:`fan_out`.
    """
    items, stop = list(dict.fromkeys(items)), stop or threading.Event()
    size, done = max(serial, 1), list[HostResult]()
    while len(done) < len(items):
        batch = items[len(done) : len(done) + size]
        done += fan_out(batch, work, forks=forks, on_done=on_done, stop=stop, grace_s=grace_s)
        if stop.is_set() or any(result.status != "ok" for result in done):
            break
    why = "" if stop.is_set() else f"not begun: {_stoppers(done)}"
    for name in items[len(done) :]:
        result = HostResult(name, "interrupted" if stop.is_set() else "skipped", why=why)
        done.append(result)
        (on_done or _ignore)(result)
    return done


def _stoppers(done: Sequence[HostResult]) -> str:
    """Who ended a roll: ``node179 was unreachable``."""
    words = {"failed": "failed", "unreachable": "was unreachable", "interrupted": "was interrupted"}
    return ", ".join(f"{one.host} {words[one.status]}" for one in done if one.status in words)


class _Fan:
    """The threads of one fan-out and what they have brought so far.

    Ctrl-C may hit the calling thread between any two of its steps. So nothing is handed to it that it could
    lose on the way: a result is kept before it is told, and what is still to come is counted.
    """

    def __init__(self, items: Sequence[str], work: Work, on_done: OnDone, stop: threading.Event) -> None:
        self._items = list(dict.fromkeys(items))
        self._work = work
        self._on_done = on_done
        self._stop = stop
        self._pending = self._items[::-1]
        self._dropped: list[str] = []
        self._results: dict[str, HostResult] = {}
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._shown = 0
        self.wrong_input: InputError | None = None

    def start(self, forks: int, crew: Crew | None) -> None:
        """So many threads, of a crew that is there or of our own."""
        with contextlib.nullcontext(crew) if crew else Crew() as there:
            for _ in range(min(forks, len(self._items))):
                there.do(self._run)

    def _run(self) -> None:
        while True:
            try:
                name = self._pending.pop()
            except IndexError:
                return
            self._results[name] = self._one(name)
            self._news.put(None)

    def _one(self, name: str) -> HostResult:
        begun = time.monotonic()
        try:
            data = self._work(name)
        except BaseException as error:
            if _is_everybodys(error):
                self._begin_no_more()
            return _failure(name, error, time.monotonic() - begun, self._stop.is_set())
        return HostResult(name, "ok", data, None, time.monotonic() - begun, _changed(data))

    def collect(self, deadline: float | None = None) -> None:
        """Show results as they come, until none is outstanding, or until a moment of the monotonic clock."""
        while True:
            outstanding = len(self._results) + len(self._dropped) < len(self._items)
            self._show()
            if not outstanding:
                return
            left_s = LOOK_S if deadline is None else deadline - time.monotonic()
            if left_s <= 0:
                return
            with contextlib.suppress(queue.Empty):
                self._news.get(timeout=min(left_s, LOOK_S))

    def _show(self) -> None:
        for result in list(self._results.values())[self._shown :]:
            self._shown += 1
            if isinstance(result.error, InputError) and _is_everybodys(result.error):
                self.wrong_input = self.wrong_input or result.error
            else:
                self._on_done(result)

    def _begin_no_more(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._dropped.append(self._pending.pop())

    def interrupt(self) -> None:
        """Begin nothing more, and tell what runs."""
        self._stop.set()
        self._begin_no_more()

    def collect_patiently(self, grace_s: float) -> None:
        """After Ctrl-C: take what still comes; a second Ctrl-C ends the patience."""
        with contextlib.suppress(KeyboardInterrupt):
            self.collect(time.monotonic() + grace_s)

    def results(self) -> list[HostResult]:
        """One a host; those without one were cut short."""
        return [self._results.get(name) or self._cut_short(name) for name in self._items]

    def _cut_short(self, name: str) -> HostResult:
        """One that was never begun, or that did not end within our patience."""
        if name in self._dropped:
            return HostResult(name, "interrupted", why="not begun")
        error = HostInterrupted(
            "cut short: what was begun there may still go on",
            host=name,
            kind="cancelled",
            next_step=f"inv status --host {name} shows what runs there",
        )
        return HostResult(name, "interrupted", error=error)


def _is_everybodys(error: BaseException | None) -> bool:
    """Whether what was given is wrong for every host, so that nothing more is begun."""
    return isinstance(error, InputError) and not isinstance(error, OneHostsInput)


def _failure(name: str, error: BaseException, seconds: float, stopped: bool) -> HostResult:
    """What was raised, as a result."""
    if isinstance(error, KeyboardInterrupt):
        return HostResult(name, "interrupted", error=None, seconds=seconds)
    if isinstance(error, HostInterrupted):
        return HostResult(name, "interrupted", error=error, seconds=seconds)
    if isinstance(error, HostError) and stopped and error.kind == "cancelled":
        return HostResult(name, "interrupted", error=None, seconds=seconds)
    if isinstance(error, HostUnreachable):
        return HostResult(name, "unreachable", error=error, seconds=seconds)
    if isinstance(error, StokerError):
        return HostResult(name, "failed", error=error, seconds=seconds)
    lines = traceback.format_exception(error)
    fault = StokerError(
        f"fault in Stoker: {type(error).__name__}: {error}",
        where=name,
        evidence="".join(lines).splitlines()[-_TRACEBACK_LINES:],
        next_step="report it, with the lines above",
    )
    return HostResult(name, "failed", error=fault, seconds=seconds)


def _changed(data: Any) -> bool:
    """Whether the work's data, or any of it where it is a list, says that the host was changed."""
    parts = data if isinstance(data, list | tuple) else [data]
    return any(bool(getattr(part, "changed", False)) for part in parts)


def _ignore(result: HostResult) -> None:
    """Nobody watches."""
