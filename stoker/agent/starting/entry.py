"""What a unit, a container's entry point or cron runs: start the slot's server, stay, end it when told.

Run as ``python -I -S agent.zip FOLDER``, where FOLDER is the slot's ``persist``. It is the parent of the
supervisor and, as PID 1 of a container, of every orphan; SIGTERM and SIGINT end the server by a clean kill.
Everything is imported before the launch: the archive may be replaced or removed while the server runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import pkgutil
import shlex
import signal
import socket
import sys
import time
from typing import Any, Dict, Mapping, Optional

from .. import secretsfile
from ..context import AgentError, Context
from ..launches import state, units
from ..launches.units import Started
from ..processes import procs
from ..session import Session
from . import launch, life

PR_SET_CHILD_SUBREAPER = 36
# After a boot the driver, the model's disk and the network come when they come.
PATIENCE_S = 600.0
_RETRY_S = 5.0
_WAIT_FOR = ("preflight", "lock-held")
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
EXIT_FAILED = 3


def main(folder: str) -> int:
    """Start, stay, and end with the server's own status.

    Args:
        folder: The slot's ``persist``.
    """
    with open(os.path.join(folder, "boot.json"), encoding="utf-8") as file:
        boot = json.load(file)
    ctx = Context(_say, Session({**boot["login_env"], units.INSIDE: boot["unit"] or "entry point"}))
    _import_all()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    told = _Told()
    try:
        began = _handed_over(folder) or _boot(ctx, boot, folder, told)
    except AgentError as error:
        _tell(error)
        return EXIT_FAILED
    if began is None:
        return 0
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # from here on they are waited for, and none is lost
    _notify("READY=1\nSTATUS=process %d" % began.pid)
    return _stay(ctx, boot, folder, began, told)


class _Told:
    """Whether somebody said to end, while the server was being started: a start is finished, then undone.

    By handlers, for a blocked signal would stay blocked in the server; an exec sets handlers back.
    """

    def __init__(self) -> None:
        self.to_end = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, *_: Any) -> None:
        self.to_end = True

    def rest(self, seconds: float) -> None:
        """Wait, no longer than until it is said."""
        end = time.monotonic() + seconds
        while not self.to_end and time.monotonic() < end:
            time.sleep(0.1)


def _import_all() -> None:
    """Whatever may be needed to end the server."""
    agent = __name__.rpartition(".starting.")[0]
    for module in pkgutil.walk_packages(sys.modules[agent].__path__, agent + "."):
        importlib.import_module(module.name)


def _handed_over(folder: str) -> Optional[Started]:
    """Run the launch that an agent prepared and waits for."""
    given = units.taken(folder)
    if given is None:
        return None
    started = launch.run_shim(given["folder"], given["argv"], given["env"], given["cwd"], given["name"])
    units.answer(folder, given["folder"], started)
    return started


def _boot(ctx: Context, boot: Mapping[str, Any], folder: str, told: _Told) -> Optional[Started]:
    """Start by ourselves, as ``inv start`` would; what a boot brings late is waited for.

    Returns:
        None where we were told to end before it was there.

    Raises:
        AgentError: As ``restart`` does; ``already-running``: outside of this unit.
    """
    plan = {**boot["plan"], "secrets": _secrets(folder)}
    params = {"plan": plan, "engines": boot["engines"], "replace": False, "owner": boot["unit"] or "boot"}
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            done = life.restart(ctx, params)
            break
        except AgentError as error:
            if error.kind not in _WAIT_FOR or time.monotonic() > end:
                raise
            _tell(error)
            told.rest(_RETRY_S)
            if told.to_end:
                return None
    one = done["launch"]
    if done["already_running"]:
        what = f"it runs already, outside of this: process {one['pid']}"
        raise AgentError("already-running", what, next_step="inv restart brings it into this")
    return Started(one["shim_pid"], one["shim_start"], one["pid"], one["start"], one["cgroup"])


def _stay(ctx: Context, boot: Mapping[str, Any], folder: str, began: Started, told: _Told) -> int:
    """Reap until the supervisor has ended; end the server when told."""
    asked, to_end = False, told.to_end
    while True:
        _reap()
        if not procs.alive(began.shim_pid, began.shim_start):
            return 0 if asked else _status(ctx, boot["plan"]["slot"])
        if to_end or signal.sigwait(_SIGNALS) != signal.SIGCHLD:
            asked, to_end = True, False
            _notify("STOPPING=1")
            _stop(ctx, boot, hooks=not units.is_asked_by_agent(folder))


def _stop(ctx: Context, boot: Mapping[str, Any], *, hooks: bool) -> None:
    """A clean kill of the slot. Whoever asks for it may hold the locks, and waits for us."""
    params = {"slot": boot["plan"]["slot"], "engines": boot["engines"], "locked": True, "hooks": hooks}
    params["owner"] = boot["unit"] or "its entry point"
    try:
        life.stop(ctx, params)
    except AgentError as error:
        _tell(error)


def _status(ctx: Context, slot: str) -> int:
    """How the server ended, as a shell tells it."""
    latest = state.current(ctx.home, slot)
    ended = state.exit_of(ctx.home, latest) if latest else None
    if not ended:
        return 0
    return 128 + ended["signal"] if "signal" in ended else ended["code"]


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _secrets(folder: str) -> Dict[str, str]:
    try:
        with open(os.path.join(folder, secretsfile.NAME), encoding="utf-8") as file:
            words = shlex.split(file.read())
    except FileNotFoundError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def _notify(text: str) -> None:
    """Tell systemd, where it listens."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(text.encode(), "\0" + path[1:] if path.startswith("@") else path)


def _say(event: Mapping[str, Any]) -> None:
    """Steps as lines, for the journal or the container's log."""
    if event["type"] == "step" and event["state"] == "end":
        print(f"{event['name']}: {event['detail']} ({event['seconds']:.1f} s)", flush=True)


def _tell(error: AgentError) -> None:
    lines = [f"{error.kind}: {error.what}", *(f"  {line}" for line in error.evidence[-12:])]
    print("\n".join([*lines, *([f"next: {error.next_step}"] if error.next_step else [])]), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
