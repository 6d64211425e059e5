"""A fault of ours as an error, without the secrets that a message in it may hold."""

from __future__ import annotations

import errno
import traceback

from stoker.config.secrecy.mask import Mask
from stoker.config.secrecy.secrets import Secrets
from stoker.errors import InputError, StokerError

# A folder that may not be written, a full disk: the machine's, whatever we did.
_NOT_OURS = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT)
_LINES = 12  # as many as an error shows


def trace(raised: BaseException, secrets: Secrets | None) -> str:
    """The whole traceback; the secrets that were looked up are masked."""
    return Mask(secrets.values if secrets else ()).text("".join(traceback.format_exception(raised)))


def of(raised: BaseException, secrets: Secrets | None, host: str = "") -> StokerError:
    """What was raised, for people.

    Args:
        raised: No error of ours.
        secrets: Those that were looked up are masked.
        host: Where it happened, with the end of the traceback as evidence; empty for the whole command, whose
            traceback is shown by itself.
    """
    if isinstance(raised, OSError) and raised.errno in _NOT_OURS and raised.filename:
        hint = "make it writable, or make room on its disk"
        return InputError(f"{raised.filename}: {raised.strerror}", where=host, next_step=hint)
    what = f"a fault in Stoker: {type(raised).__name__}: {raised}"
    return StokerError(
        Mask(secrets.values if secrets else ()).text(what),
        where=host,
        evidence=trace(raised, secrets).splitlines()[-_LINES:] if host else (),
        next_step="report it, with the lines above",
    )
