"""The process that keeps a lab: whatever the lab ever started ends with it.

Run as ``python -m stoker.lab.guardian ROOT PORT FD``. It is a child subreaper: every process of the lab,
however it detached, is or becomes its descendant. It forks the SSH server, which dies with it. When the
server ends, by an order or by a crash, it kills its descendants until it has none.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from stoker.lab import procfs

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GIVE_UP_S = 15.0


def main(argv: list[str]) -> int:
    """Keep the lab of ``argv[0]`` until its server ends.

    Args:
        argv: The lab's folder, the SSH port, and the descriptor that learns when the server listens.

    Returns:
        0 when nothing of the lab is left, else 1.
    """
    root, port, ready = Path(argv[0]), int(argv[1]), int(argv[2])
    if os.fork():
        os._exit(0)  # who started us need not wait for us
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = _fork_server(root, port, ready)
    os.close(ready)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: os.kill(server, signal.SIGKILL))
    _wait_for(server)
    return _end_all()


def _fork_server(root: Path, port: int, ready: int) -> int:
    guardian = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != guardian:
        os._exit(1)  # it ended before the line above
    from stoker.lab import server

    os._exit(server.main(root, port, ready))


def _wait_for(server: int) -> None:
    """Reap orphans until the server itself has ended."""
    while os.wait()[0] != server:
        pass


def _end_all() -> int:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    deadline = time.monotonic() + _GIVE_UP_S
    while _reap():
        left = [p for p in procfs.descendants([os.getpid()], procfs.table()) if not p.gone]
        if time.monotonic() > deadline:
            print("still alive after SIGKILL:", *(process.pid for process in left), file=sys.stderr)
            return 1
        for process in left:
            procfs.kill(process, signal.SIGKILL)
        time.sleep(0.005)
    return 0


def _reap() -> bool:
    """Whether there are children left."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
