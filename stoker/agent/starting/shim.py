"""The supervisor of one server: run as ``shim.py DIR [CGROUP] -- argv…``, it outlives the connection.

A child subreaper: whatever the server starts, renames or detaches stays its descendant. It writes into DIR,
each by rename: ``launcher`` (pid and start time), ``exit`` (the launcher's exit status, negative for a
signal) and ``empty`` once no descendant is left: the proof that nothing is. Standard output tells whoever
started it its own pid and start time and the launcher's, and is closed then. The server alone is in CGROUP (a
folder), which is removed at the end: whoever ends all in it does not end the supervisor.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from typing import List, Optional

PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_LOG_MODE = 0o600
# A program that lies on a slow file system may take its time to be run; it is told all the same.
_EXEC_S = 5.0


def main(folder: str, cgroup: str, argv: List[str]) -> int:
    """Supervise one server to its end; detaches first.

    Args:
        folder: Of the launch.
        cgroup: Folder of the server's cgroup; empty: none.
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
    joined, joining = os.pipe()
    pid = os.fork()
    if not pid:
        _join(cgroup)
        _become_server(folder, argv)
    os.close(joining)
    select.select([joined], (), (), _EXEC_S)  # closed once it has joined and is the server
    os.close(joined)
    told = "%d %d" % (pid, _start_of(pid))
    _put(folder, "launcher", told)
    os.write(1, b"%d %d %s\n" % (os.getpid(), _start_of(os.getpid()), told.encode()))
    _onto_null((0, 1, 2))
    _reap(folder, pid)
    _put(folder, "empty", "")
    _leave(cgroup)
    return 0


def _join(cgroup: str) -> None:
    """Into the cgroup; where that is not to be had the server starts all the same."""
    if cgroup:
        try:
            with open(os.path.join(cgroup, "cgroup.procs"), "w") as file:
                file.write("0")
        except OSError:
            return


def _leave(cgroup: str) -> None:
    for below, _, _ in os.walk(cgroup, topdown=False) if cgroup else ():
        try:
            os.rmdir(below)
        except OSError:
            return


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


def _arguments(words: List[str]) -> "Optional[tuple[str, str, List[str]]]":
    """Folder, cgroup and the server's command; None where they cannot be told."""
    for at in (1, 2):
        if len(words) > at + 1 and words[at] == "--":
            return words[0], words[1] if at == 2 else "", words[at + 1 :]
    return None


if __name__ == "__main__":
    given = _arguments(sys.argv[1:])
    if given is None:
        sys.exit("usage: shim.py DIR [CGROUP] -- argv…")
    sys.exit(main(*given))
