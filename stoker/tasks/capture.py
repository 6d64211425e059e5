"""The command ``capture``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import InputError
from stoker.fleet import capture as verbs
from stoker.tasks.command import CHECK, READING, command

if TYPE_CHECKING:
    from stoker.tasks.run import Run


@command(*READING, CHECK, *verbs.CAPTURE.flags)
def capture(run: Run) -> int:
    """A profile of a server that runs, whoever started it: profiles/NAME.yml; --check prints it."""
    run.need("host", "inv capture --host NAME --name PROFILE")
    run.need("name", "inv capture --host NAME --name PROFILE")
    if run.args["slot"] and run.args["port"]:
        raise InputError("--port and --slot name two servers", next_step="leave one of them out")
    hosts = run.hosts()
    if len(hosts) > 1:
        names = ", ".join(host.name for host in hosts)
        raise InputError(f"a profile is captured from one host, these are {names}", next_step="name one")
    if not run.check:
        verbs.free(run.project, run.args["name"], replace=run.args["force"])
    results = run.on_hosts(verbs.CAPTURE)
    for outcome in (outcome for result in results for outcome in result.data or []):
        if run.check:
            run.screen.text(outcome.data["text"])
        else:
            for note in outcome.data["notes"]:
                run.screen.say(("  note: ", "yellow"), note)
            start = f"inv restart --host {hosts[0].name} --profile {run.args['name']}"
            run.screen.say(("  next: ", "cyan"), f"read {outcome.data['path']}, then: {start}")
    return run.end(results)


COMMANDS = (capture,)
