"""A cgroup of its own for each server, where the host lets us: whatever it starts stays in it.

Version 2 of the hierarchy, else one of version 1 that limits nothing. It lies below our own, so that every
limit holds on; only out of a login's scope, which may be ended with the login, does root step aside.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import List, NamedTuple, Optional, Set

from .descriptors import read_file

PREFIX = "stoker-"
# In this order: the unified one; then those in which nothing but membership is inherited.
_HIERARCHIES = ("", "freezer", "pids")
_LOGIN = re.compile(r"session-[^/]*\.scope$")
# An empty one that is older belongs to a server that is gone with its supervisor.
_STALE_S = 60.0


class Place(NamedTuple):
    """Where our own cgroup lies in one hierarchy.

    Args:
        mount: Where the hierarchy is mounted.
        own: Folder of our own cgroup below it.
    """

    mount: str
    own: str


def make(name: str, places: Optional[List[Place]] = None) -> str:
    """Make a cgroup.

    Args:
        name: Unique on the host.
        places: Where it may be, best first; None: what this host has.

    Returns:
        Its folder; empty where the host does not let us.
    """
    for place in found() if places is None else places:
        aside = os.getuid() == 0 and _LOGIN.search(place.own)
        for parent in (place.mount, place.own) if aside else (place.own,):
            path = os.path.join(parent, PREFIX + name)
            with contextlib.suppress(OSError):
                os.mkdir(path)
                if os.access(os.path.join(path, "cgroup.procs"), os.W_OK):
                    _sweep(parent)
                    return path
                os.rmdir(path)
    return ""


def found() -> List[Place]:
    """Our own cgroup in each hierarchy that is mounted here and can serve, best first."""
    mounts = read_file("/proc/self/mountinfo").decode("utf-8", "replace")
    return places(mounts, read_file("/proc/self/cgroup").decode("utf-8", "replace"))


def places(mountinfo: str, membership: str) -> List[Place]:
    """The same from the text of ``/proc/self/mountinfo`` and ``/proc/self/cgroup``."""
    own = {}
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own.update(dict.fromkeys(controllers.split(","), path))
    found: List[Place] = []
    for hierarchy in _HIERARCHIES:
        mount = _mounted(mountinfo, hierarchy)
        if mount is not None and hierarchy in own:
            root, point = mount
            path = own[hierarchy]
            if path == root or path.startswith(root.rstrip("/") + "/"):
                below = path[len(root.rstrip("/")) :].strip("/")
                found.append(Place(point, os.path.join(point, below) if below else point))
    return found


def _mounted(mountinfo: str, hierarchy: str) -> Optional["tuple[str, str]"]:
    """Root and mount point of a hierarchy; ``""`` means the unified one."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        words, kind = before.split(), after.split()
        if len(words) < 5 or len(kind) < 3:
            continue
        fits = (
            kind[0] == "cgroup2" if not hierarchy else kind[0] == "cgroup" and hierarchy in kind[2].split(",")
        )
        if fits:
            return _plain(words[3]), _plain(words[4])
    return None


def _plain(word: str) -> str:
    """A path of mountinfo, in which blanks are written in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal.group(1), 8)), word)


def members(path: str) -> Set[int]:
    """Pids in a cgroup and in those below it; empty where it is gone."""
    pids: Set[int] = set()
    for folder, _, _ in os.walk(path) if path else ():
        text = read_file(os.path.join(folder, "cgroup.procs"))
        pids.update(int(word) for word in text.split() if word.isdigit())
    return pids - {0}


def exists(path: str) -> bool:
    """Whether the cgroup is there."""
    return bool(path) and os.path.isdir(path)


def kill(path: str) -> bool:
    """SIGKILL to all in it at once, so that nobody forks away; False where the kernel cannot."""
    with contextlib.suppress(OSError):
        fd = os.open(os.path.join(path, "cgroup.kill"), os.O_WRONLY | os.O_CLOEXEC)
        with os.fdopen(fd, "w") as file:
            file.write("1")
        return True
    return False


def remove(path: str) -> None:
    """Take an empty cgroup away, with those that the server made below it."""
    if PREFIX not in path:
        return
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):  # somebody lives in it, or it is gone already
            os.rmdir(folder)


def without_ours(path: str) -> str:
    """A path in the hierarchy as it would be without a cgroup that a Stoker made."""
    return re.sub(rf"/{PREFIX}[^/]*(/.*)?$", "", path) or "/"


def _sweep(parent: str) -> None:
    """Remove what servers left whose supervisor could not."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            old = name.startswith(PREFIX) and time.time() - os.stat(path).st_mtime > _STALE_S
            if old and not members(path):
                remove(path)
