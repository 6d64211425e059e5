"""A series in a few characters that need no colour."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Values as blocks; where there are more than fit, each block is the median of its share.

    Args:
        values: Positive, in order. A range under 10 % is drawn as a part of 10 %, so that noise stays flat.
        width: At most so many characters.
    """
    if not values:
        return ""
    shown = shares(values, width)
    low, span = min(shown), max(shown) - min(shown)
    if span < 0.1 * max(shown):
        span = 0.1 * max(shown)
        low = statistics.fmean(shown) - span * 9 / 16  # noise is around the middle of a block, not its edge
    return "".join(_BLOCKS[_step((value - low) / span)] for value in shown)


def shares(values: Sequence[float], count: int) -> list[float]:
    """At most ``count`` medians of consecutive values, as evenly as can be."""
    n = len(values)
    if n <= count:
        return list(values)
    return [statistics.median(values[i * n // count : (i + 1) * n // count]) for i in range(count)]


def _step(fraction: float) -> int:
    return min(len(_BLOCKS) - 1, max(0, int(fraction * len(_BLOCKS))))
