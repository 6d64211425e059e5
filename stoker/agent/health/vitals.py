"""How a server is now: its answer, its tokens, its CPU time; so that busy is not taken for dead."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..asking import gate, http, traffic
from ..asking.traffic import Traffic
from ..context import AgentError, Context
from ..logfiles.logtail import LogTail, Matcher, last_lines, message
from ..processes import procs
from ..processes.activity import CPU_SHARE
from ..processes.procs import Process

HEALTH_S = 2.0
BETWEEN_S = 0.5
_METRICS_S = 1.5
_LOG_BYTES = 4 << 20
_LOG_S = 2.0
# A dead engine's last words are followed by what its HTTP server says of each request.
_LAST_LINES, _LAST_BYTES = 4000, 256 << 10


class Asked(NamedTuple):
    """A living server, and how to ask it.

    Args:
        server: Where it is; port 0: it listens nowhere.
        members: Its processes.
        log: Path of its log; empty where there is none.
    """

    server: gate.Server
    members: Tuple[Process, ...]
    log: str = ""


class Vitals(NamedTuple):
    """What was found.

    Args:
        health: The HTTP status; None: no answer.
        health_why: Why there is none: ``refused``, ``timeout``, … (kinds of ``HttpError``).
        first: Its metrics.
        second: The same a moment later; None where one look was enough.
        seconds: Between the two.
        cores: CPU time that its processes spent a second meanwhile; None: not looked at.
    """

    health: Optional[int]
    health_why: str
    first: Traffic
    second: Optional[Traffic]
    seconds: float
    cores: Optional[float]

    @property
    def latest(self) -> Traffic:
        """The later of its metrics that say something."""
        return self.second if self.second is not None and not self.second.why else self.first

    @property
    def moving(self) -> bool:
        """Whether any figure of the engine's own changed between the two."""
        return bool(self.second and not (self.first.why or self.second.why)) and (
            self.second is not None and self.second.page != self.first.page
        )

    @property
    def working(self) -> bool:
        """Whether its processes compute."""
        return (self.cores or 0.0) > CPU_SHARE


