"""Locks of the host: ``flock``ed files in a folder all users share, which never outlive their holder.

Other users can write into these files: what stands in them is shown, never trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from contextlib import contextmanager
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from ..context import AgentError, Context
from ..facts import Facts
from . import lockfile

SYSTEM_DIR = "/run/lock"
FALLBACK_DIR = "/tmp/stoker-locks"
_PREFIX, _SUFFIX = "stoker-", ".lock"


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
        raise lockfile.is_held(
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
                held[name] = (lockfile.take(path, name, owner), path)
            yield
            if keep:
                self._kept.update(held)
                held = {}
        finally:
            for fd, path in held.values():
                lockfile.give_back(fd, path)

    def release(self) -> None:
        """Give back what was kept."""
        kept, self._kept = self._kept, {}
        for fd, path in kept.values():
            lockfile.give_back(fd, path)

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
            lockfile.give_back(fd, path)

    def listing(self) -> List[Dict[str, Any]]:
        """Every lock that is held now, as ``unlock`` of the contract shows it."""
        folder = _folder(self._declared)
        found: List[Dict[str, Any]] = []
        for file in sorted(os.listdir(folder)):
            if file.startswith(_PREFIX) and file.endswith(_SUFFIX):
                lock = lockfile.look(os.path.join(folder, file))
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
