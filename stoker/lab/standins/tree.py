"""Process trees as the engines have them: forked, renamed, tied to their parent or not."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from setproctitle import setproctitle

_PR_SET_PDEATHSIG = 1
_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGCHLD)


@dataclass(frozen=True)
class Child:
    """A process that we forked.

    Args:
        name: What the engine calls it in its log.
        pid: Its number.
        handle: A pidfd, readable once it has ended.
    """

    name: str
    pid: int
    handle: int

    def kill(self, signum: int) -> None:
        """Signal it; nothing happens where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, signum)

    def reap(self) -> int | None:
        """Its exit status (negative: the signal), or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


def fork(name: str, title: str, body: Callable[[], int], *, dies_with_parent: bool) -> Child:
    """Fork a child that renames itself and runs ``body``.

    Args:
        name: What the engine calls it.
        title: What it renames itself to.
        body: Its work; what it returns is its exit status, an exception is status 1.
        dies_with_parent: Whether the kernel kills it when its parent ends, as SGLang's children ask for.
    """
    parent = os.getpid()
    # Held back until the child has handlers of its own: one that arrives in between would be lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return Child(name, pid, os.pidfd_open(pid))
    status = 1
    try:
        if dies_with_parent:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
        for signum in _SIGNALS:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        setproctitle(title)
        status = body()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def resource_tracker() -> Child:
    """Python's own helper, as ``multiprocessing`` starts it: it lives as long as anyone holds its pipe."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    pid = os.fork()
    if not pid:
        code = f"from multiprocessing.resource_tracker import main;main({reading})"
        os.close(writing)
        os.execv(sys.executable, [sys.executable, "-B", "-c", code])  # noqa: S606  # our own interpreter
    os.close(reading)
    return Child("resource_tracker", pid, os.pidfd_open(pid))


def end(children: Iterable[Child], *, grace_s: float = 0.0) -> None:
    """End children: SIGTERM and some patience where there is a grace, then SIGKILL; all are reaped."""
    living = list(children)
    if grace_s:
        for child in living:
            child.kill(signal.SIGTERM)
        living = _wait(living, grace_s)
    for child in living:
        child.kill(signal.SIGKILL)
    _wait(living, 5.0)


def wait(children: Iterable[Child], within_s: float) -> list[Child]:
    """Wait for the end of children; who still runs after ``within_s`` is returned."""
    return _wait(list(children), within_s)


def _wait(children: list[Child], within_s: float) -> list[Child]:
    deadline = time.monotonic() + within_s
    while True:
        children = [child for child in children if _runs(child)]
        if not children or time.monotonic() > deadline:
            return children
        time.sleep(0.005)


def _runs(child: Child) -> bool:
    try:
        return child.reap() is None
    except ChildProcessError:
        return False  # reaped before


class SharedMemory:
    """Files in the host's shared memory: removed by an orderly end, left by a kill, as with the engines.

    Args:
        folder: The host's shared memory.
        names: Base names; ``*`` becomes something unique.
    """

    def __init__(self, folder: str, names: Iterable[str]) -> None:
        self._paths = [f"{folder}/{name.replace('*', secrets.token_hex(4))}" for name in names]
        self._maps = [_map(path) for path in self._paths]

    def remove(self) -> None:
        """What an orderly end does."""
        for path in self._paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108  # no pathlib here: start-up time


def _map(path: str) -> mmap.mmap:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, mmap.PAGESIZE)
        return mmap.mmap(fd, mmap.PAGESIZE)
    finally:
        os.close(fd)


def map_library() -> mmap.mmap | None:
    """NCCL's library in this process's memory, so that one can see which is really in use."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    path = f"{sys.prefix}/lib/{version}/site-packages/nvidia/nccl/lib/libnccl.so.2"
    try:
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except OSError:
        return None
