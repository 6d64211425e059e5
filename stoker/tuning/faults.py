"""What a reader of values says, and the small things that readers share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stoker.tuning.model import Severity

ON = frozenset({"1", "true", "t", "yes", "y", "on", "enabled"})
OFF = frozenset({"0", "false", "f", "no", "n", "off", "disabled"})


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a value.

    Args:
        rule: What stands behind the family in a remark's code.
        what: Goes on from ``NAME='value'``: a clause with a verb.
        mend: What to write instead, whole; empty where that cannot be known.
        reason: Why it matters; empty: what the family does with what it cannot read.
        severity: See ``Remark``.
    """

    rule: str
    what: str
    mend: str = ""
    reason: str = ""
    severity: Severity = "error"


Faults = Iterator[Fault]


def shown(value: str) -> str:
    """A value as one short line, whatever is in it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:56]}…'"


def wordlist(words: Iterable[str]) -> str:
    """Words for a sentence."""
    return ", ".join(words)


def nearest(word: str, words: Iterable[str]) -> str:
    """The word that was probably meant, or empty."""
    by_folded = {w.lower(): w for w in words}
    close = difflib.get_close_matches(word[:100].lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else ""


def is_on(value: str) -> bool:
    """Whether a value means *on* to whoever wrote it."""
    return value.strip().lower() in ON
