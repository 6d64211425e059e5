"""What is looked at all the time while a server starts, and what ends the wait."""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from ..asking import gate
from ..asking.gate import NotYetError
from ..context import AgentError, Context
from ..killing import ending
from ..launches import death, serving, state
from ..logfiles.startlog import StartLog
from ..processes import procs
from ..processes.activity import Meter
from ..processes.procs import Process, Snapshot, snapshot
from . import listening
from .listening import Place

POLL_S = 0.1
_SHORTEST_S = 0.02
_YOUNG_S = 10.0
_LATE_S = 30.0  # for a server that was launched longer ago than its timeout
_STRAGGLERS_S = 0.5  # the exit status may follow a moment after the end, workers' tracebacks too
_LONG_ANSWER_S = 5.0
_VMSTAT = "/proc/vmstat"


class Watch:
    """Looks at the log, the launcher, signs of life and the clock.

    Args:
        plan: ``LaunchPlan.to_wire()``.
        launch: The launch of the contract.

    Attributes:
        waiting_for: Which gate did not open, and why.
        failed_answers: How many times in a row a healthy server gave no tokens.
    """

    def __init__(self, ctx: Context, plan: Mapping[str, Any], launch: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._plan = plan
        self.launch = launch
        self.place = Place(plan)
        now = time.monotonic()
        self._began = now - max(0.0, time.time() - float(launch["started_at"]))
        timeout_s = float(plan["ready"]["timeout_s"])
        self._deadline = max(self._began + timeout_s, now + min(_LATE_S, timeout_s / 2))
        self._stall_s = float(plan["ready"]["stall_s"])
        self._sample_s = min(2.0, max(0.3, self._stall_s / 4))
        self._meter = Meter()
        self._worked_at = self._sampled_at = now
        self._oom_kills = _oom_kills()
        self._joined_s, self._was_alive = self.age_s(), False
        self._gone_since: Optional[float] = None
        self._daemon: Optional[Process] = None
        self._doomed_since: Optional[float] = None
        self._asked_at: Optional[float] = None
        self._completing_at: Optional[float] = None
        self.waiting_for = ""
        self.failed_answers = 0
        engine = plan["engine"]
        self.log = StartLog(ctx, launch["log"], engine, self._began, _own_requests(engine))

    def close(self) -> None:
        """Give the log back."""
        self.log.close()

    def age_s(self) -> float:
        """Seconds since the launch."""
        return time.monotonic() - self._began

    def pause_s(self, most_s: float) -> float:
        """Until the next look: the longer a start has taken, the less a moment matters."""
        return min(most_s, max(_SHORTEST_S, self.age_s() * most_s / _YOUNG_S))

    def left_s(self) -> float:
        """Seconds until the deadline."""
        return max(POLL_S, self._deadline - time.monotonic())

    def look(self) -> Tuple[Snapshot, List[Process]]:
        """A snapshot, and the processes of the launch in it."""
        seen = snapshot(self._ctx.facts)
        members, _ = state.members(seen, dict(self.launch))
        return seen, members

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """While a server that is healthy is asked for its model and a completion."""
        self._asked_at = time.monotonic()
        try:
            yield
            self.failed_answers = 0
        except NotYetError:
            self.failed_answers += 1
            raise
        finally:
            self._asked_at = self._completing_at = None

    def completing(self) -> None:
        """The completion is sent now."""
        self._completing_at = time.monotonic()

    def _unanswered(self) -> str:
        """What has been asked and not been answered."""
        if self._completing_at is not None:
            waited = time.monotonic() - self._completing_at
            return f"the completion sent {waited:.1f} s ago has not been answered"
        if self._asked_at is not None:
            return (
                f"GET {gate.MODELS_PATH}, sent {time.monotonic() - self._asked_at:.1f} s ago, has no answer"
            )
        return ""

    def tick(self) -> None:
        """Look at everything once.

        Raises:
            AgentError: There is nothing to wait for any more.
        """
        self._ctx.check_cancelled()
        before = self.log.fraction
        wrote = self.log.read()
        self._check_life()
        self._check_log()
        self._check_work(wrote, self.log.fraction > before)
        if time.monotonic() > self._deadline:
            raise self._late("timeout", f"not ready {self.age_s():.1f} s after its launch")

    def check_listeners(self) -> List[Process]:
        """Every listener of the plan's place is ours.

        Raises:
            NotYetError: Nobody listens there yet.
            AgentError: ``wrong-listener``.
        """
        if not self.log.says_ready:  # else it may listen elsewhere, which takes a look at every process
            self.place.must_be_taken()
        seen, members = self.look()
        try:
            return self.place.check(seen, members)
        except NotYetError:
            error = self.place.check_elsewhere(seen, members, self.log.urls) if self.log.says_ready else None
            if error is None:
                raise
            error.evidence += self.log.evidence()
            raise error from None

    def _check_life(self) -> None:
        status = state.exit_of(self._ctx.home, dict(self.launch))
        if status is None and procs.alive(int(self.launch["pid"]), int(self.launch["start"])):
            self._was_alive = True
            return
        if status == {"code": 0} and self._is_daemon():
            return
        self._gone_since = self._gone_since or time.monotonic()
        if status is not None or time.monotonic() - self._gone_since > _STRAGGLERS_S:
            self.log.drain()
            raise self._died(status)

    def _is_daemon(self) -> bool:
        """Whether the launcher has left a server behind, that listens or may come to it."""
        if self._daemon is not None and procs.alive(*self._daemon.key):
            return True
        found = serving.alive(self._ctx.home, self._ctx.facts, dict(self.launch), self._plan["engine"])
        if found is not None:
            left = f"left process {found.pid} behind: that is waited for"
            self._ctx.emit("note", text=f"the command ended with status 0 and {left}")
            self._daemon = found
        return found is not None

    def _check_log(self) -> None:
        if self.log.ended is None:
            return
        self._doomed_since = self._doomed_since or time.monotonic()
        if time.monotonic() - self._doomed_since > _STRAGGLERS_S:
            raise self._died(None, alive=True)

    def _check_work(self, wrote: bool, advanced: bool) -> None:
        now = time.monotonic()
        if now - self._sampled_at >= self._sample_s:
            _, members = self.look()
            wrote = self._meter.worked(members, now - self._sampled_at) or wrote
            self._sampled_at = now
        # A healthy server that gives no tokens is busy with our questions, which is no progress.
        long_answer = self._asked_at is not None and now - self._asked_at > _LONG_ANSWER_S
        if advanced or (wrote and (not self.failed_answers or long_answer)):
            self._worked_at = now
        elif now - self._worked_at > self._stall_s:
            raise self._late("stalled", f"no progress for {now - self._worked_at:.1f} s")

    def _died(self, status: Optional[Dict[str, int]], alive: bool = False) -> AgentError:
        cause = self.log.cause
        evidence = self.log.evidence()
        detail: Dict[str, Any] = {}
        if cause and cause.cause == "port-in-use":
            seen, members = self.look()
            pids = {process.pid for process in members}
            rows = [row for row in self.place.holders(seen) if row.pid not in pids]
            evidence += [listening.told(seen, row) for row in rows]
            detail["holders"] = [listening.noun(seen, row) for row in rows]
        stopped = "" if alive else self._stopped()
        if stopped:
            return self._was_stopped(stopped, status)
        how = "cannot come up" if alive else death.ending(status)
        if self._daemon is not None and not alive:
            how = f"became a daemon (process {self._daemon.pid}), and that ended"
        what = f"the server {how} {self._when()}"
        starved = _oom_kills() - self._oom_kills
        log = self.launch["log"]
        return death.died(what, log, status, evidence, cause, alive=alive, starved=starved, **detail)

    def _stopped(self) -> str:
        """That it was ended on purpose, in words; empty where it was not."""
        slot, launch_id = self.launch["slot"], self.launch["launch_id"]
        return ending.told(state.recorded(self._ctx.home, slot, launch_id) or {})

    def _was_stopped(self, stopped: str, status: Optional[Dict[str, int]]) -> AgentError:
        told: Dict[str, Any] = {"cause": ending.STOPPED, "exit": status, "alive": False}
        what, advice = f"the server {stopped}", "inv start starts it again"
        return AgentError("died", what, (), advice, {**told, "log": self.launch["log"]})

    def _when(self) -> str:
        """How long after its launch; of one that was gone when we came nobody here saw it."""
        if self._was_alive or self._joined_s < _STRAGGLERS_S:
            return f"{self.age_s():.1f} s after its launch"
        return f"before we looked, {self.age_s():.0f} s after its launch"

    def _late(self, kind: str, what: str) -> AgentError:
        seen, members = self.look()
        places = self.place.elsewhere(seen, members, self.log.urls)
        waiting_for = self._unanswered() or self.waiting_for
        waiting = f"; {waiting_for}" if waiting_for else ""
        if places and not self.place.sockets():
            waiting += f"; it listens on {', '.join(places[:3])}"
        detail = {"waiting_for": waiting_for, "listens": places, "log": self.launch["log"]}
        last = self.log.stages[-1]["name"] if self.log.stages else "starting"
        limit = "timeout_s" if kind == "timeout" else "stall_s"
        advice = f"read {self.launch['log']}; if it only needs longer, raise ready.{limit} in the profile"
        text = f"the server made {what}" if kind == "stalled" else f"the server is {what}"
        return AgentError(kind, f"{text} (stage: {last}{waiting})", self.log.evidence(), advice, detail)


def _oom_kills() -> int:
    """How many processes the kernel's out-of-memory killer has ended since the boot."""
    found = re.search(rb"^oom_kill (\d+)", procs.read_file(_VMSTAT), re.MULTILINE)
    return int(found.group(1)) if found else 0


def _own_requests(engine: Mapping[str, Any]) -> str:
    """Pattern of the access log's lines about our own questions."""
    paths = {engine["health_path"], engine["completion_path"], gate.MODELS_PATH, gate.CHAT_PATH} - {""}
    return r"\b(GET|POST) (%s)[ ?]" % "|".join(sorted(map(re.escape, paths)))
