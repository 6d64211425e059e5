"""Start a program with three pipes in a session of its own; to import ``subprocess`` would take longer."""

from __future__ import annotations

import errno
import os

# The module above it makes enumerations of these numbers, which costs every connection six milliseconds.
from _signal import SIGKILL, SIGPIPE, SIGXFSZ  # type: ignore[import-not-found]  # typeshed lacks it

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List, Mapping, Optional, Tuple

# Python ignores these for itself; a program is to find them as it would anywhere.
_RESET = (SIGPIPE, SIGXFSZ)
_STDERR = 2


class Child:
    """A process of ours that was not waited for yet.

    Args:
        pid: It leads its session and its process group.
        stdin: Our end of its input.
        stdout: Our end of its output.
        stderr: Our end of its error stream.

    Attributes:
        returncode: How it ended, negative for a signal; None while it was not waited for.
    """

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.returncode: Optional[int] = None
        self._pipes = {"stdin": stdin, "stdout": stdout, "stderr": stderr}

    def pipe(self, name: str) -> int:
        """The descriptor of a pipe that is still open."""
        return self._pipes[name]

    def close(self, name: str) -> None:
        """Close a pipe; a second time is harmless."""
        fd = self._pipes.pop(name, None)
        if fd is not None:
            os.close(fd)

    def close_all(self) -> None:
        """Let go of what is still open."""
        for name in list(self._pipes):
            self.close(name)

    def kill_group(self) -> None:
        """SIGKILL to its whole group; it was not waited for, so the number is still its own."""
        if self.returncode is None:
            try:  # noqa: SIM105 - contextlib costs every connection four milliseconds
                os.killpg(self.pid, SIGKILL)
            except OSError:
                pass  # all of it has ended

    def wait(self) -> int:
        """Wait for its end."""
        if self.returncode is None:
            status = os.waitpid(self.pid, 0)[1]
            self.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.returncode


def spawn(argv: List[str], env: Mapping[str, str], cwd: Optional[str] = None) -> Child:
    """Start a program.

    Args:
        argv: The program and its arguments; a bare name is looked for in the ``PATH`` of ``env``.
        env: Its whole environment.
        cwd: Its working folder; None: ours.

    Raises:
        OSError: It cannot be started; ``filename`` is the program's, or the folder where that is wrong.
        ValueError: A NUL byte in an argument.
    """
    if any("\0" in word for word in argv):
        raise ValueError("embedded null byte")
    pipes: List[Tuple[int, int]] = []
    try:
        pipes += [os.pipe(), os.pipe(), os.pipe()]
        theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
        pid = _in_folder(cwd, argv, dict(env), theirs)
    except BaseException:
        for pair in pipes:
            for fd in pair:
                os.close(fd)
        raise
    for fd in theirs:
        os.close(fd)
    return Child(pid, pipes[0][1], pipes[1][0], pipes[2][0])


def _in_folder(cwd: Optional[str], argv: List[str], env: Mapping[str, str], pipes: Tuple[int, ...]) -> int:
    """Start it from its folder: posix_spawn knows none, so that we go there and come back.

    Requests run on one thread, and no other looks at the folder that we are in.
    """
    if cwd is None:
        return _first(argv, env, pipes)
    back = _here()
    try:
        os.chdir(cwd)
        return _first(argv, env, pipes)
    finally:
        if back is not None:
            os.fchdir(back)
            os.close(back)


def _here() -> Optional[int]:
    try:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None  # gone, or not for us to see: there is no way back


def _first(argv: List[str], env: Mapping[str, str], pipes: Tuple[int, ...]) -> int:
    """Start the first of the files that a name may mean, as execvp does."""
    refusal: Optional[OSError] = None
    for path in _paths(argv[0], env):
        try:
            return _posix_spawn(path, argv, env, pipes)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                raise
            refusal = error if refusal is None or error.errno == errno.EACCES else refusal
    refusal = refusal or FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    raise type(refusal)(refusal.errno, refusal.strerror, argv[0]) from refusal


def _paths(name: str, env: Mapping[str, str]) -> Iterator[str]:
    if "/" in name:
        yield name
        return
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, name)
        if os.path.exists(path):  # cheaper than a process that finds it out
            yield path


def _posix_spawn(path: str, argv: List[str], env: Mapping[str, str], pipes: Tuple[int, ...]) -> int:
    actions: List[Any] = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(pipes)]
    actions += [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()]
    try:
        return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigdef=_RESET)
    except NotImplementedError:  # glibc before 2.26 starts no sessions
        return _fork(path, argv, env, pipes)


def _inheritable() -> Iterator[int]:
    """What a start-up file left open: no program that is started gets it."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > _STDERR and os.get_inheritable(fd):
                yield fd
        except OSError:
            continue  # the folder's own, closed by now


def _fork(path: str, argv: List[str], env: Mapping[str, str], pipes: Tuple[int, ...]) -> int:
    import subprocess

    started = subprocess.Popen(
        argv,
        executable=path,
        stdin=pipes[0],
        stdout=pipes[1],
        stderr=pipes[2],
        env=env,
        start_new_session=True,
    )
    started.returncode = 0  # it is ours to wait for
    return started.pid
