"""What stays on the host between connections: slots, their launches, and which processes belong to one."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from ..context import AgentError
from ..facts import Facts
from ..processes import cgroups
from ..processes.procs import Process, Snapshot, alive, read_file
from . import records

Launch = records.Launch
MARKER = records.MARKER
KEPT_LAUNCHES = 20
# How a launch's processes are told, the surest first.
_ORDER = ("shim", "cgroup", "session", "marker")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def slot_dir(home: str, slot: str) -> str:
    """Folder of a slot.

    Args:
        home: ``~/.stoker``.

    Raises:
        AgentError: ``bad-request``: no plain file name.
    """
    return os.path.join(home, "slots", _safe(slot, "slot"))


def launch_dir(home: str, slot: str, launch_id: str) -> str:
    """Folder of one launch; raises as ``slot_dir`` does."""
    return os.path.join(slot_dir(home, slot), "launches", _safe(launch_id, "launch"))


def current(home: str, slot: str) -> Optional[Launch]:
    """The slot's latest launch as recorded (it may have ended since); None where there is none."""
    launch_id = read_file(os.path.join(slot_dir(home, slot), "current")).decode("utf-8", "replace").strip()
    if not _SAFE_NAME.fullmatch(launch_id):
        launch_id = ""
    return _unnamed(home, slot, launch_id) or (recorded(home, slot, launch_id) if launch_id else None)


def recorded(home: str, slot: str, launch_id: str) -> Optional[Launch]:
    """The record of one launch, as ``records.read`` tells it; None where nothing was launched."""
    return records.read(launch_dir(home, slot, launch_id), slot, launch_id)


def must_have(home: str, slot: str, launch_id: Optional[str] = None) -> Launch:
    """The record of a launch.

    Args:
        launch_id: None: the slot's latest.

    Raises:
        AgentError: ``no-server``: there is none.
    """
    launch = recorded(home, slot, launch_id) if launch_id else current(home, slot)
    if launch is None:
        known = history(home, slot) if launch_id else slots(home)
        what = (
            f"no launch {launch_id} in slot {slot}" if launch_id else f"nothing was launched in slot {slot}"
        )
        raise AgentError("no-server", what, next_step="known here: " + (", ".join(known) or "nothing"))
    return launch


def launches(home: str) -> List[Launch]:
    """The latest launch of every slot."""
    found = (current(home, slot) for slot in slots(home))
    return [launch for launch in found if launch is not None]


def slots(home: str) -> List[str]:
    """Names of the slots that have a folder."""
    return [name for name in _names(os.path.join(home, "slots")) if _SAFE_NAME.fullmatch(name)]


def history(home: str, slot: str) -> List[str]:
    """Ids of the launches that are kept, oldest first."""
    folder = os.path.join(slot_dir(home, slot), "launches")
    return [name for name in _names(folder) if _SAFE_NAME.fullmatch(name)]


def last_ready(home: str, slot: str) -> Optional[Launch]:
    """The newest launch of a slot that ever got ready; None where none is known to have."""
    found = (recorded(home, slot, launch_id) for launch_id in reversed(history(home, slot)))
    whole = (one for one in found if one is not None and "damaged" not in one)
    return next((one for one in whole if one.get("ready_s") is not None), None)


def starts(home: str, slot: str, facts: Facts) -> Dict[str, Any]:
    """How often a slot was started, as far as its launches are kept.

    Returns:
        ``{launches, boots, this_boot, since}``: launches that began, in how many boots of the host (or of its
        container), how many of them in this one, and when the first was (Unix time, None: there is none).
    """
    kept = (recorded(home, slot, launch_id) for launch_id in history(home, slot))
    began = [launch for launch in kept if launch is not None and launch["pid"]]
    return {
        "launches": len(began),
        "boots": len({(one["boot_id"], one.get("init_start")) for one in began}),
        "this_boot": sum(is_this_boot(one, facts) for one in began),
        "since": min((float(one["started_at"]) for one in began), default=None),
    }


def exit_of(home: str, launch: Launch) -> Optional[Dict[str, int]]:
    """How the launcher ended, as its shim saw it.

    Returns:
        ``{"code": n}`` or ``{"signal": n}``; None while it runs, or where nobody saw it.
    """
    folder = launch_dir(home, launch["slot"], launch["launch_id"])
    text = read_file(os.path.join(folder, "exit")).decode("ascii", "replace").strip()
    if not re.fullmatch(r"-?\d+", text):
        return None
    status = int(text)
    return {"signal": -status} if status < 0 else {"code": status}


def leftovers(home: str, slot: str, facts: Facts) -> List[Launch]:
    """Launches of this slot that may still have processes, oldest first: none proved that nothing is left."""
    found = (recorded(home, slot, launch_id) for launch_id in history(home, slot))
    return [
        launch
        for launch in found
        if launch is not None
        and launch["pid"]
        and is_this_boot(launch, facts)
        and not os.path.exists(os.path.join(launch_dir(home, slot, launch["launch_id"]), "empty"))
    ]


def is_this_boot(launch: Launch, facts: Facts) -> bool:
    """Whether the host has not been restarted since; a container's restart is one too."""
    if "damaged" in launch and not launch["boot_id"]:
        return records.lives(launch)
    init = launch.get("init_start", facts.init_start)
    return bool(launch.get("boot_id") == facts.boot_id and init == facts.init_start)


