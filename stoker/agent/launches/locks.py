"""Locks of the host: ``flock``ed files in a folder all users share, which never outlive their holder.

Other users can write into these files: what stands in them is shown, never trusted.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from ..context import AgentError, Context
from ..facts import Facts
from ..processes import procs

SYSTEM_DIR = "/run/lock"
FALLBACK_DIR = "/tmp/stoker-locks"
_PREFIX, _SUFFIX = "stoker-", ".lock"
_OWNER_BYTES = 4096
# Somebody who only looks whether it is held, holds it for an instant.
_PATIENCE_S = 0.1


def slot_lock(home: str, slot: str) -> str:
    """Name of a slot's lock: another home's slot of that name is another slot."""
    return f"slot-{hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:8]}-{slot}"


def gpu_lock(gpu: str) -> str:
    """Name of a GPU's lock, by its UUID or, where there is none, its index."""
    return f"gpu-{gpu}"


def port_lock(address: str, port: int) -> str:
    """Name of the lock of an address and port."""
    return f"tcp-{address}-{port}"


def unlock(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``unlock``: what is locked; without ``check``, takes away what a dead holder left.

    Raises:
        AgentError: ``lock-held``: a living holder is left; ``io``.
    """
    if params.get("check"):
        return {"locks": lock_set(ctx).listing()}
    locks = lock_set(ctx).break_stale()
    held = next((lock for lock in locks if lock["alive"]), None)
    if held is not None:
        raise _is_held(
            held["name"], held, f"end its process first: kill {held['pid']}" if held["pid"] else ""
        )
    return {"locks": locks}


def lock_set(ctx: Context) -> LockSet:
    """The host's locks; what is held when the agent ends is free.

    Raises:
        AgentError: As the context's facts.
    """
    locks: LockSet = ctx.session.held("locks", lambda: LockSet(ctx.facts, ctx.home))
    return locks


class LockSet:
    """The locks this agent takes.

    Args:
        facts: ``lock_dir`` in place of the system's.
        home: ``~/.stoker``.
    """

    def __init__(self, facts: Facts, home: str) -> None:
        self._declared = facts.lock_dir
        self._home = home
        self._kept: Dict[str, Tuple[int, str]] = {}
        self._reserved: Dict[str, Tuple[int, str]] = {}

    @contextmanager
    def hold(self, names: Iterable[str], owner: Dict[str, Any], *, keep: bool = False) -> Iterator[None]:
        """Hold all of them, or none; those that are kept or reserved from before are held already.

        Args:
            names: Of ``slot_lock``, ``gpu_lock``, ``port_lock``.
            owner: Who asks: ``user``, ``host`` (of the controller), ``what``; all optional.
            keep: Where all went well inside, keep them: until ``release``, or until the agent ends.

        Raises:
            AgentError: ``lock-held``, with owner and age; ``io``.
        """
        folder = _folder(self._declared)
        held: Dict[str, Tuple[int, str]] = {}
        try:
            # One order: nobody waits in a circle.
            for name in sorted(set(names) - set(self._kept) - set(self._reserved)):
                path = os.path.join(folder, _file(name))
                held[name] = (_take(path, name, owner), path)
            yield
            if keep:
                self._kept.update(held)
                held = {}
        finally:
            for fd, path in held.values():
                _give_back(fd, path)

    def release(self) -> None:
        """Give back what was kept."""
        kept, self._kept = self._kept, {}
        for fd, path in kept.values():
            _give_back(fd, path)

    def reserve(self, names: Iterable[str], owner: Dict[str, Any]) -> None:
        """Hold them over many operations: until ``give_up``, or until the agent ends.

        Raises:
            AgentError: ``lock-held``: then none of these; ``io``.
        """
        before = dict(self._kept)
        with self.hold(names, owner, keep=True):
            pass
        taken = {name: held for name, held in self._kept.items() if name not in before}
        self._kept = before
        self._reserved.update(taken)

    def give_up(self) -> None:
        """Give back what was reserved."""
        reserved, self._reserved = self._reserved, {}
        for fd, path in reserved.values():
            _give_back(fd, path)

    def listing(self) -> List[Dict[str, Any]]:
        """Every lock that is held now, as ``unlock`` of the contract shows it."""
        folder = _folder(self._declared)
        found: List[Dict[str, Any]] = []
        for file in sorted(os.listdir(folder)):
            if file.startswith(_PREFIX) and file.endswith(_SUFFIX):
                lock = _look(os.path.join(folder, file))
                if lock is not None:
                    found.append({"name": file[len(_PREFIX) : -len(_SUFFIX)], **lock})
        return found

    def break_stale(self) -> List[Dict[str, Any]]:
        """Take away locks whose holder is dead but whose descriptor somebody inherited.

        Returns:
            All that were held, as ``listing``; those with ``alive`` stay.

        Raises:
            AgentError: ``io``: the file belongs to another user.
        """
        locks = self.listing()
        folder = _folder(self._declared)
        for lock in locks:
            if not lock["alive"]:
                path = os.path.join(folder, _file(lock["name"]))
                try:
                    os.unlink(path)  # who holds the old file holds nothing any more
                except OSError as error:
                    raise AgentError("io", f"cannot remove {path}: {error.strerror}") from error
        return locks


def _folder(declared: str) -> str:
    """The folder for locks, the same for every user of the host."""
    if declared:
        os.makedirs(declared, exist_ok=True)
        return declared
    with contextlib.suppress(OSError):
        if os.stat(SYSTEM_DIR).st_mode & 0o1002 == 0o1002:  # sticky and writable for all
            return SYSTEM_DIR
    with contextlib.suppress(FileExistsError):
        os.mkdir(FALLBACK_DIR)
        os.chmod(FALLBACK_DIR, 0o1777)
    state = os.lstat(FALLBACK_DIR)
    if not stat.S_ISDIR(state.st_mode) or state.st_mode & 0o1002 != 0o1002:
        raise AgentError(
            "io",
            f"{FALLBACK_DIR} is no folder that all users may write to",
            next_step=f"remove {FALLBACK_DIR} or give it the mode 1777",
        )
    return FALLBACK_DIR


def _file(name: str) -> str:
    return _PREFIX + re.sub(r"[^A-Za-z0-9._-]", "_", name) + _SUFFIX


def _take(path: str, name: str, owner: Dict[str, Any]) -> int:
    """The descriptor of a lock that is ours now."""
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
            raise _is_held(name, held)
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


def _give_back(fd: int, path: str) -> None:
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


def _look(path: str) -> Optional[Dict[str, Any]]:
    """Who holds the lock; None where nobody does."""
    try:
        fd = _open_existing(path, os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    held = None if _flock(fd, fcntl.LOCK_SH, path) else _owner(fd)
    os.close(fd)
    return held


def _is_held(name: str, held: Dict[str, Any], advice: str = "") -> AgentError:
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
