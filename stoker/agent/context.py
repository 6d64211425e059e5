"""What an operation works with: events, steps, cancelling, the shield, and what the agent keeps."""

from __future__ import annotations

import _thread
import os
import pwd
import time

# The module above it makes enumerations of these numbers, which costs every connection six milliseconds.
from _signal import SIGKILL  # type: ignore[import-not-found]  # typeshed lacks it

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional

    from .facts import Facts
    from .locks import LockSet


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


class _Shield:
    """Something that is held for a while; `contextlib` would cost every connection four milliseconds."""

    def __init__(self, enter: Callable[[], None], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._leave()


class Session:
    """What the agent process holds beyond one request.

    Args:
        login_env: Environment of the login; None: as this process was started with.
        leave: Ends the process, once nothing forbids it.
    """

    def __init__(
        self, login_env: Optional[Mapping[str, str]] = None, leave: Callable[[], None] = lambda: None
    ) -> None:
        self.login_env = dict(_environment() if login_env is None else login_env)
        self.home = os.path.join(_home(self.login_env), ".stoker")
        self.ending = ""
        self._leave = leave
        self._lock = _thread.RLock()
        self._shields = 0
        self._children: Dict[int, int] = {}
        self._on_open: List[Callable[[], None]] = []
        self._held: Dict[str, Any] = {}

    def held(self, name: str, make: Callable[[], Any]) -> Any:
        """The one object of that name, made when first asked for."""
        with self._lock:
            if name not in self._held:
                self._held[name] = make()
            return self._held[name]

    def track(self, pid: int) -> None:
        """From now on this child ends with the agent."""
        with self._lock:
            self._children[pid] = start_of(pid)

    def untrack(self, pid: int) -> None:
        """This child is no longer ours to end."""
        with self._lock:
            self._children.pop(pid, None)

    def end_children(self) -> None:
        """SIGKILL to every tracked child's process group."""
        with self._lock:
            for pid, start in self._children.items():
                if start and start_of(pid) == start:
                    _kill_group(pid)
            self._children.clear()

    def end(self, why: str) -> None:
        """End the agent and what its step started: at once, or when the last shield opens."""
        with self._lock:
            self.ending = self.ending or why
            if self._shields:
                return
            self.end_children()
            self._leave()

    def when_open(self, act: Callable[[], None]) -> None:
        """Do something now, or when the last shield opens."""
        with self._lock:
            if self._shields:
                self._on_open.append(act)
            else:
                act()

    def shield(self, may_enter: Callable[[], None]) -> _Shield:
        """Nothing ends the agent inside; ``may_enter`` raises where it is too late to begin."""
        return _Shield(lambda: self._raise(may_enter), self._lower)

    def _raise(self, may_enter: Callable[[], None]) -> None:
        with self._lock:
            may_enter()
            self._shields += 1

    def _lower(self) -> None:
        with self._lock:
            self._shields -= 1
            if not self._shields:
                self._open()

    def _open(self) -> None:
        waiting, self._on_open = self._on_open, []
        for act in waiting:
            act()
        if self.ending:
            self.end(self.ending)


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

    @property
    def locks(self) -> LockSet:
        """The host's locks; what is held when the agent ends is free.

        Raises:
            AgentError: As :attr:`facts`.
        """
        from .locks import LockSet

        locks: LockSet = self.session.held("locks", lambda: LockSet(self.facts, self.home))
        return locks

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

    def shield(self) -> _Shield:
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


def _environment() -> Dict[str, str]:
    """The environment this process was started with: Python itself adds LC_CTYPE to ``os.environ``."""
    try:
        with open("/proc/self/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return dict(os.environ)
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if b"=" in entry)
    return {name: value for name, _, value in pairs}


def _home(environ: Mapping[str, str]) -> str:
    if environ.get("HOME"):
        return environ["HOME"]
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/tmp"  # an account without an entry has no home; the state then lives as long as the host


def start_of(pid: int) -> int:
    """Field 22 of ``/proc/PID/stat``: with the pid it names one process for good; 0 where there is none."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _kill_group(pid: int) -> None:
    try:
        leads = os.getpgid(pid) == pid
        if leads and pid != os.getpgrp():
            os.killpg(pid, SIGKILL)
        else:
            os.kill(pid, SIGKILL)
    except OSError:
        pass  # it ended on its own
