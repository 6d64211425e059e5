"""The supervisor of one server: run by itself as ``shim.py DIR -- argv…``, it outlives the connection.

A child subreaper: whatever the server starts, renames or detaches stays its descendant. It writes into DIR,
each by rename: ``launcher`` (pid and start time), ``exit`` (the launcher's exit status, negative for a
signal) and ``empty`` once no descendant is left: the proof that nothing is. Standard output tells whoever
started it its own pid and start time and the launcher's, and is closed then.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import List, Optional

PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_LOG_MODE = 0o600


def main(folder: str, argv: List[str]) -> int:
    """Supervise one server to its end; detaches first.

    Args:
        folder: Of the launch.
        argv: The server's command.
    """
    if os.fork():
        return 0  # who started us waits for this; the supervisor itself belongs to nobody
    os.setsid()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")
    pid = os.fork()
    if not pid:
        _become_server(folder, argv)
    told = "%d %d" % (pid, _start_of(pid))
    _put(folder, "launcher", told)
    os.write(1, b"%d %d %s\n" % (os.getpid(), _start_of(os.getpid()), told.encode()))
    _onto_null((0, 1, 2))
    _reap(folder, pid)
    _put(folder, "empty", "")
    return 0


def _become_server(folder: str, argv: List[str]) -> None:
    """In the child: a session of its own, usual signals, output to the log; then the server."""
    try:
        for number in (*_IGNORED, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        _onto_null((0,))
        log = os.open(os.path.join(folder, "server.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, _LOG_MODE)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.execvpe(argv[0], argv, _environment())
    except OSError as error:
        os.write(2, ("cannot start %s: %s\n" % (argv[0], error)).encode())
    os._exit(127)


def _environment() -> "dict[bytes, bytes]":
    """What the supervisor was started with: Python itself may have set LC_CTYPE since."""
    with open("/proc/self/environ", "rb") as file:
        pairs = (entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry)
        return {name: value for name, _, value in pairs}


def _reap(folder: str, launcher: int) -> None:
    """Wait for every descendant, ours or taken in."""
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return
        if pid == launcher:
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            _put(folder, "exit", "%d" % code)


def _put(folder: str, name: str, text: str) -> None:
    """Write a small file whole. A full disk must not end the supervisor: it still reaps and contains."""
    draft = os.path.join(folder, name + ".new")
    try:
        with open(draft, "w") as file:
            file.write(text)
        os.rename(draft, os.path.join(folder, name))
    except OSError:
        return


def _onto_null(descriptors: "tuple[int, ...]") -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    if null > 2:
        os.close(null)


def _start_of(pid: int) -> int:
    with open("/proc/%d/stat" % pid, "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def _arguments(words: List[str]) -> Optional[List[str]]:
    return words if len(words) >= 3 and words[1] == "--" else None


if __name__ == "__main__":
    given = _arguments(sys.argv[1:])
    if given is None:
        sys.exit("usage: shim.py DIR -- argv…")
    sys.exit(main(given[0], given[2:]))
