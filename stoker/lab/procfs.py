"""Processes of this machine, as /proc tells: who descends from whom, and who belongs to a lab."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

MARKERS = ("HOME", "STOKER_HOST_FACTS", "STOKER_LAB_STATE")
_POLL_S = 0.005


class Process(NamedTuple):
    """One process; ``pid`` and ``start`` (clock ticks since boot) name it together."""

    pid: int
    start: int
    ppid: int
    sid: int
    state: str

    @property
    def gone(self) -> bool:
        """A zombie runs no more."""
        return self.state in "ZX"


def look(pid: int) -> Process | None:
    """The process that has this number now; None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0])


def alive(pid: int, start: int) -> bool:
    """Whether that very process still runs."""
    process = look(pid)
    return process is not None and process.start == start and not process.gone


def table() -> dict[int, Process]:
    """Every process there is, by number."""
    found = (look(int(entry.name)) for entry in os.scandir("/proc") if entry.name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descendants(roots: Iterable[int], processes: dict[int, Process]) -> list[Process]:
    """All processes below the given ones, without these, parents first."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.ppid, []).append(process)
    found: list[Process] = []
    todo = list(roots)
    while todo:
        below = children.pop(todo.pop(0), [])
        found += below
        todo += [process.pid for process in below]
    return found


def members(groups: Mapping[str, Iterable[Path]]) -> dict[str, list[Process]]:
    """Processes that belong to each of several folders: a lab's, or its hosts'.

    A process belongs when its environment names a place there (``MARKERS``), or when one above it belongs.
    Where the environment cannot be told (a process that renamed itself has wiped it), it belongs when it
    works in such a folder or holds a file of it open. Never this process and those above it.

    Args:
        groups: Name to its folders; absolute, links resolved.
    """
    processes = table()
    own = _ancestry(processes)
    marks = {
        process.pid: _marks(process.pid)
        for process in processes.values()
        if process.pid not in own and not process.gone
    }
    found: dict[str, list[Process]] = {}
    for name, folders in groups.items():
        places = tuple(str(folder) for folder in folders)
        heads = [pid for pid, paths in marks.items() if any(_inside(path, places) for path in paths)]
        below = [process.pid for process in descendants(heads, processes) if process.pid in marks]
        found[name] = [processes[pid] for pid in dict.fromkeys(heads + below)]
    return found


def end(find: Callable[[], list[Process]], within_s: float) -> tuple[int, list[Process]]:
    """SIGKILL what ``find`` finds until it finds nothing.

    Args:
        find: Looks anew each time: a process may fork while it is being ended.
        within_s: After this the rest is given up.

    Returns:
        How many were ended, and who still lives.
    """
    deadline = time.monotonic() + within_s
    seen: set[tuple[int, int]] = set()
    left = find()
    while left and time.monotonic() < deadline:
        for process in left:
            seen.add((process.pid, process.start))
            kill(process, signal.SIGKILL)
        time.sleep(_POLL_S)
        left = find()
    return len(seen) - len(left), left


def kill(process: Process, signum: int) -> None:
    """Signal that very process; nothing happens where it is gone."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = look(process.pid)  # the handle is held: the number cannot be given away any more
        if now is not None and now.start == process.start:
            signal.pidfd_send_signal(handle, signum)
    except OSError:
        pass  # gone, or not ours to signal
    finally:
        os.close(handle)


def wait_gone(pid: int, start: int, within_s: float) -> bool:
    """Wait until that process is gone; False where it still runs after ``within_s``."""
    deadline = time.monotonic() + within_s
    while alive(pid, start):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _ancestry(processes: dict[int, Process]) -> set[int]:
    own: set[int] = set()
    pid = os.getpid()
    while pid in processes and pid not in own:
        own.add(pid)
        pid = processes[pid].ppid
    return own


def _marks(pid: int) -> list[str]:
    """Paths that tell where a process belongs."""
    environment = _environment(pid)
    if environment:
        return [environment[name] for name in MARKERS if name in environment]
    return list(_targets(pid))


def _inside(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def _environment(pid: int) -> dict[str, str]:
    """As at exec; empty where it is empty, wiped or not ours to read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in raw.decode("utf-8", "replace").split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def _targets(pid: int) -> Iterable[str]:
    """Working folder and open files."""
    try:
        links = [Path(f"/proc/{pid}/cwd"), *Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return
    for link in links:
        try:
            yield str(link.readlink())
        except OSError:
            continue
