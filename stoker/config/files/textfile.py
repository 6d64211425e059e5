"""The text of a file that people wrote."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from stoker.errors import ConfigError, Problem

MAX_BYTES = 8 * 1024 * 1024


def read(path: Path, shown: str) -> str:
    """What stands in a file.

    Args:
        path: The file.
        shown: The file as shown to people.

    Raises:
        ConfigError: Unreadable, too large, or not UTF-8.
    """
    try:
        # Without O_NONBLOCK a pipe without a writer would be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            kind = os.fstat(file.fileno()).st_mode
            if stat.S_ISDIR(kind):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(kind):
                raise ConfigError([Problem(shown, 0, "is no file: a pipe or a device")])
            raw = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError([Problem(shown, 0, f"cannot be read: {why}")]) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError([Problem(shown, 0, f"is larger than {MAX_BYTES // 2**20} MiB")])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8: the byte 0x{raw[error.start]:02x} does not belong here"
        raise ConfigError([Problem(shown, line, what, "save the file as UTF-8")]) from error
