"""Many launches as fewer marks, each of which says how many it stands for."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stoker.results.history import Place, Series
from stoker.results.statistics.stats import REGRESSED

MARKS = 20_000  # in one page: its size stays within a few MB
LEAST, MOST = 50, 500  # of one series


@dataclass(frozen=True)
class Mark:
    """One mark of a plot.

    Args:
        places: The launches that it stands for, in order.
        tok_s: Their median.
    """

    places: tuple[Place, ...]
    tok_s: float

    @property
    def place(self) -> Place:
        """The one that it is drawn at: the middle of them."""
        return self.places[len(self.places) // 2]

    @property
    def range(self) -> tuple[float, float]:
        """The slowest and the fastest of them."""
        values = [place.point.tok_s for place in self.places]
        return min(values), max(values)

    @property
    def verdict(self) -> str:
        """Their verdict; of several, ``regressed`` where any was, else the last one's."""
        verdicts = [place.run.verdict for place in self.places]
        return REGRESSED if REGRESSED in verdicts else verdicts[-1]


def most_marks(series: int) -> int:
    """How many marks each series may have, where there are so many series."""
    return max(LEAST, min(MOST, MARKS // max(1, series)))


def marks(series: Series, most: int) -> tuple[Mark, ...]:
    """Its launches as marks: each launch by itself while there are few, else some together.

    None stands for launches on both sides of a step.

    Args:
        series: The launches.
        most: About so many marks at most; each piece between two steps has one at least.
    """
    cuts = [0, *(step.index for step in series.steps), len(series.places)]
    together = -(-len(series.places) // most) or 1
    pieces = [series.places[a:b] for a, b in pairwise(cuts)]
    return tuple(mark for piece in pieces for mark in _grouped(piece, together))


def _grouped(places: Sequence[Place], together: int) -> Iterator[Mark]:
    for start in range(0, len(places), together):
        some = tuple(places[start : start + together])
        yield Mark(some, statistics.median(place.point.tok_s for place in some))
