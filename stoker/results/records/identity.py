"""What names a record: its id, and the version of its form."""

from __future__ import annotations

import re
import secrets
import time

SCHEMA = 1
"""The version of a record's form."""

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def new_run_id(host: str, now: float | None = None) -> str:
    """A fresh id ``YYYYMMDD-HHMMSS-host-xxxx`` of safe characters (UTC, so that ids sort by time).

    The profile is not in it: what really runs is only known once it was measured.

    Args:
        host: The inventory's name of it.
        now: Unix time; None: now.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(time.time() if now is None else now))
    word = re.sub(r"[^A-Za-z0-9._]+", "-", host).strip("-.")[:60]
    return f"{stamp}-{word or 'x'}-{secrets.token_hex(2)}"


def is_safe_id(run_id: str) -> bool:
    """Whether it can name a folder."""
    return _SAFE_ID.fullmatch(run_id) is not None
