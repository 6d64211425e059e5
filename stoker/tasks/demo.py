"""The command ``demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.fleet.flags import Flag
from stoker.tasks.command import command

if TYPE_CHECKING:
    from stoker.tasks.run import Run


@command(
    Flag("engine", "sglang (stand-in, simulated) or llamacpp (real)."),
    Flag("keep", "Leave the lab up.", "flag"),
)
def demo(run: Run) -> int:
    """The story, live on the lab: a tuned server, the tuning lost, REGRESSED, explained, restored, OK."""
    from stoker import demo as story

    folder = run.settings.root / ".lab" / "demo"
    return story.tell(folder, run.args["engine"] or "sglang", run.screen, keep=run.args["keep"])


COMMANDS = (demo,)
