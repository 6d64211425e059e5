"""``bisect``: the smallest set of differences that explains a loss, found by few restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.fleet import judge, life
from stoker.fleet.experiments import experiment, verify
from stoker.fleet.experiments.experiment import Experiment, Setting
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stoker.results.explaining.changes import Change
    from stoker.results.statistics.search import Names, Scale

CALIBRATE = Flag("calibrate", "Launches of each side before the first question (3).", "whole", least=2)
_CALIBRATE = 3
GOOD, SLOW = "A, as it was", "B, as it is"


def bisect(job: Job) -> Outcome:
    """Find which of the differences from what was accepted make the loss, and put back what ran.

    The data has ``smallest``, ``differences`` (each ``kind name value``), ``loss``, ``questions`` and
    ``launches``.
    """
    from stoker.results.statistics import search

    record, _, found = verify.suspects(job)
    changes = {change.key: change for change in found}
    mine = experiment.resolved_of(record)
    each = job.args["calibrate"] or _CALIBRATE
    price = experiment.cost(record, 2 * each + search.questions(len(changes)) + 1)
    plan = f"{counts(len(changes), 'difference', 'differences')}: {', '.join(c.name for c in found)}; {price}"
    if job.check:
        return Outcome("would search by restarts", {"differences": _plain(found)}, True, lines=((plan, ""),))
    job.session.emit({"type": "note", "text": plan})
    known_as = sorted(f"{key} {change}" for key, change in changes.items())
    question = {"kind": "bisect", "run": record.run_id, "differences": known_as, "each": each}
    with experiment.experiment(job, question, record.profile, record.bench) as (running, lines):
        sides = _Sides(running, mine, changes)
        known = sides.calibrate(each)
        asked = _Oracle(sides, known)
        if not known.clear:
            told = f"the loss is {known.gap / known.sd:.1f} standard deviations of a launch: it takes many"
            job.session.emit({"type": "note", "text": told})
        smallest = search.Search(changes, asked.is_slow).smallest()
    data = {
        "smallest": _plain([changes[key] for key in smallest]),
        "differences": _plain(found),
        "loss": known.loss,
        "questions": asked.questions,
        "launches": [vars(one) for one in running.launches],
    }
    return Outcome(_headline(smallest, changes, known), data, True, lines=tuple(lines))


class _Sides:
    """The good server and the slow one, and all that lie between them.

    Args:
        running: The experiment.
        mine: The slow server's resolved profile.
        changes: What makes it the good one, by key.
    """

    def __init__(self, running: Experiment, mine: Mapping[str, Any], changes: Mapping[str, Change]) -> None:
        self._running = running
        self._mine = mine
        self._changes = changes

    def calibrate(self, each: int) -> Scale:
        """Measure both, in turns, so that a drift falls on both."""
        from stoker.results.statistics import abba, search

        sides: dict[str, list[Sequence[float]]] = {GOOD: [], SLOW: []}
        turns = abba.order(each)[: 2 * each]
        for number, is_slow in enumerate(turns, 1):
            name, taken = (SLOW, frozenset(self._changes)) if is_slow else (GOOD, frozenset())
            sides[name].append(self.launch(name, taken, f"{number}/{len(turns)}"))
        return search.scale(sides[GOOD], sides[SLOW])

    def launch(self, title: str, slow: Names, note: str) -> Sequence[float]:
        """The good server with some of the differences as they are on the slow one: its runs."""
        from stoker.results.explaining import changes

        restored = [change for key, change in self._changes.items() if key not in slow]
        return self._running.launch(Setting(title, changes.applied(self._mine, restored)), note).runs

    def title(self, slow: Names) -> str:
        """What such a server is called."""
        return "with " + ", ".join(sorted(self._changes[key].name for key in slow)) + " as it is"


class _Oracle:
    """Answers whether a server between the sides is slow, by launching it until it is clear."""

    def __init__(self, sides: _Sides, known: Scale) -> None:
        self._sides = sides
        self._known = known
        self.questions = 0

    def is_slow(self, names: Names) -> bool:
        """Whether the good server with these differences is slow."""
        self.questions += 1
        launches: list[Sequence[float]] = []
        slow: bool | None = None
        while slow is None:
            launches.append(self._sides.launch(self._sides.title(names), names, f"question {self.questions}"))
            slow = self._known.verdict(launches)
        return slow


def _plain(found: Sequence[Change]) -> list[dict[str, Any]]:
    return [{"kind": change.kind, "name": change.name, "value": change.value} for change in found]


def _headline(smallest: Sequence[str], changes: Mapping[str, Change], known: Scale) -> str:
    names = ", ".join(changes[key].name for key in smallest)
    of = f" ({len(smallest)} of {counts(len(changes), 'difference', 'differences')})"
    return f"{names}{of} makes a loss of {100 * known.loss:.1f} %"


BISECT = Verb(
    "bisect",
    (*judge.VERBS[0].flags, CALIBRATE, experiment.ANEW, life.FORCE),
    bisect,
    changes=True,
    wants_secrets=True,
)
