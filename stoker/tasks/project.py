"""Commands about the project and its hosts: what there is, what it resolves to, whether it can be reached."""

from __future__ import annotations

import difflib
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.errors import EXIT_DONE
from stoker.fleet import daily
from stoker.fleet.flags import Flag
from stoker.tasks.command import DIFF, HOST, INVENTORY, JSON, READING, command

if TYPE_CHECKING:
    from stoker.tasks.run import Run


@command(HOST, INVENTORY, JSON)
def hosts(run: Run) -> int:
    """The inventory as resolved: hosts, groups, addresses, what should run there."""
    from stoker.fleet.servers import desired

    found = run.hosts()
    run.document["hosts"] = {
        h.name: {
            "groups": list(h.groups),
            "address": h.vars.get("ansible_host", h.name),
            "user": h.vars.get("ansible_user"),
            "port": h.vars.get("ansible_port"),
            "desired": list(desired(h)),
            "source": h.source,
        }
        for h in found
    }
    rows = []
    for host in found:
        user, port = host.vars.get("ansible_user"), host.vars.get("ansible_port")
        address = f"{user}@" if user else ""
        address += str(host.vars.get("ansible_host", host.name)) + (f":{port}" if port else "")
        rows.append((host.name, address, ", ".join(host.groups), ", ".join(desired(host)) or "-"))
    run.screen.table(("host", "reached as", "groups", "should run"), rows)
    return EXIT_DONE


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
                run.screen.say((f"# {host_name}, slot {slot}", "bold"))
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
        run.screen.say(
            f"next: cd {shlex.quote(str(folder))}, write your hosts into inventory/hosts.yml, then: inv ping"
        )
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
        run.screen.say((line, style))


COMMANDS = (hosts, ping, render, unlock, init)
