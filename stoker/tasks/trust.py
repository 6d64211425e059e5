"""The command that records host keys on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import InputError
from stoker.fleet.flags import Flag
from stoker.tasks.command import CHECK, READING, command

if TYPE_CHECKING:
    from stoker.reach.trust import Shown
    from stoker.tasks.run import Run


@command(*READING, CHECK, Flag("yes", "Record them without asking.", "flag"))
def trust(run: Run) -> int:
    """Show the keys of hosts with their fingerprints, compare with what is known, record on purpose."""
    from stoker.fleet.trust import asking, record
    from stoker.tasks.outcomes import result_data

    if run.args["yes"] and not run.args["host"]:
        raise InputError(
            "--yes records keys that nobody has looked at, so the hosts must be named",
            next_step="inv trust --host NAME --yes, or without --yes: it shows the keys and asks",
        )
    found: dict[str, Shown] = {}
    results = run.on_hosts(asking(run.reach, found))
    open_ones = [name for name, shown in found.items() if shown.state != "known" or shown.others]
    if run.check or not open_ones:
        return run.end(results)
    run.confirm(f"record these keys of {', '.join(open_ones)} as theirs?")
    recorded = {name: record(run.reach, name, found[name]) for name in open_ones}
    with run.screen.board(open_ones) as board:
        for name, result in recorded.items():
            run.finished(board, result)
            run.document["hosts"][name] = result_data(result)
    return run.end([recorded.get(result.host, result) for result in results])


COMMANDS = (trust,)
