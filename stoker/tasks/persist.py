"""The command ``persist``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stoker.fleet import persist as verbs
from stoker.tasks.command import CHANGING, command

if TYPE_CHECKING:
    from stoker.tasks.run import Run


@command(*CHANGING, *verbs.VERBS[0].flags)
def persist(run: Run) -> int:
    """A reboot brings the same server back: a systemd unit, or without systemd the entry point to use."""
    verb = verbs.VERBS[0]
    if run.args["remove"]:
        verb = replace(verb, wants_secrets=False)  # whoever takes it away needs none
    return run.end(run.on_hosts(verb))


COMMANDS = (persist,)
