"""Run a command on the host: bounded output, a deadline, and nothing left behind when it is cut short."""

from __future__ import annotations

import codecs
import os
import select
import time

from . import spawn
from .context import AgentError, Context

# `typing` costs every connection four milliseconds of the host's, and nothing here needs it at run time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Mapping, Optional

# Of each stream the first and the last half of this are kept.
KEEP_BYTES = 1 << 20
# A background child may hold the pipes when the command itself has ended; it is not waited for.
_LINGER_S = 0.25
_TICK_S = 0.1


class Kept:
    """The beginning and the end of a stream, bounded."""

    def __init__(self, limit: int = KEEP_BYTES) -> None:
        self._half = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.dropped = 0

    def add(self, data: bytes) -> None:
        """Take more of the stream."""
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        over = len(self._tail) - self._half
        # In large steps: cutting the front off at each read would move every byte each time.
        if over > self._half:
            del self._tail[:over]
            self.dropped += over

    def text(self) -> str:
        """What was kept, with a line that says how much is missing."""
        over = max(len(self._tail) - self._half, 0)
        tail = bytes(self._tail[over:])
        dropped = self.dropped + over
        gap = b"\n[... %d bytes left out ...]\n" % dropped if dropped else b""
        return (bytes(self._head) + gap + tail).decode("utf-8", "replace")

    @property
    def truncated(self) -> bool:
        """Whether anything is missing."""
        return bool(self.dropped or len(self._tail) > self._half)


