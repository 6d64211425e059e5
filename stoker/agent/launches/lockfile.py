"""One lock of the host: a ``flock``ed file that may be any user's, and what its holder wrote into it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from typing import Any, Dict, Optional

from ..context import AgentError
from ..processes import procs

_OWNER_BYTES = 4096
# Somebody who only looks whether it is held, holds it for an instant.
_PATIENCE_S = 0.1


def take(path: str, name: str, owner: Dict[str, Any]) -> int:
    """The descriptor of a lock that is ours now.

    Args:
        path: Its file; made where it is missing.
        name: As people know it.
        owner: Who asks, to be written into it.

    Raises:
        AgentError: ``lock-held``, with owner and age; ``io``.
    """
    patience = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fd = _open(path)
        except OSError as error:
            raise AgentError("io", f"cannot open the lock {path}: {error.strerror}") from error
        if _flock(fd, fcntl.LOCK_EX, path):
            if _is_same(fd, path):
                _sign(fd, owner)
                return fd
            os.close(fd)  # it was removed between opening and locking
            continue
        held = _owner(fd)
        os.close(fd)
        if time.monotonic() > patience:
            raise is_held(name, held)
        time.sleep(_PATIENCE_S / 10)


def _flock(fd: int, kind: int, path: str) -> bool:
    """Whether the lock could be had at once."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        os.close(fd)
        raise AgentError("io", f"cannot lock {path}: {error.strerror}") from error
    return True


def _open(path: str) -> int:
    """Open without creating first: ``fs.protected_regular`` refuses O_CREAT on another user's file."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    while True:
        try:
            fd = _open_existing(path, flags)
        except FileNotFoundError:
            try:
                fd = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(fd, 0o666)  # whatever the umask says: other users lock it too
            except FileExistsError:
                continue
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", path)


def _open_existing(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_RDWR)
    except PermissionError:
        return os.open(path, flags | os.O_RDONLY)  # enough for flock


def _is_same(fd: int, path: str) -> bool:
    mine = os.fstat(fd)
    try:
        there = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def _sign(fd: int, owner: Dict[str, Any]) -> None:
    me = procs.look(os.getpid())
    text = json.dumps({**owner, "pid": os.getpid(), "start": me.start if me else 0, "time": time.time()})
    with contextlib.suppress(OSError):  # opened for reading only: held all the same, by somebody unnamed
        os.ftruncate(fd, 0)
        os.pwrite(fd, text.encode("utf-8"), 0)


def give_back(fd: int, path: str) -> None:
    """Remove the file while it is locked, so that none pile up; of another user's only what we wrote."""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
    with contextlib.suppress(OSError):
        if _is_same(fd, path):
            os.unlink(path)
    os.close(fd)


def _owner(fd: int) -> Dict[str, Any]:
    """What the holder wrote; each field only where it has the right type."""
    try:
        data = json.loads(os.pread(fd, _OWNER_BYTES, 0).decode("utf-8", "replace"))
    except ValueError:
        data = None
    data = data if isinstance(data, dict) else {}
    pid, start, since = (_number(data.get(key)) for key in ("pid", "start", "time"))
    return {
        "owner": str(data.get("user", ""))[:80],
        "pid": int(pid) if pid is not None else None,
        "host": str(data.get("host", ""))[:200],
        "what": str(data.get("what", ""))[:200],
        "age_s": round(max(0.0, time.time() - since), 1) if since is not None else None,
        # Nobody named in it: it is held, so somebody lives.
        "alive": pid is None or start is None or procs.alive(int(pid), int(start)),
    }


def _number(value: Any) -> Optional[float]:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def look(path: str) -> Optional[Dict[str, Any]]:
    """Who holds the lock; None where nobody does."""
    try:
        fd = _open_existing(path, os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    held = None if _flock(fd, fcntl.LOCK_SH, path) else _owner(fd)
    os.close(fd)
    return held


def is_held(name: str, held: Dict[str, Any], advice: str = "") -> AgentError:
    """The error of a lock that another holds."""
    who = held["owner"] or "somebody"
    where = f" from {held['host']}" if held["host"] else ""
    age = f" for {held['age_s']:.0f} s" if held["age_s"] is not None else ""
    what = f" ({held['what']})" if held["what"] else ""
    pid = f", process {held['pid']}" if held["pid"] is not None else ""
    return AgentError(
        "lock-held",
        f"{name} is locked by {who}{where}{pid}{age}{what}",
        next_step=advice or "wait until that ends, or look at it with: inv unlock --check",
        detail={"name": name, **held},
    )
