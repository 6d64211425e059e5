"""Commands about the project and its hosts: what there is, what it resolves to, whether it can be reached."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE
from stoker.fleet import daily
from stoker.fleet.flags import Flag
from stoker.tasks.command import DIFF, HOST, INVENTORY, JSON, READING, command

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host
    from stoker.tasks.run import Run


@command(
    *(HOST, INVENTORY, JSON),
    Flag("graph", "Groups and hosts as a tree.", "flag"),
    Flag("vars", "Each host's variables as well; no secret is shown.", "flag"),
)
def hosts(run: Run) -> int:
    """The inventory as resolved: hosts, groups, addresses, what should run there.

    In --json, `inventory` is what `ansible-inventory --list` prints.
    """
    from stoker.config.inventories import listing as inventory_listing

    found = run.hosts()
    inventory = run.project.inventory_of(run.args["host"])
    if run.screen.json:
        run.document["inventory"] = inventory_listing.listing(inventory, found)
    elif run.args["graph"]:
        lines = inventory_listing.graph(inventory, found, variables=run.args["vars"])
        run.screen.text("\n".join(lines))
        return EXIT_DONE
    run.document["hosts"] = {host.name: _summary(host) for host in found}
    rows = [_row(name, summary) for name, summary in run.document["hosts"].items()]
    run.screen.table(("host", "reached as", "groups", "should run"), rows)
    if run.args["vars"]:
        _show_variables(run, found)
    return EXIT_DONE


def _summary(host: Host) -> dict[str, Any]:
    """Where a host is, how it is reached and what should run there, as JSON types."""
    from stoker.fleet.servers import desired

    def either(name: str) -> Any:
        return host.vars.get(f"ansible_{name}", host.vars.get(f"ansible_ssh_{name}"))

    return {
        "groups": list(host.groups),
        "address": either("host") or host.name,
        "user": either("user"),
        "port": either("port"),
        "desired": list(desired(host)),
        "source": host.source,
    }


def _row(name: str, summary: Mapping[str, Any]) -> tuple[str, ...]:
    """The line of a host's summary in the table."""
    user, port = summary["user"], summary["port"]
    address = (f"{user}@" if user else "") + str(summary["address"]) + (f":{port}" if port else "")
    return name, address, ", ".join(summary["groups"]), ", ".join(summary["desired"]) or "-"


def _show_variables(run: Run, found: Sequence[Host]) -> None:
    """Each host's variables by name, a line each."""
    from stoker.config.inventories import listing as inventory_listing

    for host in found:
        run.screen.say((host.name, "bold"))
        shown = inventory_listing.shown_vars(host)
        for name, value in sorted(shown.items()):
            run.screen.say(f"  {name}: ", json.dumps(value, ensure_ascii=False, default=str))
        if not shown:
            run.screen.say("  no variables")


@command(*READING)
def ping(run: Run) -> int:
    """Reach, login, Python and latency of each host."""
    results = run.on_hosts(daily.PING)
    return run.end(results)


@command(HOST, INVENTORY, JSON, Flag("profile", "Profile to render.", "list"), DIFF)
def render(run: Run) -> int:
    """The launch script for a host; --diff against the one that lies there."""
    from stoker.fleet import servers

    scripts: dict[str, dict[str, str]] = {}
    for host in run.hosts():
        for plan in servers.plans(run.project, host, run.args["profile"], None, secrets=False):
            scripts.setdefault(host.name, {})[plan.slot] = plan.script
    run.document["scripts"] = scripts
    if not run.args["diff"]:
        for host_name, of_slots in scripts.items():
            for slot, script in of_slots.items():
                run.screen.quote((f"# {host_name}, slot {slot}", "bold"))
                run.screen.text(script)
        return EXIT_DONE
    results = run.on_hosts(daily.SCRIPT)
    for result in results:
        there = result.data[0].data["scripts"] if result.data else {}
        for slot, script in scripts.get(result.host, {}).items():
            _show_diff(run, there.get(slot, ""), script, f"{result.host}:{slot}")
    return run.end(results)


@command(
    *READING, Flag("yes", "Take away what dead holders left.", "flag"), Flag("check", "Only show.", "flag")
)
def unlock(run: Run) -> int:
    """Show who holds the hosts' locks; --yes (with --host) takes away what dead holders left.

    A lock ends with the process that holds it. One whose holder lives is never taken away: it is named, with
    the process to end.
    """
    breaks = run.args["yes"] and not run.check
    return run.end(run.on_hosts(daily.UNLOCK if breaks else daily.LOCKS))


@command(
    Flag("folder", "Folder to make.", positional=True),
    Flag("schemas", "Only its schemas, anew, in a project that is there.", "flag"),
    JSON,
)
def init(run: Run) -> int:
    """Lay a new project: tasks.py, inventory, profiles, playbooks, and schemas for editors."""
    from stoker.config import scaffold

    folder = Path(run.args["folder"]).expanduser()
    made = scaffold.lay_schemas(folder) if run.args["schemas"] else scaffold.lay(folder)
    run.document["files"] = [str(path) for path in made]
    for path in made:
        run.screen.say(("+ ", "green"), str(path))
    if not run.args["schemas"]:
        there = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))}, "
        run.screen.say(f"next: {there}write your hosts into inventory/hosts.yml, then: inv ping")
    return EXIT_DONE


def _show_diff(run: Run, old: str, new: str, name: str) -> None:
    """A unified diff in colour; says so when nothing differs."""
    lines = list(
        difflib.unified_diff(
            old.splitlines(), new.splitlines(), f"{name} (there)", f"{name} (here)", lineterm=""
        )
    )
    if not lines:
        run.screen.say(f"{name}: equal")
    for line in lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        run.screen.quote((line, style))


COMMANDS = (hosts, ping, render, unlock, init)
