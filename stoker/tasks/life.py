"""Commands of a server's life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    if run.check or run.args["profile"] or (run.args["slot"] and not run.args["match"]):
        return run.end(run.on_hosts(verb))
    planned = run.preview(verb)
    if any(result.error for result in planned) or not any(_to_end(result) for result in planned):
        return run.end(planned)
    run.confirm(f"end {sum(len(_to_end(result)) for result in planned)} processes?")
    return run.end(run.on_hosts(verb, extra={r.host: {"expected": _to_end(r)} for r in planned}))


@command(*READING, *VERBS["status"].flags)
def status(run: Run) -> int:
    """What runs on each host: profile, health, tuning in force, drift, GPUs."""
    results = run.on_hosts(VERBS["status"])
    rows = [row for result in results for row in _status_rows(result)]
    run.screen.table(("host", "slot", "profile", "state", "tuning", "up>", "where"), rows)
    return run.end(results)


@command(*READING, *VERBS["logs"].flags)
def logs(run: Run) -> int:
    """The last lines of a server's log; --follow until Ctrl-C, which leaves the server alone."""
    results = run.on_hosts(VERBS["logs"])
    for result in results:
        for outcome in result.data or []:
            run.screen.say((f"{result.host}: {outcome.data['path']}", "bold"))
            for line in outcome.data.get("lines", []):
                run.screen.say(line)
    return run.end(results)


def _to_end(result: HostResult) -> list[list[int]]:
    """What a preview of kill found, as (pid, start)."""
    return [[p["pid"], p["start"]] for outcome in result.data or [] for p in outcome.data["ended"]]


def _status_rows(result: HostResult) -> list[tuple[Any, ...]]:
    """One row a server of a host; one for the host where none runs."""
    if result.data is None:
        return [(result.host, "-", "-", (result.status, "bold red"), "-", "-", "-")]
    data = result.data[0].data
    rows = [_server_row(result.host, server) for server in data["servers"]]
    missing = [name for name in data["desired"] if name not in {s.get("desired") for s in data["servers"]}]
    rows += [(result.host, "-", name, ("not running", "bold red"), "-", "-", "-") for name in missing]
    return rows or [(result.host, "-", "-", ("nothing runs", "dim"), "-", "-", "-")]


def _server_row(host: str, server: dict[str, Any]) -> tuple[Any, ...]:
    from stoker.screen import seconds

    launch = server.get("launch") or {}
    profile = launch.get("profile") or "(by hand)"
    if server.get("current") is False:
        profile += " (outdated)"
    elif server.get("desired") and launch.get("profile") != server["desired"]:
        profile += f" (should be {server['desired']})"
    where = f"{server.get('bind')}:{server.get('port')}"
    up = seconds(server.get("uptime_s")) if server.get("alive") else "-"
    return host, server.get("slot") or "-", profile, _state(server), _tuning(server.get("proof")), up, where


def _state(server: dict[str, Any]) -> tuple[str, str]:
    if not server.get("alive"):
        ended = server.get("exit")
        return ("down" if ended is None else f"down, {_ended(ended)}"), "bold red"
    if server.get("health") == 200:
        return "up", "green"
    return f"up, health {server.get('health') or 'silent'}", "yellow"


def _ended(ended: Any) -> str:
    """How it ended, as the shim saw it."""
    if isinstance(ended, dict):
        return f"signal {ended['signal']}" if "signal" in ended else f"exit {ended.get('code')}"
    return str(ended)


def _tuning(proof: dict[str, Any] | None) -> tuple[str, str]:
    if not proof:
        return "-", "dim"
    style = {"in-force": "green", "not-in-force": "bold red", "unproven": "yellow"}[proof["verdict"]]
    return proof["verdict"], style


COMMANDS = (restart, start, wait, stop, kill, status, logs)
