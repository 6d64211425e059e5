"""The answer of a program of the user's: bounded in time and size; nothing is left of one that failed."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence

_MAX_SAID = 16 * 1024
_POLL_S = 0.05
_STRAGGLER_S = 0.3  # for what children of the program still write


class Clock:
    """How long something may still take.

    Args:
        seconds: From now on.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())


class ProcessError(Exception):
    """Why there is no answer, as what follows the program's name.

    Args:
        why: e.g. ``ended with 3``.
        said: The last line of its error output, for a hint; empty where there is none.
    """

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


def output(argv: Sequence[str], clock: Clock, most: int) -> bytes:
    """What a program prints. It gets no input, and a process group of its own, which is ended with it.

    Args:
        argv: The program and its arguments; no shell.
        clock: How long it may take.
        most: Bytes that it may print.

    Raises:
        ProcessError: It cannot be run, failed, took too long or printed too much.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ProcessError(f"cannot be run: {why}") from error
    with process:
        try:
            printed, said = _read(process, clock, most)
            status = process.wait(max(0.1, clock.left_s))
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise ProcessError(f"took longer than {clock.seconds:g} s") from error
        except BaseException:
            _end(process)
            raise
    if status:
        last = said.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        raise ProcessError(_ending(status), "".join(c for c in last[0][:200] if c.isprintable()))
    return printed


def _read(process: subprocess.Popen[bytes], clock: Clock, most: int) -> tuple[bytes, bytes]:
    """(output, the end of its error output), both read until the program closes them, or has ended.

    An agent that it started may hold them on.

    Raises:
        ProcessError: It took too long or printed too much.
    """
    assert process.stdout is not None and process.stderr is not None  # noqa: S101  (they were asked for)
    printed, said = bytearray(), b""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            selector.register(stream, selectors.EVENT_READ)
        quiet_since: float | None = None
        while selector.get_map():
            ready = selector.select(min(_POLL_S, clock.left_s))
            if not clock.left_s:
                raise ProcessError(f"took longer than {clock.seconds:g} s")
            if not ready and _has_ended(process):
                quiet_since = quiet_since or time.monotonic()
                if time.monotonic() - quiet_since > _STRAGGLER_S:
                    break
            elif ready:
                quiet_since = None
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    printed += chunk
                else:
                    said = (said + chunk)[-_MAX_SAID:]
            if len(printed) > most:
                raise ProcessError(f"prints more than {most // 2**20} MiB")
    return bytes(printed), said


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """It stays a zombie, so that its number cannot become another's."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it and what it started in its process group. Nobody waited for it: the number is still its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(status: int) -> str:
    return f"was ended by signal {-status}" if status < 0 else f"ended with {status}"
