"""The command that runs one shell command on hosts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stoker.errors import InputError
from stoker.fleet import daily
from stoker.fleet.flags import Flag
from stoker.tasks.command import READING, command

if TYPE_CHECKING:
    from stoker.fleet.folded import Group
    from stoker.tasks.run import Run

_FOLD = Flag("fold", "Output at the end, and once where it is the same on several hosts.", "flag")


@command(*READING, *daily.EXEC.flags, _FOLD)
def exec_(run: Run) -> int:
    """Run one shell command on hosts, live, over one bare channel; each host keeps its exit code."""
    run.need("cmd", "inv exec --host NAME --cmd 'uptime'")
    _check_text(run.args["cmd"])
    run.hosts(demanded=True)  # a command may change anything
    results = run.on_hosts(daily.EXEC)
    if run.args["fold"]:
        from stoker.fleet.folded import fold

        _show(run, fold(results))
    return run.end(results)


def _check_text(command: str) -> None:
    """A login shell gets UTF-8; other bytes of our command line are told before anybody is connected to.

    Raises:
        InputError: There are such bytes.
    """
    try:
        command.encode()
    except UnicodeEncodeError:
        hint = "let the host's shell make these bytes: printf '\\xe9'"
        raise InputError("holds bytes that are no UTF-8", where="--cmd", next_step=hint) from None


def _show(run: Run, groups: Sequence[Group]) -> None:
    """Each output once, with the hosts that gave it."""
    run.document["folded"] = [vars(group) for group in groups]
    for group in groups:
        count = f" ({len(group.hosts)} hosts)" if len(group.hosts) > 1 else ""
        run.screen.say((", ".join(group.hosts), "bold"), f"{count}: exit {group.rc}")
        for line in group.stdout.splitlines():
            run.screen.say("  ", line)
        for line in group.stderr.splitlines():
            run.screen.say("  ", (line, "dim"))


COMMANDS = (exec_,)
