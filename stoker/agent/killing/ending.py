"""Who ended a server on purpose: noted in its launch's record before the first signal, and told later."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, Iterator, Mapping, Sequence

from ..context import AgentError, Context
from ..launches import state
from ..launches.state import Launch
from . import describe

STOPPED = "stopped"


def owner(params: Mapping[str, Any], what: str) -> Dict[str, Any]:
    """Who asks for an operation: ``{user, host, what}``."""
    return {"user": describe.user(os.getuid()), "host": str(params.get("owner") or ""), "what": what}


@contextlib.contextmanager
def noted(ctx: Context, launches: Sequence[Launch], params: Mapping[str, Any], what: str) -> Iterator[None]:
    """What is ended inside was ended on purpose; a note that came to nothing is taken back."""
    now = time.time()
    # (An agent may have asked the unit, whose own process ends the server: the first one who asked counts.)
    open_ones = [one for one in (_latest(ctx, launch) for launch in launches) if not one.get(STOPPED)]
    for launch in open_ones:
        state.amend(ctx.home, launch, {STOPPED: {**owner(params, what), "at": now}})
    try:
        yield
    except AgentError as error:
        if error.kind == "unkillable":
            for launch in open_ones:
                state.amend(ctx.home, _latest(ctx, launch), {STOPPED: None})
        raise


def told(launch: Launch) -> str:
    """``was stopped by root from ops@desk (kill) on 2026-11-29 at 21:12:29 UTC``; empty: by nobody."""
    note = launch.get(STOPPED)
    if not isinstance(note, dict) or not isinstance(note.get("at"), (int, float)):
        return ""
    host = str(note.get("host") or "")
    asked = f" from {host}" if host else ""
    when = time.strftime("%Y-%m-%d at %H:%M:%S UTC", time.gmtime(note["at"]))
    return f"was stopped by {note.get('user') or 'somebody'}{asked} ({note.get('what')}) on {when}"


def _latest(ctx: Context, launch: Launch) -> Launch:
    """The record as it is now: whoever waits for the server may have added to it since it was looked at."""
    return state.recorded(ctx.home, str(launch["slot"]), str(launch["launch_id"])) or launch
