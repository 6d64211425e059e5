"""How long requests are: a distribution of token counts, as it is written."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.errors import InputError

MOST = 1_000_000
HINT = "write 512, 256-768, normal:512:128 or lognormal:512:300:16-4096 (mean, standard deviation, bounds)"
# Compiled where they are used: that takes ten milliseconds of the start of any command.
_FIXED = r"([0-9]{1,7})"
_UNIFORM = r"([0-9]{1,7})-([0-9]{1,7})"
_BELL = r"(normal|lognormal):([0-9]{1,7}):([0-9]{1,7})(?::([0-9]{1,7})-([0-9]{1,7}))?"
_TAIL = 4  # standard deviations beyond which nothing is drawn where no bounds are written


@dataclass(frozen=True)
class Lengths:
    """A distribution of token counts.

    Args:
        kind: ``fixed``, ``uniform``, ``normal`` or ``lognormal``.
        mean: Of the two bells, before their bounds.
        sd: Standard deviation of the two bells, in tokens.
        least: The shortest.
        most: The longest.
    """

    kind: str
    mean: int
    sd: int
    least: int
    most: int

    @property
    def text(self) -> str:
        """As it is written; the same for the same distribution."""
        if self.kind == "fixed":
            return str(self.least)
        bounds = f"{self.least}-{self.most}"
        return bounds if self.kind == "uniform" else f"{self.kind}:{self.mean}:{self.sd}:{bounds}"


def parse(text: str, where: str, *, least: int) -> Lengths:
    """A distribution out of its text.

    Args:
        text: ``512``; ``256-768``, each as likely; ``normal:MEAN:SD`` or ``lognormal:MEAN:SD`` in tokens,
            with bounds behind them (``:16-4096``) or up to four standard deviations.
        where: For the message.
        least: The shortest length that can be asked for.

    Raises:
        InputError: No distribution, or out of bounds.
    """
    written = str(text).strip()
    if found := re.fullmatch(_FIXED, written):
        number = int(found[1])
        made = Lengths("fixed", number, 0, number, number)
    elif found := re.fullmatch(_UNIFORM, written):
        low, high = int(found[1]), int(found[2])
        made = Lengths("uniform", (low + high) // 2, 0, low, high)
    elif found := re.fullmatch(_BELL, written):
        made = _bell(found, least)
    else:
        raise InputError(f"{written[:60]!r} is no distribution of lengths", where=where, next_step=HINT)
    if not least <= made.least <= made.most <= MOST:
        what = f"{written} is out of bounds, lengths go from {least} to {MOST}, the shorter one first"
        raise InputError(what, where=where)
    return made


def _bell(found: re.Match[str], least: int) -> Lengths:
    mean, sd = int(found[2]), int(found[3])
    if found[4] is not None:
        return Lengths(found[1], mean, sd, int(found[4]), int(found[5]))
    return Lengths(found[1], mean, sd, max(least, mean - _TAIL * sd), min(MOST, mean + _TAIL * sd))