class Checkup:
    """Asks one server, in threads of its own: servers are asked side by side, and beside all else.

    Args:
        ctx: Only to notice that the step was cancelled.
        asked: The server.
    """

    def __init__(self, ctx: Context, asked: Asked) -> None:
        self._poll = ctx.check_cancelled
        self._ctx = ctx
        self._asked = asked
        self._health: Tuple[Optional[int], str] = (None, "refused")
        self._found = Vitals(None, "", Traffic(why="it listens nowhere"), None, 0.0, None)
        works = (self._ask_health, self._watch) if asked.server.port else ()
        self._answered = threading.Event()
        self._threads = [threading.Thread(target=self._quietly, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def result(self) -> Vitals:
        """Wait for it.

        Raises:
            AgentError: ``cancelled``.
        """
        for thread in self._threads:
            thread.join()
        self._poll()
        status, why = self._health
        return self._found._replace(health=status, health_why=why)

    def _quietly(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(AgentError):  # cancelled: result() says so
            work()

    def _ask_health(self) -> None:
        server = self._asked.server
        path = str(server.engine.get("health_path") or gate.MODELS_PATH)
        try:
            answer = http.get(server.address, server.port, path, HEALTH_S, server.headers, poll=self._poll)
            self._health = answer.status, ""
        except http.HttpError as error:
            self._health = None, error.kind
        except OSError:
            self._health = None, "io"
        finally:
            self._answered.set()

    def _watch(self) -> None:
        """Metrics and CPU time, twice where there is something to see in between."""
        began, before = time.monotonic(), _ticks(self._asked.members)
        first = traffic.read(self._ctx, self._asked.server, _METRICS_S)
        self._found = self._found._replace(first=first)
        self._answered.wait(HEALTH_S)
        if self._health[0] == 200 and not first.busy:
            return
        time.sleep(max(0.0, began + BETWEEN_S - time.monotonic()))
        second = None if first.why else traffic.read(self._ctx, self._asked.server, _METRICS_S)
        seconds = time.monotonic() - began
        spent = sum(max(0, now - before[key]) for key, now in _ticks(self._asked.members).items())
        cores = round(spent / os.sysconf("SC_CLK_TCK") / seconds, 2)
        self._found = self._found._replace(second=second, seconds=seconds, cores=cores)


def _ticks(members: Sequence[Process]) -> Dict[Tuple[int, int], int]:
    """CPU time of each process so far, now; of one that has ended, what it had when it was seen."""
    found: Dict[Tuple[int, int], int] = {}
    for member in members:
        latest = procs.look(member.pid)
        same = latest if latest is not None and latest.start == member.start else member
        found[member.key] = same.utime + same.stime
    return found


def load(found: Vitals) -> Dict[str, Any]:
    """What the server has to do, for the wire.

    Returns:
        ``{running, waiting, tok_s, tok_s_from, cores, why}``; null is unknown, never zero. ``tok_s_from`` is
        ``gauge`` (the engine's own figure), ``steps`` (steps a second times requests that run: of an engine
        that counts a request's tokens at its end), ``counter`` (tokens between two readings) or ``idle``.
    """
    latest = found.latest
    tok_s, source = _speed(found)
    return {
        "running": latest.running,
        "waiting": latest.waiting,
        "tok_s": None if tok_s is None else round(tok_s, 1),
        "tok_s_from": source,
        "cores": found.cores,
        "why": latest.why,
    }


def _speed(found: Vitals) -> Tuple[Optional[float], str]:
    first, latest = found.first, found.latest
    if latest.why:
        return None, ""
    if latest.throughput and latest.running:
        return latest.throughput, "gauge"
    if found.second is None:
        return (0.0, "idle") if latest.running is not None else (None, "")
    if first.steps is not None and latest.steps is not None:
        running = ((first.running or 0.0) + (latest.running or 0.0)) / 2
        return (latest.steps - first.steps) * running / found.seconds, "steps"
    if first.tokens is not None and latest.tokens is not None:
        return max(0.0, latest.tokens - first.tokens) / found.seconds, "counter"
    return None, ""


def judge(found: Vitals, asked: Asked) -> Tuple[str, str]:
    """One word for a living server, and why.

    Returns:
        ``up``: it answers; ``busy``: it does not, or says 503, while tokens are made or its processes
        compute; ``starting``: it has not served yet; ``stuck``: it has, and now neither answers nor moves.
    """
    if found.health is not None and found.health < 500:
        return "up", "" if found.health == 200 else "health answers %d" % found.health
    said = "health answers %d" % found.health if found.health else _SILENCE.get(found.health_why, "no answer")
    served, stage = _has_served(found, asked)
    if not served:
        return "starting", stage or said
    fatal = _fatal(asked)
    if fatal:
        return "stuck", "%s, and its log says why: %s" % (said, fatal)
    if found.health_why == "refused" and found.health is None:
        return "stuck", "nothing listens on its port any more"
    if found.moving:
        return "busy", "%s while its figures move%s" % (said, _requests(found.latest))
    if found.working:
        cores = "%.1f cores" % (found.cores or 0.0)
        return "busy", "%s while it computes (%s)%s" % (said, cores, _requests(found.latest))
    return "stuck", "%s, and nothing moves: no token, no CPU time" % said


_SILENCE = {
    "refused": "nothing listens on its port yet",
    "timeout": "no answer within %g s" % HEALTH_S,
    "closed": "it closes the connection without an answer",
}


def _requests(latest: Traffic) -> str:
    if latest.running is None:
        return ""
    return ", %g requests run" % latest.running if latest.running != 1 else ", 1 request runs"


def _fatal(asked: Asked) -> str:
    """The line near the end of its log after which an engine serves no more, though its server lives on."""
    matcher = Matcher(asked.server.engine) if asked.log and asked.server.engine.get("fatal") else None
    if matcher is None:
        return ""
    with contextlib.suppress(OSError):
        for line in last_lines(asked.log, _LAST_LINES, _LAST_BYTES):
            matcher.feed(line)
    return " ".join(message(matcher.ended.line).split())[:200] if matcher.ended else ""


def _has_served(found: Vitals, asked: Asked) -> Tuple[bool, str]:
    """Whether the server was ready before, by its own counters or its log; and how far its start is, if not.

    One without a log that we know (somebody started it by hand), or whose engine writes no such line, counts
    as one that has served once it takes connections.
    """
    if found.latest.finished or found.latest.tokens or found.latest.running:
        return True, ""
    engine = asked.server.engine
    if not asked.log or not engine.get("ready"):
        return found.health_why != "refused", ""
    return said_ready(asked.log, engine)


def said_ready(path: str, engine: Mapping[str, Any]) -> Tuple[bool, str]:
    """Whether a log's first 4 MiB say that the server serves; and the stage they end with.

    As much of them as can be read in two seconds.
    """
    matcher = Matcher(engine)
    tail = LogTail(path)
    try:
        for line in tail.news(time.monotonic() + _LOG_S):
            matcher.feed(line)
            if matcher.ready or tail.taken > _LOG_BYTES:
                break
        if not matcher.ready:
            matcher.progress(tail.partial())
    finally:
        tail.close()
    return matcher.ready, "%s, %.0f %%" % (matcher.stage, 100 * matcher.fraction) if matcher.stage else ""