def members(snapshot: Snapshot, launch: Launch) -> Tuple[List[Process], str]:
    """The processes of one launch that live, the shim left out.

    Returns:
        The processes, parents before children, and how they were found: ``shim`` (every descendant, whatever
        it renamed or detached), ``session+marker`` where the shim is gone, either with ``cgroup`` where the
        server has one of its own; ``none`` after the host's restart.
    """
    if not is_this_boot(launch, snapshot.facts) or int(launch.get("pid") or 0) <= 0:
        return [], "none"  # (0 stands for every session that began outside of a container)
    own = str(launch.get("cgroup") or "")
    inside = cgroups.members(own)
    contained = [process for process in snapshot.living() if process.pid in inside]
    if snapshot.alive(int(launch.get("shim_pid") or 0), int(launch.get("shim_start") or 0)):
        roots, how = [], ["shim"]
        found = {member.pid: member for member in snapshot.descendants(int(launch["shim_pid"]))}
    else:
        roots, how = _session(snapshot, launch) + _marked(snapshot, launch), ["session", "marker"]
        found = {}
    for process in [*contained, *roots]:
        for member in [process, *snapshot.descendants(process.pid)]:
            found.setdefault(member.pid, member)
    found.pop(os.getpid(), None)
    how = sorted([*how, "cgroup"], key=_ORDER.index) if cgroups.exists(own) else how
    return list(found.values()), "+".join(how)


def _unnamed(home: str, slot: str, named: str) -> Optional[Launch]:
    """The launch that lives, where whoever launched it was ended before it could name it the current one."""
    for launch_id in reversed(history(home, slot)):
        folder = launch_dir(home, slot, launch_id)
        ended = os.path.exists(os.path.join(folder, "empty"))
        if launch_id == named or ended or not os.path.exists(os.path.join(folder, "launcher")):
            continue
        launch = recorded(home, slot, launch_id)
        if launch is None:
            continue
        # One whose command has ended well may have become a daemon: its supervisor tells whether any is left.
        is_daemon = launch_id > named and exit_of(home, launch) == {"code": 0}
        if alive(int(launch["pid"]), int(launch["start"])) or (
            is_daemon and alive(int(launch.get("shim_pid") or 0), int(launch.get("shim_start") or 0))
        ):
            return launch
    return None


def write(path: str, text: str, mode: int = 0o600) -> None:
    """Write a file whole: under a temporary name, then renamed.

    Raises:
        AgentError: ``io``, with the path.
    """
    draft = f"{path}.{os.getpid()}.new"
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            os.fchmod(fd, mode)
            file.write(text)
        os.rename(draft, path)
    except OSError as error:
        _forget(draft)
        raise io_error(path, error) from error


def write_json(path: str, value: Launch) -> None:
    """Write a JSON file as ``write`` does."""
    # In the order given: a launch's record holds a profile, and arguments have an order.
    write(path, json.dumps(value, indent=1) + "\n")


def amend(home: str, launch: Launch, more: Launch) -> Launch:
    """The launch with more in its record; a record that cannot be written costs nobody the server."""
    amended = {**launch, **more}
    if "damaged" in launch:
        return amended  # it stays as it is, for whoever wants to know what happened
    path = os.path.join(launch_dir(home, launch["slot"], launch["launch_id"]), records.NAME)
    with contextlib.suppress(AgentError):
        write_json(path, amended)
    return amended


def io_error(path: str, error: OSError) -> AgentError:
    """The same fault of the file system as an error of the contract, naming the path."""
    mends = {
        errno.ENOSPC: f"make room there: df -h {os.path.dirname(path)}",
        errno.EDQUOT: "make room: the account's quota is used up",
        errno.EROFS: f"mount it to be written to: findmnt -T {os.path.dirname(path)}",
    }
    advice = mends.get(error.errno or 0, f"make {path} writable")
    return AgentError("io", f"cannot write {path}: {error.strerror or error}", next_step=advice)


def _session(snapshot: Snapshot, launch: Launch) -> List[Process]:
    """Members of the launcher's session, unless its number has passed to somebody else since."""
    sid, start = int(launch["pid"]), int(launch["start"])
    members = [p for p in snapshot.living() if p.sid == sid]
    leader = snapshot.by_pid.get(sid)
    if leader is not None:
        return members if leader.start == start else []
    # The leader is gone. Where environments can be read, one of them must carry the marker.
    envs = [env for env in (snapshot.environ(p.pid) for p in members if _visible(p)) if env]
    if envs and not any(launch["marker"] and env.get(MARKER) == launch["marker"] for env in envs):
        return []
    return [p for p in members if p.start >= start]


def _marked(snapshot: Snapshot, launch: Launch) -> List[Process]:
    start, marker = int(launch["start"]), launch["marker"]
    if not marker:
        return []
    candidates = [p for p in snapshot.living() if p.start >= start and _visible(p)]
    return [p for p in candidates if (snapshot.environ(p.pid) or {}).get(MARKER) == marker]


def _visible(process: Process) -> bool:
    return os.getuid() in (0, process.uid)


def _safe(name: str, what: str) -> str:
    if not isinstance(name, str) or not _SAFE_NAME.fullmatch(name):
        raise AgentError(
            "bad-request", f"{name!r} is no name of a {what}", next_step="use letters, digits, . _ -"
        )
    return name


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _forget(path: str) -> None:
    with contextlib.suppress(OSError):  # it may never have been made
        os.unlink(path)
