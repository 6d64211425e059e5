"""Commands that look at servers: status and logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from stoker.fleet import look
from stoker.tasks.command import READING, command

if TYPE_CHECKING:
    from stoker.fleet.job import Verb
    from stoker.fleet.pool import HostResult
    from stoker.screen import Sheet
    from stoker.tasks.run import Run

VERBS: dict[str, Verb] = {verb.name: verb for verb in look.VERBS}


@command(*READING, *VERBS["status"].flags)
def status(run: Run) -> int:
    """What runs on each host: profile, state, tuning in force, speed now, GPUs; --watch until Ctrl-C.

    A watch that the user ends is done: it ends as a single status with what the last look saw would.
    """
    from stoker.tasks import statussheet

    if run.args["watch"]:
        return run.end(run.on_hosts(VERBS["status"], endless=True, board=_live(run)))
    results = run.on_hosts(VERBS["status"])
    run.screen.sheet(statussheet.draw({r.host: _seen(r) for r in results}, wide=run.screen.width >= 110))
    return run.end(results)


def _live(run: Run) -> Any:
    """A table that is drawn anew with each look at a host."""
    from stoker.tasks import statussheet

    hosts = [host.name for host in run.hosts()]

    def draw(seen: Mapping[str, dict[str, Any]]) -> Sheet:
        rows = {host: seen.get(host, {"status": "connecting"}) for host in hosts}
        return statussheet.draw(rows, wide=run.screen.width >= 110)

    return run.screen.live(hosts, "status", draw)


def _seen(result: HostResult) -> dict[str, Any]:
    """A host's result as a look's event."""
    if result.data is None:
        return {"data": None, "status": result.status, "why": result.error.what if result.error else ""}
    return {"data": result.data[0].data}


@command(*READING, *VERBS["logs"].flags)
def logs(run: Run) -> int:
    """The last lines of servers' logs; --follow until Ctrl-C, which leaves the servers alone and is done (0).

    Ctrl-C before every host's log had begun is an interruption (130), as everywhere. With --since, lines go
    by the times that the engine wrote; a log without times shows its last lines and says so, and while it is
    followed lines count from their arrival.
    """
    if run.args["follow"]:
        return run.end(run.on_hosts(VERBS["logs"], endless=True))
    results = run.on_hosts(VERBS["logs"])
    found = list(_logs(results))
    for host, log in found:
        if len(found) > 1:  # of one the host's own line tells the path
            run.screen.say((f"{host}: {log['path']}", "bold"))
        for line in log["lines"]:
            run.screen.quote(line)
    return run.end(results)


def _logs(results: list[HostResult]) -> Iterator[tuple[str, dict[str, Any]]]:
    for result in results:
        for outcome in result.data or []:
            for log in outcome.data["logs"]:
                yield result.host, log


COMMANDS = (status, logs)
