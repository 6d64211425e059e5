"""What ``serve`` asks for: how long each request is and when it comes, drawn from a seed; and its prompts."""

from __future__ import annotations

import math
import random
import re
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..context import AgentError
from .stream import WORDS

_BELL = re.compile(r"(normal|lognormal):(\d{1,7}):(\d{1,7}):(\d{1,7})-(\d{1,7})\Z")
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?\Z")
_MOST_LENGTH = 1000000
_MOST_REQUESTS = 100000
_POOL_WORDS = 4096
_LEAST_PER_WORD = 0.3  # tokens
_TRIES = 64  # to draw within the bounds; what still lies outside is put onto them

Draw = Callable[[random.Random], int]


class Serve(NamedTuple):
    """The parameters of ``serve``, under one load.

    Args:
        runs: How many are measured, after a warm-up.
        concurrency: Requests at once; 0 where they come at a rate.
        rate: Requests a second; 0: the next one comes when one is done.
        poisson: Whether they come at random at that rate; else in equal steps.
        requests: Of a run; 0 where ``seconds`` say how long it is.
        seconds: In which requests come.
        input: Distribution of prompt tokens.
        output: Distribution of the tokens asked for.
        seed: Of lengths and arrivals.
        goals: Name to seconds: ``ttft``, ``tpot``, ``e2e``; what a good request keeps to.
    """

    runs: int
    concurrency: int
    rate: float
    poisson: bool
    requests: int
    seconds: float
    input: str
    output: str
    seed: int
    goals: Mapping[str, float]


class Order(NamedTuple):
    """One request before it is sent.

    Args:
        number: In its run.
        at_s: When it comes, from the begin of the run; None: when another one is done.
        input: Tokens of its prompt.
        output: Tokens that it asks for.
    """

    number: int
    at_s: Optional[float]
    input: int
    output: int


def wanted(values: Mapping[str, Any]) -> Serve:
    """The parameters, checked: what comes over the wire is not believed.

    Raises:
        AgentError: ``bad-request``.
    """
    rate = _real(values, "rate", 0.001, 1e7) if values.get("rate") else 0.0
    seconds = _real(values, "seconds", 1.0, 1e7) if values.get("seconds") else 0.0
    found = Serve(
        runs=_whole(values, "runs", 1, 1000),
        concurrency=0 if rate else _whole(values, "concurrency", 1, 4096),
        rate=rate,
        poisson=values.get("arrivals") != "fixed",
        requests=0 if seconds else _whole(values, "requests", 1, _MOST_REQUESTS),
        seconds=seconds,
        input=str(values.get("input")),
        output=str(values.get("output")),
        seed=_whole(values, "seed", 0, 999999999),
        goals=_goals(str(values.get("goodput") or "")),
    )
    drawing(found.input, 1)
    drawing(found.output, 2)
    return found


def orders(serve: Serve) -> Iterator[Order]:
    """The requests of a run, in the order in which they come; every run has the same ones."""
    dice = random.Random("stoker/%d" % serve.seed)
    inputs, outputs = drawing(serve.input, 1), drawing(serve.output, 2)
    at_s = 0.0
    for index in range(serve.requests or _MOST_REQUESTS):
        if serve.rate and index:
            at_s += dice.expovariate(serve.rate) if serve.poisson else 1.0 / serve.rate
        if serve.rate and serve.seconds and at_s >= serve.seconds:
            return
        yield Order(index, at_s if serve.rate else None, inputs(dice), outputs(dice))


def drawing(text: str, least: int) -> Draw:
    """A distribution of lengths: ``512``, ``256-768``, ``normal:MEAN:SD:LEAST-MOST``, ``lognormal:…``.

    Raises:
        AgentError: ``bad-request``.
    """
    fixed, bell = _RANGE.match(text), _BELL.match(text)
    if fixed:
        low, high = int(fixed.group(1)), int(fixed.group(2) or fixed.group(1))
    elif bell:
        low, high = int(bell.group(4)), int(bell.group(5))
    else:
        raise AgentError("bad-request", "%r is no distribution of lengths" % text)
    if not least <= low <= high <= _MOST_LENGTH:
        raise AgentError("bad-request", "lengths go from %d to %d, not %s" % (least, _MOST_LENGTH, text))
    if not bell:
        return lambda dice: dice.randint(low, high)
    mean, sd = float(bell.group(2)), float(bell.group(3))
    return _bell(bell.group(1) == "lognormal", mean, sd, (low, high))


def _bell(log: bool, mean: float, sd: float, bounds: Tuple[int, int]) -> Draw:
    low, high = bounds
    # Mean and deviation are those of the tokens, not of their logarithm.
    spread = math.log(1 + (sd / mean) ** 2) if log and mean else 0.0

    def draw(dice: random.Random) -> int:
        value = mean
        for _ in range(_TRIES):
            if log and mean:
                value = dice.lognormvariate(math.log(mean) - spread / 2, math.sqrt(spread))
            else:
                value = dice.gauss(mean, sd)
            if low <= value <= high:
                break
        return int(min(high, max(low, round(value))))

    return draw


class Prompts:
    """Prompts of about so many tokens, none of which begins as another one.

    How many tokens a word takes is the server's affair: it is learned from what its answers say of prompts.

    Args:
        seed: Another one gives other prompts.
    """

    def __init__(self, seed: str) -> None:
        self._dice = random.Random(seed)
        known = WORDS.split()
        self._pool: List[str] = [self._dice.choice(known) for _ in range(_POOL_WORDS)]
        self._per_word, self._around = 1.5, 6.0
        self._seen: List[Tuple[int, int]] = []

    def text(self, words: int) -> str:
        """A prompt of so many words."""
        # The beginning differs, so nothing that follows is found in a prefix cache either.
        head = "%08x" % self._dice.getrandbits(32)
        at = self._dice.randrange(_POOL_WORDS)
        found = self._pool[at : at + words]
        while len(found) < words:
            found += self._pool[: words - len(found)]
        return " ".join([head, *found])

    def words(self, tokens: int) -> int:
        """How many words make about so many tokens."""
        return max(0, round((tokens - self._around) / self._per_word))

    def learn(self, seen: List[Tuple[int, int]]) -> None:
        """Take in what prompts came to.

        Args:
            seen: Words and tokens of each.
        """
        if not seen:
            return
        self._seen += seen
        few, many = min(self._seen), max(self._seen)
        slope = (many[1] - few[1]) / max(1, many[0] - few[0])
        if slope < _LEAST_PER_WORD:
            return  # prompts of one length tell nothing, and some servers count none
        self._around = max(0.0, few[1] - slope * few[0])
        words, tokens = sum(one for one, _ in self._seen), sum(other for _, other in self._seen)
        self._per_word = max(_LEAST_PER_WORD, (tokens - self._around * len(self._seen)) / words)


def _whole(values: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        what = "%s must be a whole number from %d to %d, not %r" % (name, least, most, value)
        raise AgentError("bad-request", what)
    return value


def _real(values: Mapping[str, Any], name: str, least: float, most: float) -> float:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        what = "%s must be a number from %g to %g, not %r" % (name, least, most, value)
        raise AgentError("bad-request", what)
    return float(value)


def _goals(text: str) -> Mapping[str, float]:
    found = {}
    for part in filter(None, text.split(",")):
        name, _, limit = part.partition("=")
        try:
            found[name] = float(limit)
        except ValueError:
            found[name] = math.nan
        if name not in ("ttft", "tpot", "e2e") or not found[name] > 0:
            raise AgentError("bad-request", "%r is no limit of a request" % part)
    return found
