"""The report's file: replaced whole, and never anything that is not a report."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from stoker.errors import InputError
from stoker.results.report.page import MARK


def check(path: Path) -> None:
    """Whether a report may be written there.

    Raises:
        InputError: Something else is there, or it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            begins = stream.read(len(MARK))
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    if begins != MARK.encode():
        raise InputError("is there already and is no report", where=str(path), next_step="name another file")


def write(path: Path, text: str) -> int:
    """Write it whole or not at all.

    Returns:
        Its size in bytes.

    Raises:
        InputError: It cannot be written.
    """
    data = text.encode("utf-8")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
    return len(data)
