"""Whether speculative decoding pays: against the same server without it, at an equal batch.

A step with speculation takes longer and yields more tokens. With AL, the tokens that a step yields on average
(acceptance length), and the paces of both sides::

    step       = batch · AL / pace with it        seconds
    plain step = batch / pace without it
    AL*        = step / plain step                from which on it pays (break-even)
    speed-up   = pace with it / pace without it = AL / AL*

All of it holds for one batch size: drafting is cheap beside a small batch, and not beside a large one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.results.statistics import noise
from stoker.results.statistics.noise import Launches
from stoker.results.statistics.stats import IMPROVED, REGRESSED, judge

PAYS, COSTS, OPEN = "pays", "costs", "no difference"


@dataclass(frozen=True)
class Acceptance:
    """What servers counted while they were measured.

    Args:
        length: Tokens that a step yields; None where they do not tell.
        rate: Share of the drafted tokens that were accepted, 0..1; None likewise.
        source: ``counters``, ``answers`` or ``gauge`` (the engine's own average, over we know not what).
    """

    length: float | None
    rate: float | None
    source: str = ""


@dataclass(frozen=True)
class Weighed:
    """Speculation in one setting, at one batch size.

    Args:
        setting: Its name.
        batch: Requests at once.
        plain_tok_s: Pace without it.
        tok_s: Pace with it.
        speedup: The second by the first.
        word: ``pays``, ``costs`` or ``no difference`` (that these launches can tell).
        line: What the word rests on.
        acceptance: What the server counted.
        plain_step_s: Of a step without it.
        step_s: Of a step with it; None where the acceptance length is unknown.
        break_even: Acceptance length from which on it pays; None likewise.
    """

    setting: str
    batch: int
    plain_tok_s: float
    tok_s: float
    speedup: float
    word: str
    line: str
    acceptance: Acceptance
    plain_step_s: float
    step_s: float | None
    break_even: float | None


def weigh(setting: str, batch: int, plain: Launches, with_it: Launches, seen: Acceptance) -> Weighed:
    """Compare both sides.

    Args:
        setting: For people.
        batch: Requests at once.
        plain: tok/s of each run, by launch, without speculation.
        with_it: The same with it.
        seen: What its servers counted.
    """
    slow, fast = _middle(plain), _middle(with_it)
    verdict = judge(plain, with_it)
    word = {IMPROVED: PAYS, REGRESSED: COSTS}.get(verdict.verdict, OPEN)
    step = None if seen.length is None else batch * seen.length / fast
    return Weighed(
        setting=setting,
        batch=batch,
        plain_tok_s=slow,
        tok_s=fast,
        speedup=fast / slow,
        word=word,
        line=verdict.line,
        acceptance=seen,
        plain_step_s=batch / slow,
        step_s=step,
        break_even=None if step is None else step / (batch / slow),
    )


def acceptance(machines: Sequence[Mapping[str, Any]]) -> Acceptance:
    """What the launches' records say of drafts, taken together.

    Args:
        machines: ``machine`` of each launch.
    """
    found = [seen for one in machines if isinstance(seen := one.get("speculation"), Mapping)]
    sources = {str(seen.get("source", "")) for seen in found}
    if not found or len(sources) != 1:
        return Acceptance(None, None)
    if sources == {"gauge"}:
        lengths = [value for seen in found if (value := _number(seen, "length")) is not None]
        rates = [value for seen in found if (value := _number(seen, "rate")) is not None]
        return Acceptance(_mean(lengths), _mean(rates), "gauge")
    tokens, accepted, drafted = (
        sum(_number(seen, name) or 0.0 for seen in found) for name in ("tokens", "accepted", "drafted")
    )
    # Every step yields one token of its own, and those that were accepted besides.
    steps = tokens - accepted
    length = tokens / steps if steps > 0 and accepted >= 0 else None
    rate = accepted / drafted if drafted > 0 and accepted <= drafted else None
    return Acceptance(length, rate, sources.pop())


def _number(seen: Mapping[str, Any], name: str) -> float | None:
    value = seen.get(name)
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if good and value is not None and value >= 0 else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _middle(launches: Launches) -> float:
    return math.exp(statistics.fmean(noise.location(launch) for launch in noise.logs(launches)))
