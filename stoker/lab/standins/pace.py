"""How fast a stand-in decodes: a documented model of the environment that its workers really have.

One step of decoding computes on every GPU and then reduces over all of them::

    step_ms = compute_ms + comm_ms

    compute_ms = 9.0 · √(8 / ranks)                 9.0 for the story's eight GPUs
    comm_ms    = 6.873 · links / 1.75 · penalty     without tuning, for eight GPUs on PCIe
                 less 4.650 · links / 1.75 · (sum of the shares of what is set)
    links      = 2 · (ranks - 1) / ranks            what a ring moves; none for one GPU

====================================  =====  ====================================================
variable                              share  note
====================================  =====  ====================================================
``NCCL_PROTO=LL``                      0.50  Simple excluded and LL allowed; LL128 alone: 0.30
``NCCL_ALGO=Ring``                     0.28  Tree excluded and Ring allowed
``NCCL_P2P_LEVEL=SYS``                 0.10  case matters; PHB: 0.05; nothing under P2P_DISABLE=1
``NCCL_MAX_NCHANNELS=16``              0.07  16 to 32; 8 to 15: 0.03
``NCCL_NTHREADS=512``                  0.05  256: 0.02
``NCCL_BUFFSIZE=16777216``             0.00  LL does not read it; 0.04 where Simple is in use
====================================  =====  ====================================================

So eight GPUs step in 15.873 ms without tuning (63.0 tok/s) and in 11.223 ms with the six variables of the
story (89.1 tok/s); with a prefill of 30 ms, 500 tokens come at 62.9 and 88.8 tok/s. ``NCCL_P2P_DISABLE=1``
makes communication 1.3 times as long, ``NCCL_DEBUG=INFO`` or ``TRACE`` a step 1.02 times. Values that NCCL
would not understand count as unset, as there; lists for single functions are not modelled. The slowest rank
sets the pace.

A batch of b requests steps 1 + 0.02·(b - 1) times as long. A speculative step drafts n tokens and verifies
them::

    step_ms = 1.15 · compute_ms + 1.5 · comm_ms + n · (0.12 · compute_ms + 0.55 · comm_ms)

and yields 1 + 0.64 + 0.64² + … + 0.64ⁿ tokens: 2.31 for n = 3. On the tuned host that breaks even at 1.84
(25 % faster than plain), on the untuned one at 2.22: there it hardly pays, as the story had it.

Every launch is 0.3 % faster or slower than the model (one standard deviation), and so is every request.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

PREFILL_S = 0.030
PREFILL_S_PER_TOKEN = 0.00002
ACCEPTANCE = 0.64
_COMPUTE_MS = 9.0
_COMM_MS = 6.873
_TUNABLE_MS = 4.650
_PER_REQUEST = 0.02
_JITTER = 0.003
_INTEGER = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
_ALGORITHMS = ("TREE", "RING", "COLLNETDIRECT", "COLLNETCHAIN", "NVLS", "NVLSTREE", "PAT")


@dataclass(frozen=True)
class Pace:
    """How long the parts of a decoding step take.

    Args:
        compute_ms: On the GPU.
        comm_ms: Between the GPUs.
    """

    compute_ms: float
    comm_ms: float

    def step_s(self, batch: int = 1, drafts: int = 0) -> float:
        """Seconds of one step.

        Args:
            batch: Requests that decode together.
            drafts: Tokens drafted before the step verifies them; 0 without speculation.
        """
        step_ms = self.compute_ms + self.comm_ms
        if drafts:
            step_ms = 1.15 * self.compute_ms + 1.5 * self.comm_ms
            step_ms += drafts * (0.12 * self.compute_ms + 0.55 * self.comm_ms)
        return step_ms / 1000 * (1 + _PER_REQUEST * (batch - 1))


def of(env: Mapping[str, str], ranks: int) -> Pace:
    """The pace of one worker.

    Args:
        env: Its environment.
        ranks: GPUs that work together.
    """
    links = 2 * (ranks - 1) / ranks / 1.75
    penalty = 1.3 if env.get("NCCL_P2P_DISABLE") == "1" else 1.0
    comm_ms = links * (_COMM_MS * penalty - _TUNABLE_MS * sum(shares(env).values()))
    chatter = 1.02 if env.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE") else 1.0
    return Pace(_COMPUTE_MS * math.sqrt(8 / ranks) * chatter, comm_ms * chatter)


def shares(env: Mapping[str, str]) -> dict[str, float]:
    """What each tuning variable takes off the tunable part of communication, 0..1."""
    protocols = _choice(env.get("NCCL_PROTO"), _PROTOCOLS)
    algorithms = _choice(env.get("NCCL_ALGO"), _ALGORITHMS)
    channels, threads = _integer(env.get("NCCL_MAX_NCHANNELS")), _integer(env.get("NCCL_NTHREADS"))
    level = "" if env.get("NCCL_P2P_DISABLE") == "1" else env.get("NCCL_P2P_LEVEL", "")
    simple = "SIMPLE" in protocols
    return {
        "NCCL_PROTO": 0.0 if simple else 0.50 if "LL" in protocols else 0.30,
        "NCCL_ALGO": 0.28 if "RING" in algorithms and "TREE" not in algorithms else 0.0,
        "NCCL_P2P_LEVEL": {"SYS": 0.10, "5": 0.10, "PHB": 0.05, "4": 0.05}.get(level, 0.0),
        "NCCL_MAX_NCHANNELS": 0.07 if 16 <= channels <= 32 else 0.03 if 8 <= channels < 16 else 0.0,
        "NCCL_NTHREADS": {512: 0.05, 256: 0.02}.get(threads, 0.0),
        "NCCL_BUFFSIZE": 0.04 if simple and _integer(env.get("NCCL_BUFFSIZE")) >= 16 << 20 else 0.0,
    }


def jitter(*seed: object) -> float:
    """A factor near 1 for a launch or a request; the same seed gives the same factor."""
    drawn = random.Random(repr(seed)).gauss(0, _JITTER)  # noqa: S311  # a simulation, no secret
    return 1 + max(-2 * _JITTER, min(2 * _JITTER, drawn))


def acceptance_deck(drafts: int, seed: object, size: int = 20) -> list[int]:
    """Tokens that ``size`` successive speculative steps yield, in the model's exact proportions, shuffled."""
    lengths: list[int] = []
    for position in range(size):
        rank = (position + 0.5) / size  # stratified, so that the mean holds for short runs too
        lengths.append(1 + sum(rank < ACCEPTANCE**n for n in range(1, drafts + 1)))
    random.Random(repr(seed)).shuffle(lengths)  # noqa: S311  # a simulation, no secret
    return lengths


def _choice(value: str | None, legal: tuple[str, ...]) -> set[str]:
    """What a list such as ``LL`` or ``^Tree,NVLS`` leaves; everything where NCCL would not understand it."""
    text = (value or "").upper()
    names = set(text.removeprefix("^").split(","))
    if not names <= set(legal):
        return set(legal)
    return set(legal) - names if text.startswith("^") else names


def _integer(value: str | None) -> int:
    """As strtoll with base 0 reads it, which is how NCCL does: ``16M`` is 16, ``abc`` is 0."""
    match = _INTEGER.match(value or "")
    if match is None:
        return 0
    sign, digits = match.groups()
    base = 16 if digits[:2].lower() == "0x" else 8 if digits.startswith("0") else 10
    return int(sign + digits, base)
