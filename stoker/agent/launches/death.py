"""How a server's end is told: one error, whoever saw it end."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Tuple

from ..context import AgentError, Context
from ..logfiles.logtail import Fatal, Matcher, message
from . import state
from .state import Launch

_SIGNALS = {
    7: ("shared-memory", "Make room in /dev/shm or on the disk: a mapped file could not be filled."),
    9: ("killed", "Look into the kernel's log (dmesg) for the out-of-memory killer, or for who ended it."),
    6: ("aborted", "Read the last lines of its log."),
    11: ("crashed", "Read the last lines of its log; a native library of the engine crashed."),
    15: ("terminated", "Somebody ended it: look for a supervisor or another operator."),
}
# What the engine itself tells of such an end: only that somebody has gone.
_ONLY_GONE = ("killed", "unknown", "worker-died", "engine-died", "engine-failed")
_STARVED = "Free the host's memory (RAM, not the GPUs'), or raise the limit of the container or unit."
_TOLD_S = 1.0


def died(
    what: str,
    log: str,
    status: Optional[Mapping[str, int]],
    evidence: Sequence[str],
    cause: Optional[Fatal] = None,
    *,
    alive: bool = False,
    starved: int = 0,
    **detail: Any,
) -> AgentError:
    """The error ``died`` of the contract.

    Args:
        what: One sentence, without the cause.
        log: Path of its log on the host; empty where it has none that we know.
        status: ``{"code": n}`` or ``{"signal": n}``; None: nobody saw it.
        evidence: The last lines that show it.
        cause: The engine's line that tells why; None: the status has to.
        alive: It cannot come up, but lives on.
        starved: How many processes the kernel's out-of-memory killer ended meanwhile.
        detail: More for programs.
    """
    name, advice = (cause.cause, cause.advice) if cause else _by_status(status)
    if starved > 0 and name in _ONLY_GONE:
        name, advice = "host-memory", _STARVED
    if starved > 0:
        evidence = [*evidence, f"the kernel's out-of-memory killer ended {starved} processes here meanwhile"]
    because = f": {' '.join(message(cause.line).split())[:300]}" if cause else ""
    told: Dict[str, Any] = {
        "cause": name,
        "exit": dict(status) if status else None,
        "alive": alive,
        "log": log,
    }
    return AgentError("died", f"{what}{because}", evidence, advice, {**told, **detail})


def cause_in(engine: Mapping[str, Any], lines: Iterable[str]) -> Optional[Fatal]:
    """The most telling of an engine's fatal lines; None where none is there, or the engine has none."""
    if not engine.get("fatal"):
        return None
    matcher = Matcher(engine)
    for line in lines:
        matcher.feed(line)
    return matcher.cause


def exit_status(ctx: Context, launch: Launch) -> Optional[Dict[str, int]]:
    """How a launch's server ended; on a busy host its shim tells a moment later."""
    end = time.monotonic() + _TOLD_S
    while True:
        status = state.exit_of(ctx.home, launch)
        if status is not None or time.monotonic() > end:
            return status
        time.sleep(0.005)


def ending(status: Optional[Mapping[str, int]]) -> str:
    """``ended with exit status 3``, and the like."""
    if status is None:
        return "ended"
    if "signal" in status:
        return f"was ended by signal {status['signal']}"
    return f"ended with exit status {status['code']}"


def _by_status(status: Optional[Mapping[str, int]]) -> Tuple[str, str]:
    """Cause and advice where the log names none."""
    if status and "signal" in status:
        return _SIGNALS.get(status["signal"], ("signalled", "Find out who sent it that signal."))
    if status and status["code"] in (126, 127):
        return "not-found", "Check the profile's venv, python and PATH: the command could not be run."
    if status and status["code"] == 0:
        return "ended", "The command ended by itself: it must stay in the foreground."
    return "unknown", "Read the last lines of its log."
