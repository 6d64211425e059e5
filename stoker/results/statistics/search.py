"""The smallest set of differences that explains a loss: delta debugging over a noisy oracle.

``A`` is the good side, ``B`` the slow one; a trial is ``A`` with some of the differences taken from ``B``.
The search asks whether a trial is slow, each question once, and ends with a set from which none can be left
out (Zeller and Hildebrandt's ddmin). A question is answered by launches, as many as it takes: Wald's
sequential test of a trial's mean against the midpoint between A and B.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stoker.errors import InputError
from stoker.results.statistics import noise

Names = frozenset[str]

# Of Wald's test: errors of 1 in 10,000 either way; the SD is widened, since it is an estimate.
_DECIDED = 9.2
_WIDENED = 1.1
MOST_LAUNCHES = 12
# Below so many SDs between the sides a search takes very many launches, or goes astray.
CLEAR = 3.0


@dataclass(frozen=True)
class Scale:
    """How far apart the two sides are, and how noisy a launch is; all in ln.

    Args:
        good: Mean of the launches of A.
        slow: Mean of the launches of B.
        sd: SD between launches.
    """

    good: float
    slow: float
    sd: float

    @property
    def middle(self) -> float:
        """Between the sides."""
        return (self.good + self.slow) / 2

    @property
    def gap(self) -> float:
        """From the slow side up to the good one."""
        return self.good - self.slow

    @property
    def clear(self) -> bool:
        """Whether the sides are far enough apart for a search of few launches."""
        return self.gap / self.sd >= CLEAR

    @property
    def loss(self) -> float:
        """Of B against A, 0..1."""
        return -math.expm1(-self.gap)

    def launches(self) -> int:
        """How many launches a question is expected to take, at least one."""
        return max(1, math.ceil(_DECIDED / self._weight(self.gap / 2)))

    def verdict(self, launches: Iterable[Sequence[float]], *, higher_is_better: bool = True) -> bool | None:
        """Whether launches of a trial are slow; None while more are needed.

        Args:
            launches: Of the trial, each its runs.
            higher_is_better: True for tok/s, False for seconds.
        """
        own = [
            noise.location(launch) for launch in noise.logs(list(launches), higher_is_better=higher_is_better)
        ]
        evidence = sum(self._weight(self.middle - mean) for mean in own)
        if abs(evidence) > _DECIDED or len(own) >= MOST_LAUNCHES:
            return evidence > 0
        return None

    def _weight(self, below: float) -> float:
        """What a launch so far below the middle says for *slow*, as a logarithm of odds."""
        return below * self.gap / (_WIDENED * self.sd) ** 2


def scale(
    good: Sequence[Sequence[float]], slow: Sequence[Sequence[float]], *, higher_is_better: bool = True
) -> Scale:
    """The two sides as measured.

    Args:
        good: Launches of A, each its runs.
        slow: Launches of B.
        higher_is_better: True for tok/s, False for seconds.

    Raises:
        InputError: A side without launches, a value that is no positive number, or B is not slower.
    """
    if not good or not slow:
        raise InputError("both sides must have been measured")
    noise.checked(good, "the good side")
    noise.checked(slow, "the slow side")
    a, b = (noise.logs(side, higher_is_better=higher_is_better) for side in (good, slow))
    inner, _ = noise.within(a + b)
    means = [[noise.location(launch) for launch in side] for side in (a, b)]
    deviations, df = sum(noise.squares(side) for side in means), len(a) + len(b) - 2
    variance = noise.between(inner, min(map(len, a + b)), deviations, df)
    top, bottom = (statistics.fmean(side) for side in means)
    found = Scale(top, bottom, math.sqrt(variance))
    if found.gap <= 0:
        raise InputError("the slow side is not slower than the good one: there is no loss to explain")
    return found


class Search:
    """Delta debugging, told the answers one by one, so that it can be taken up again after an interruption.

    Args:
        names: The differences.
        is_slow: Asked whether ``A`` with these taken over is slow; each set once.
    """

    def __init__(self, names: Iterable[str], is_slow: Callable[[Names], bool]) -> None:
        self._names = sorted(set(names))
        self._is_slow = is_slow
        self._known: dict[Names, bool] = {frozenset(): False, frozenset(self._names): True}

    def smallest(self) -> tuple[str, ...]:
        """The smallest set that is slow by itself: without any one of its members it is not."""
        rest, parts = self._names, 2
        while len(rest) > 1:
            pieces = _split(rest, parts)
            narrowed = self._narrowed(rest, pieces)
            if narrowed is not None:
                rest, parts = narrowed, (2 if narrowed in pieces else max(parts - 1, 2))
            elif parts < len(rest):
                parts = min(2 * parts, len(rest))
            else:
                break
        return tuple(rest)

    def _narrowed(self, rest: list[str], pieces: list[list[str]]) -> list[str] | None:
        """A piece, or what is left without one, that is slow too."""
        others = [[name for name in rest if name not in piece] for piece in pieces]
        for candidate in [*pieces, *(others if len(pieces) > 2 else [])]:
            if self._slow(frozenset(candidate)):
                return candidate
        return None

    def _slow(self, names: Names) -> bool:
        if names not in self._known:
            self._known[names] = self._is_slow(names)
        return self._known[names]


def questions(count: int, causes: int = 1) -> int:
    """How many questions a search over so many differences is expected to ask.

    Args:
        count: Differences.
        causes: How many of them are the cause together.
    """
    return max(1, math.ceil(2 * causes * math.log2(max(2, count))))


def _split(names: list[str], parts: int) -> list[list[str]]:
    cuts = [round(i * len(names) / parts) for i in range(parts + 1)]
    return [names[a:b] for a, b in pairwise(cuts) if a < b]
