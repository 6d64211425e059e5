"""The record of a launch on the host, read by type; what a damaged one cannot tell, the host does."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import outside
from ..processes.descriptors import read_file
from ..processes.procs import Process, alive, look

Launch = Dict[str, Any]

MARKER = "STOKER_LAUNCH"
NAME = "launch.json"
# Field to what it is where it is missing; its type is what the field must have. (None: see ``_fits``.)
_FIELDS: Mapping[str, Any] = {
    "launch_id": "",
    "slot": "",
    "profile": "",
    "profile_hash": "",
    "host": "",
    "engine": "",
    "pid": 0,
    "start": 0,
    "shim_pid": 0,
    "shim_start": 0,
    "bind": "",
    "port": 0,
    "gpus": [],
    "model": "",
    "kill": {},
    "resolved": {},
    "script": "",
    "log": "",
    "marker": "",
    "cgroup": "",
    "unit": "",
    "boot_id": "",
    "simulated": False,
    "started_at": 0.0,
}
# Not in every record, and nothing where they are missing.
_OPTIONAL: Mapping[str, Any] = {"init_start": 0, "gpu_uuids": [], "steps": [], "verdict": "", "ready_s": 0.0}
_NEEDED = ("launch_id", "slot", "pid", "start", "marker", "boot_id")
# What stands inside: field, name, and as above.
_INSIDE: Tuple[Tuple[str, str, Any], ...] = (
    ("kill", "protect", []),
    ("kill", "grace_s", 0.0),
    ("resolved", "env", {}),
    ("resolved", "expect", {}),
    ("resolved", "server", {}),
)


def read(folder: str, slot: str, launch_id: str) -> Optional[Launch]:
    """One launch.

    Args:
        folder: Of the launch.

    Returns:
        Its record, every field of its type. Of a damaged one what is whole, its processes as they are found
        on the host, and in ``damaged`` why. None where nothing was launched.
    """
    path = os.path.join(folder, NAME)
    words = _numbers(os.path.join(folder, "launcher"))
    if not words and not os.path.lexists(path):
        return None
    found, why = _parsed(path)
    launch, wrong = _typed(found)
    why = why or wrong
    if not why and (launch["launch_id"], launch["slot"]) != (launch_id, slot):
        why = "it is of another launch"
    if why:
        launch.update(launch_id=launch_id, slot=slot, damaged=f"{path} is damaged: {why}")
        launch.update(script=os.path.join(folder, "launch.sh"), log=os.path.join(folder, "server.log"))
        _rebuild(folder, launch, words)
    elif not launch["pid"] and words:  # whoever launched it was ended before it could say so
        launch["pid"], launch["start"] = words
    return launch


def _parsed(path: str) -> Tuple[Dict[str, Any], str]:
    """(the object, why there is none)."""
    if not os.path.isfile(path) or os.path.islink(path):
        return {}, "it is no file" if os.path.lexists(path) else "it is not there"
    try:
        found = outside.parse(read_file(path))
    except outside.OutsideError as error:
        return {}, f"no JSON ({error})"
    return (found, "") if isinstance(found, dict) else ({}, "no JSON object")


def _typed(found: Mapping[str, Any]) -> Tuple[Launch, str]:
    """(the record with what is whole, the first thing that is not)."""
    launch = dict(found)
    wrong: List[str] = [f"it has no {name}" for name in _NEEDED if name not in found]
    for name, usual in {**_FIELDS, **_OPTIONAL}.items():
        if name in launch and not _fits(launch[name], usual, optional=name in _OPTIONAL):
            wrong.append(f"{name} is {str(launch.pop(name))[:40]!r}")
        if name not in launch and name in _FIELDS:
            launch[name] = type(usual)()
    for name, inner, usual in _INSIDE:
        if inner in launch[name] and not _fits(launch[name][inner], usual, optional=True):
            launch[name] = {key: value for key, value in launch[name].items() if key != inner}
            wrong.append(f"{name}.{inner} is of another type")
    return launch, wrong[0] if wrong else ""


def _fits(value: Any, usual: Any, *, optional: bool) -> bool:
    if value is None:
        return optional
    if isinstance(usual, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(usual, list) and isinstance(value, list):
        return all(isinstance(item, (str, int, dict)) for item in value)
    return type(value) is type(usual) and not (isinstance(value, int) and not 0 <= value < 1 << 53)


def _rebuild(folder: str, launch: Launch, words: Optional[Tuple[int, int]]) -> None:
    """Its processes: the supervisor by the folder in its command line, the server by what that wrote."""
    shim = _shim(folder)
    if shim is not None:
        launch["shim_pid"], launch["shim_start"] = shim.key
    elif not alive(launch["shim_pid"], launch["shim_start"]):
        launch["shim_pid"] = launch["shim_start"] = 0
    server = words or (_first_below(shim.pid) if shim else None)
    if server:
        launch["pid"], launch["start"] = server
    if not launch["marker"]:
        marked = (_environ(pid).get(MARKER, "") for pid in (launch["shim_pid"], launch["pid"]) if pid)
        launch["marker"] = next(filter(None, marked), "")
    if not launch["started_at"]:
        launch["started_at"] = _written_at(folder)


def lives(launch: Mapping[str, Any]) -> bool:
    """Whether the supervisor or the server of a launch is there: then it is of this boot."""
    return alive(launch["shim_pid"], launch["shim_start"]) or alive(launch["pid"], launch["start"])


def _shim(folder: str) -> Optional[Process]:
    """The supervisor that was started for this folder; of two, the first: the other will be the server."""
    script, found = os.path.join(folder, "shim.py"), []
    for pid in _pids():
        argv = read_file(f"/proc/{pid}/cmdline").split(b"\0")
        if os.fsencode(script) in argv[1:5] and os.fsencode(folder) in argv[2:6]:
            process = look(pid)
            if process is not None and not process.gone:
                found.append(process)
    return min(found, key=_by_age, default=None)


def _first_below(pid: int) -> Optional[Tuple[int, int]]:
    """The oldest child: what came later was taken in."""
    children = [process for process in map(look, _pids()) if process is not None and process.ppid == pid]
    oldest = min(children, key=_by_age, default=None)
    return oldest.key if oldest else None


def _pids() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _by_age(process: Process) -> Tuple[int, int]:
    return process.start, process.pid


def _environ(pid: int) -> Dict[str, str]:
    from ..processes import liveenv  # dear, and rarely needed

    return liveenv.Reader().given(pid) or {}


def _numbers(path: str) -> Optional[Tuple[int, int]]:
    """The two numbers in a file of the supervisor's; None where they are not there."""
    words = read_file(path).split()
    if len(words) != 2 or not all(word.isdigit() and len(word) < 20 for word in words):
        return None
    return int(words[0]), int(words[1])


def _written_at(folder: str) -> float:
    """When the launch was prepared, as Unix time; 0 where nobody knows."""
    try:
        return os.lstat(os.path.join(folder, "shim.py")).st_mtime
    except OSError:
        return 0.0