def execute(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``exec``.

    Args:
        ctx: The operation's context.
        params: ``argv`` (list of text) or ``shell`` (text for ``/bin/sh -c``); ``timeout_s`` (null: none);
            ``stdin`` (text); ``env`` (added to the login's); ``cwd`` (null: the login's home); ``stream``
            (true: ``output`` events as it speaks).

    Returns:
        ``{rc, stdout, stderr, truncated, timed_out, seconds}``; ``rc`` is negative for a signal.

    Raises:
        AgentError: ``bad-request``, ``io`` where the program cannot be started, ``cancelled``.
    """
    argv = _argv(params)
    env = dict(ctx.login_env, **_mapping(params, "env"))
    home = os.path.dirname(ctx.home)
    cwd = params.get("cwd") or (home if os.path.isdir(home) else "/")
    emit = _streamer(ctx) if params.get("stream") else _ignore
    stdin = str(params.get("stdin") or "").encode("utf-8", "surrogateescape")
    return run(ctx, argv, env=env, cwd=cwd, stdin=stdin, timeout_s=params.get("timeout_s"), on_output=emit)


def run(
    ctx: Context,
    argv: List[str],
    *,
    env: Mapping[str, str],
    cwd: Optional[str] = None,
    stdin: bytes = b"",
    timeout_s: Optional[float] = None,
    on_output: Optional[Callable[[str, bytes], None]] = None,
) -> Dict[str, Any]:
    """Run a program in a session of its own and collect what it says.

    It ends with its whole process group at the deadline, when the step is cancelled and when the agent ends.

    Args:
        ctx: The operation's context.
        argv: The program and its arguments.
        env: Its whole environment.
        cwd: Its working folder; None: where the agent is.
        stdin: Its input.
        timeout_s: Seconds until it is killed; None: none.
        on_output: Gets (``stdout`` or ``stderr``, bytes) as they come, and ``b""`` at the end of each.

    Returns:
        As :func:`execute`.

    Raises:
        AgentError: ``io`` where it cannot be started, ``cancelled``.
    """
    began = time.monotonic()
    process = start(ctx, argv, env=env, cwd=cwd)
    streams = _Streams(process, stdin, on_output or _ignore)
    end = began + timeout_s if timeout_s is not None else None
    try:
        timed_out = not streams.follow(ctx, end)
        if timed_out:
            process.kill_group()
        process.wait()
    finally:
        process.kill_group()
        process.wait()
        ctx.untrack(process.pid)
        process.close_all()
    ctx.check_cancelled()
    return {
        "rc": process.returncode,
        "stdout": streams.kept["stdout"].text(),
        "stderr": streams.kept["stderr"].text(),
        "truncated": any(kept.truncated for kept in streams.kept.values()),
        "timed_out": timed_out,
        "seconds": round(time.monotonic() - began, 4),
    }


def start(ctx: Context, argv: List[str], *, env: Mapping[str, str], cwd: Optional[str] = None) -> spawn.Child:
    """Start a tracked child with three pipes, in a session of its own.

    Raises:
        AgentError: ``io``: it cannot be started; ``bad-request``: a NUL byte in an argument.
    """
    try:
        process = spawn.spawn(argv, env, cwd)
    except OSError as error:
        what = "cannot run %s: %s" % (argv[0], error.strerror or error)
        missing = " (%s)" % error.filename if error.filename not in (None, argv[0]) else ""
        raise AgentError("io", what + missing) from error
    except ValueError as error:
        raise AgentError("bad-request", "cannot run %r: %s" % (argv[0], error)) from error
    ctx.track(process.pid)
    return process


class _Streams:
    """The three pipes of a child, served together so that none of them can fill up."""

    def __init__(self, process: spawn.Child, stdin: bytes, on_output: Callable[[str, bytes], None]) -> None:
        self.kept = {"stdout": Kept(), "stderr": Kept()}
        self._process = process
        self._stdin = memoryview(stdin)
        self._on_output = on_output
        self._poll = select.poll()
        self._names = {process.pipe(name): name for name in ("stdout", "stderr")}
        if stdin:
            os.set_blocking(process.pipe("stdin"), False)
            self._names[process.pipe("stdin")] = "stdin"
        else:
            process.close("stdin")
        for fd, name in self._names.items():
            self._poll.register(fd, select.POLLOUT if name == "stdin" else select.POLLIN)

    def follow(self, ctx: Context, end: Optional[float]) -> bool:
        """Serve the pipes until the child and its output have ended.

        Returns:
            False when the deadline came first.

        Raises:
            AgentError: ``cancelled``.
        """
        exited_at = None
        while self._names or exited_at is None:
            ctx.check_cancelled()
            now = time.monotonic()
            if exited_at is None and _has_exited(self._process.pid):
                exited_at = now
            if exited_at is not None and now - exited_at > _LINGER_S:
                return True
            if end is not None and now >= end:
                return exited_at is not None
            self._serve(_TICK_S if end is None else min(_TICK_S, end - now))
        return True

    def _serve(self, wait_s: float) -> None:
        if not self._names:
            _await_exit(self._process.pid, wait_s)
            return
        for fd, _ in self._poll.poll(wait_s * 1000):
            if self._names[fd] == "stdin":
                self._write(fd)
            else:
                self._read(fd)

    def _read(self, fd: int) -> None:
        name = self._names[fd]
        data = os.read(fd, 1 << 16)
        if not data:
            self._drop(fd)
        self.kept[name].add(data)
        self._on_output(name, data)

    def _write(self, fd: int) -> None:
        try:
            self._stdin = self._stdin[os.write(fd, self._stdin) :]
        except BlockingIOError:
            return
        except OSError:
            self._stdin = self._stdin[:0]  # it reads no more
        if not self._stdin:
            self._drop(fd)
            self._process.close("stdin")

    def _drop(self, fd: int) -> None:
        self._poll.unregister(fd)
        del self._names[fd]


def _has_exited(pid: int) -> bool:
    """Whether the child has ended; it stays a zombie, so that its number cannot become another's."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _await_exit(pid: int, wait_s: float) -> None:
    """Wait a moment for a child that has closed its output and lives on."""
    end = time.monotonic() + wait_s
    pause = 0.001
    while not _has_exited(pid) and time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _streamer(ctx: Context) -> Callable[[str, bytes], None]:
    """Sends ``output`` events; neither a character nor a secret is split over two of them."""
    make = codecs.getincrementaldecoder("utf-8")
    decoders = {"stdout": make("replace"), "stderr": make("replace")}
    held = {"stdout": "", "stderr": ""}

    def emit(stream: str, data: bytes) -> None:
        text = held[stream] + decoders[stream].decode(data, final=not data)
        whole = len(text) - (_begun_secret(ctx, text) if data else 0)
        text, held[stream] = text[:whole], text[whole:]
        if text:
            ctx.emit("output", stream=stream, text=text)

    return emit


def _begun_secret(ctx: Context, text: str) -> int:
    """How many characters at the end may be the beginning of a secret."""
    if not ctx.secrets:
        return 0
    from . import blot

    return blot.of(tuple(ctx.secrets)).begun(text)


def _ignore(stream: str, data: bytes) -> None:
    """Nobody watches."""


def _argv(params: Mapping[str, Any]) -> List[str]:
    argv, shell = params.get("argv"), params.get("shell")
    if isinstance(shell, str) and argv is None:
        return ["/bin/sh", "-c", shell]
    if shell is None and isinstance(argv, list) and argv and all(isinstance(item, str) for item in argv):
        return argv
    raise AgentError("bad-request", "exec wants either argv, a list of text, or shell, a text")


def _mapping(params: Mapping[str, Any], name: str) -> Dict[str, str]:
    value = params.get(name) or {}
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise AgentError("bad-request", "%s must map names to text" % name)
    return value
