"""Commands of a server's life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import InputError
from stoker.fleet import life
from stoker.tasks.command import CHANGING, READING, command

if TYPE_CHECKING:
    from stoker.fleet.job import Verb
    from stoker.fleet.pool import HostResult
    from stoker.tasks.run import Run

VERBS: dict[str, Verb] = {verb.name: verb for verb in life.VERBS}


@command(*CHANGING, *VERBS["restart"].flags)
def restart(run: Run) -> int:
    """Clean-kill what holds the slot, launch the profile, wait until it is ready, prove its tuning."""
    return run.end(run.on_hosts(VERBS["restart"]))


@command(*CHANGING, *VERBS["start"].flags)
def start(run: Run) -> int:
    """Launch where nothing runs; done where the same profile runs, refused where another does."""
    return run.end(run.on_hosts(VERBS["start"]))


@command(*READING, *VERBS["wait"].flags)
def wait(run: Run) -> int:
    """Wait until the server is really ready (a completion arrives from our listener), prove its tuning."""
    return run.end(run.on_hosts(VERBS["wait"]))


@command(*CHANGING, *VERBS["stop"].flags)
def stop(run: Run) -> int:
    """Stop our server of a slot, gracefully."""
    return run.end(run.on_hosts(VERBS["stop"]))


@command(*CHANGING, *VERBS["kill"].flags)
def kill(run: Run) -> int:
    """End what is stale: a profile's or slot's remains, what --match finds, or all of the host's."""
    verb = VERBS["kill"]
    is_narrow = run.args["profile"] or (run.args["slot"] and not run.args["match"])
    if run.check or run.args["yes"] or is_narrow:  # who is ended is shown before the first signal
        return run.end(run.on_hosts(verb))
    planned = run.preview(verb)
    if any(result.error for result in planned) or not any(_to_end(result) for result in planned):
        return run.end(planned)
    count = sum(len(_to_end(result)) for result in planned)
    try:
        run.confirm(f"end {count} {'process' if count == 1 else 'processes'}?")
    except InputError:
        _nothing_ended(run)
        raise
    return run.end(run.on_hosts(verb, extra={r.host: {"expected": _to_end(r)} for r in planned}))


def _nothing_ended(run: Run) -> None:
    """The document of a kill that was not confirmed: the preview is all that there was."""
    for host in run.document["hosts"].values():
        host.update(status="skipped", changed=False, why="not confirmed; nothing was ended")


def _to_end(result: HostResult) -> list[list[int]]:
    """What a preview of kill found, as (pid, start)."""
    return [[p["pid"], p["start"]] for outcome in result.data or [] for p in outcome.data["ended"]]


COMMANDS = (restart, start, wait, stop, kill)
