"""Waiting for a probe of all-reduces: how far its script is, and why it came no further."""

from __future__ import annotations

import os
import time
from typing import Any, List, Mapping

from ..context import AgentError, Context
from ..launches import death, state
from ..launches.logs import tail
from ..launches.state import Launch
from ..processes.procs import alive
from . import probesheet
from .probesheet import Found

_TICK_S = 0.02
_SHOWN_LINES = 20
_NEXT = {
    "no-torch": "name the environment that the engine runs in: server.venv or server.python",
    "no-tool": "install nccl-tests there and put all_reduce_perf on the profile's PATH, or leave --tool out",
    "too-few-gpus": "this torch is built without CUDA, its driver is too old, or a variable hides GPUs",
}
_LATE_S = 5.0  # the script's own deadline comes first


class Watch:
    """The script's progress.

    Args:
        ctx: The operation's context.
        profile: The profile's name.
        launched: The probe.
        place: Its folder.
        told: What the script was told.
    """

    def __init__(
        self, ctx: Context, profile: str, launched: Launch, place: str, told: Mapping[str, Any]
    ) -> None:
        self._ctx, self._profile, self._launched, self._place = ctx, profile, launched, place
        self._deadline_s = float(told["deadline_s"])
        self._perf = told["tool"] == "nccl-tests"
        self._end = time.monotonic() + self._deadline_s + _LATE_S

    def until(self, reached: str) -> Found:
        """Wait until the script has come there: ``ready``, ``measured`` or ``done``.

        Raises:
            AgentError: ``died``, ``timeout``, ``preflight`` (no torch, too few GPUs), ``cancelled``.
        """
        while True:
            lives = alive(int(self._launched["pid"]), int(self._launched["start"]))
            found = probesheet.read(self._place)
            if found.failed is not None and not lives:  # only then all is told
                raise self._failed(found.failed, found)
            if getattr(found, reached) or found.done:
                return found
            if not lives:
                raise self._gone(found)
            if time.monotonic() > self._end:
                raise self._failed(found.failed or {"late": {}}, found)
            self._ctx.cancelled.wait(_TICK_S)
            self._ctx.check_cancelled()

    def open(self, gate: str) -> None:
        """Let the ranks go on."""
        state.write(os.path.join(self._place, gate), "")

    def _evidence(self) -> List[str]:
        """The end of the server's log and of NCCL's own."""
        lines = tail(str(self._launched["log"]), _SHOWN_LINES)
        for name, text in probesheet.logs(self._place).items():
            lines += [f"{name}: {line}" for line in text.splitlines()[-3:]]
        return lines

    def _failed(self, failed: Mapping[str, Any], found: Found) -> AgentError:
        if "error" in failed:
            kind = "died" if failed["error"].get("kind") == "torch" else "preflight"
            what = f"the probe of {self._profile}: {failed['error'].get('what')}"
            return AgentError(kind, what, self._evidence(), _NEXT.get(str(failed["error"].get("kind")), ""))
        if "died" in failed:
            one = failed["died"]
            status = {"code": one["status"]} if one["status"] >= 0 else {"signal": -one["status"]}
            who = "all_reduce_perf" if self._perf else f"rank {one['rank']}"
            what = f"{who} of the probe of {self._profile} {death.ending(status)} ({found.last})"
            return death.died(what, str(self._launched["log"]), status, self._evidence())
        return AgentError(
            "timeout",
            f"the probe of {self._profile} was not done within {self._deadline_s:g} s ({found.last})",
            self._evidence(),
            "a variable of the profile may make NCCL hang; --deadline gives it more time",
        )

    def _gone(self, found: Found) -> AgentError:
        status = death.exit_status(self._ctx, self._launched)
        what = f"the probe of {self._profile} {death.ending(status)} ({found.last})"
        return death.died(what, str(self._launched["log"]), status, self._evidence())
