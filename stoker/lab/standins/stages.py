"""The course of a start: when each stage is due, and how the progress of weights and graphs is shown."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

_STDERR = 2


@dataclass(frozen=True)
class Clock:
    """Stages as fractions of the load phase, by absolute times, so that all ranks keep together.

    Args:
        began: ``time.monotonic()`` at the start.
        load_s: Length of the whole phase.
    """

    began: float
    load_s: float

    def until(self, fraction: float) -> None:
        """Sleep until that much of the phase is over."""
        left = self.began + fraction * self.load_s - time.monotonic()
        if left > 0:
            time.sleep(left)

    def steps(self, first: float, last: float, count: int) -> Iterator[int]:
        """Count from 1 to ``count``, evenly between two fractions."""
        for done in range(1, count + 1):
            self.until(first + (last - first) * done / count)
            yield done


def write(text: str) -> None:
    """Write to the log in one piece, so that the lines of many processes do not mix."""
    os.write(_STDERR, text.encode())


def weights_bar(done: int, total: int, elapsed_s: float) -> str:
    """The progress line of the weights, which replaces itself."""
    share = done / total
    left = f"{_clock(elapsed_s * (1 - share) / share)}" if share else "?"
    rate = f"{done / elapsed_s:5.2f}it/s" if elapsed_s and done else "?it/s"
    return (
        f"\rLoading safetensors checkpoint shards: {share:4.0%} Completed | {done}/{total} "
        f"[{_clock(elapsed_s)}<{left}, {rate}]"
    )


def bar(label: str, done: int, total: int, elapsed_s: float) -> str:
    """A progress bar as tqdm draws it."""
    share = done / total
    filled = "█" * int(share * 10)
    left = _clock(elapsed_s * (1 - share) / share) if share else "?"
    rate = f"{done / elapsed_s:5.2f}it/s" if elapsed_s and done else "?it/s"
    return f"\r{label}: {share:4.0%}|{filled:<10}| {done}/{total} [{_clock(elapsed_s)}<{left}, {rate}]"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
