"""Commands that answer a question by restarts: bisect, spec, sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.fleet.experiments import bisect as bisecting
from stoker.fleet.experiments import spec as speculating
from stoker.fleet.experiments import sweep as sweeping
from stoker.tasks.command import CHANGING, command

if TYPE_CHECKING:
    from stoker.tasks.run import Run


@command(*CHANGING, *bisecting.BISECT.flags)
def bisect(run: Run) -> int:
    """The smallest set of differences that makes a loss, by few restarts; goes on after an interruption."""
    return run.end(run.on_hosts(bisecting.BISECT))


@command(*CHANGING, *sweeping.SWEEP.flags)
def sweep(run: Run) -> int:
    """Measure a matrix or list of settings, each restarted and proven; the best first, the host put back."""
    return run.end(run.on_hosts(sweeping.SWEEP))


@command(*CHANGING, *speculating.SPEC.flags)
def spec(run: Run) -> int:
    """Whether speculative decoding pays: with it and without, at each batch size, the host put back."""
    return run.end(run.on_hosts(speculating.SPEC))


COMMANDS = (bisect, spec, sweep)
