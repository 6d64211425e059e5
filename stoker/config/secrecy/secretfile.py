"""A secret in a file: read only where nobody else could read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from stoker.errors import InputError


def read(path: Path, most: int) -> bytes:
    """What stands in a file, less one line break at its end.

    Args:
        path: A regular file of our own user (or root's), closed to everybody else; a link is followed.
        most: Bytes that are right; one more is read, so that the caller sees that there are more.

    Raises:
        InputError: It cannot be read, or others could read or change it; with the mend.
    """
    try:
        # Without O_NONBLOCK a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    try:
        _check(path, os.fstat(descriptor))
        with os.fdopen(os.dup(descriptor), "rb") as file:
            found = file.read(most + 2)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    return found.removesuffix(b"\n").removesuffix(b"\r")


def _check(path: Path, state: os.stat_result) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise InputError(f"{path} is no regular file")
    if state.st_uid not in (os.geteuid(), 0):
        raise InputError(f"{path} belongs to another user (uid {state.st_uid})", next_step="copy it")
    if state.st_mode & 0o077:
        what = f"{path} can be read or changed by others (mode {stat.S_IMODE(state.st_mode):04o})"
        raise InputError(what, next_step=f"chmod 600 {path}")
