"""What an operation works with: events, steps, cancelling and the shield."""

from __future__ import annotations

import _thread
import time

from .session import Session

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

    from .facts import Facts
    from .session import Shield


class AgentError(Exception):
    """An operation that could not be done, as the controller is told.

    Args:
        kind: One of the kinds of the contract, e.g. ``lock-held``.
        what: One sentence: what is wrong.
        evidence: The last lines that show it, oldest first.
        next_step: What to do about it, as an imperative sentence.
        detail: JSON types for programs.
    """

    def __init__(
        self,
        kind: str,
        what: str,
        evidence: Iterable[str] = (),
        next_step: str = "",
        detail: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.evidence = [str(line) for line in evidence]
        self.next_step = next_step
        self.detail = dict(detail or {})

    def to_wire(self) -> Dict[str, Any]:
        """The ``error`` of a reply."""
        return {
            "kind": self.kind,
            "what": self.what,
            "evidence": self.evidence,
            "next": self.next_step,
            "detail": self.detail,
        }


class Flag:
    """Something that happens once; what `threading.Event` is, whose module costs every connection four ms."""

    def __init__(self) -> None:
        self._is_set = False
        self._gate = _thread.allocate_lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """It happens; a second time is harmless."""
        self._is_set = True
        self._open()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Wait until it happens, or for so many seconds; whether it has."""
        if timeout is None:
            reached = self._gate.acquire()
        else:
            reached = self._gate.acquire(True, timeout) if timeout > 0 else self._gate.acquire(False)
        if reached:
            self._open()  # for the next one who waits
        return self._is_set

    def _open(self) -> None:
        try:  # noqa: SIM105 - contextlib costs every connection four milliseconds
            self._gate.release()
        except RuntimeError:
            pass  # it is open


class Step:
    """One step while it runs: set ``detail`` to what it found."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.detail = ""


class _Running:
    """A step while it runs: tells its begin and its end, and keeps what it took."""

    def __init__(self, context: Context, name: str) -> None:
        self._context = context
        self._step = Step(name)

    def __enter__(self) -> Step:
        self._context.emit("step", name=self._step.name, state="begin")
        self._began = time.monotonic()
        return self._step

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        step = self._step
        if isinstance(error, Exception):
            step.detail = step.detail or str(error)
        told = {
            "name": step.name,
            "seconds": round(time.monotonic() - self._began, 4),
            "detail": step.detail,
            "ok": not isinstance(error, Exception),
        }
        self._context.steps.append(told)
        self._context.emit("step", state="end", **told)


class Context:
    """What one operation works with.

    Args:
        send: Takes each event; None drops them.
        session: What the agent holds between requests; None: a fresh one.

    Attributes:
        steps: Those that are over: ``{name, seconds, detail}``.
        secrets: Values that leave the host in nothing.
    """

    def __init__(
        self, send: Optional[Callable[[Dict[str, Any]], object]] = None, session: Optional[Session] = None
    ) -> None:
        self._send = send or (lambda event: None)
        self.session = session or Session()
        self.cancelled = Flag()
        self.steps: List[Dict[str, Any]] = []
        self.secrets: List[str] = []

    @property
    def login_env(self) -> Dict[str, str]:
        """Environment of the login, as the agent found it."""
        return self.session.login_env

    @property
    def home(self) -> str:
        """Path of ``~/.stoker``; it may not exist yet."""
        return self.session.home

    @property
    def facts(self) -> Facts:
        """The host's facts.

        Raises:
            AgentError: ``io``: the declared facts cannot be used.
        """
        facts: Facts = self.session.held("facts", lambda: _facts(self.login_env))
        return facts

    def hide(self, values: Iterable[str]) -> None:
        """From now on these values leave the host in nothing: no event, result or error."""
        self.secrets = [*self.secrets, *(value for value in values if value not in self.secrets)]

    def emit(self, type: str, **fields: Any) -> None:
        """Send one event of the contract."""
        self._send(dict(fields, type=type))

    def check_cancelled(self) -> None:
        """Raise where the step should end.

        Raises:
            AgentError: ``cancelled``; never inside a shield, where a cancel waits until it opens.
        """
        if self.cancelled.is_set():
            raise AgentError("cancelled", "the step was cancelled")

    def cancel(self) -> None:
        """Ask the step to end, and end its children; inside a shield, when that opens."""
        self.session.when_open(self._cancel)

    def _cancel(self) -> None:
        self.cancelled.set()
        self.session.end_children()

    def step(self, name: str) -> _Running:
        """One named step: its begin and end are events, its seconds are kept in ``steps``.

        Raises:
            AgentError: ``cancelled``, before it begins.
        """
        self.check_cancelled()
        return _Running(self, name)

    def shield(self) -> Shield:
        """What begins here finishes, whether or not the controller still listens.

        A cancel, silence, end of input, HUP and TERM wait until the shield opens, and then do what they do.

        Raises:
            AgentError: ``cancelled``, before anything began.
        """
        return self.session.shield(self.check_cancelled)

    def track(self, pid: int) -> None:
        """This child's process group is killed when the step is cancelled or the agent ends."""
        self.session.track(pid)

    def untrack(self, pid: int) -> None:
        """This child was waited for, or shall live on."""
        self.session.untrack(pid)


def _facts(login_env: Mapping[str, str]) -> Facts:
    from .facts import FactsError, load

    try:
        return load(login_env)
    except FactsError as error:
        raise AgentError("io", str(error)) from error
