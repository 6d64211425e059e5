"""What the agent process holds from one request to the next, and how it ends."""

from __future__ import annotations

import _thread
import os
import pwd

# The module above it makes enumerations of these numbers, which costs every connection six milliseconds.
from _signal import SIGKILL  # type: ignore[import-not-found]  # typeshed lacks it

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional


class Shield:
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
            self._children[pid] = _start_of(pid)

    def untrack(self, pid: int) -> None:
        """This child is no longer ours to end."""
        with self._lock:
            self._children.pop(pid, None)

    def end_children(self) -> None:
        """SIGKILL to every tracked child's process group."""
        with self._lock:
            for pid, start in self._children.items():
                if start and _start_of(pid) == start:
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

    def shield(self, may_enter: Callable[[], None]) -> Shield:
        """Nothing ends the agent inside; ``may_enter`` raises where it is too late to begin."""
        return Shield(lambda: self._raise(may_enter), self._lower)

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


def _start_of(pid: int) -> int:
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
