"""What an explanation is made of: causes, what was found equal, and what could not be compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stoker.results.records.fingerprint import Fingerprint

TUNING = "tuning"
RESTART = "restart"
PROFILE = "profile"
ARGUMENTS = "arguments"
VERSIONS = "versions"
GPUS = "gpus"
NEIGHBOURS = "neighbours"
LIMITS = "limits"
CONF_FILES = "conf-files"
ENVIRONMENT = "environment"
CATEGORIES = (
    TUNING,
    RESTART,
    PROFILE,
    ARGUMENTS,
    VERSIONS,
    GPUS,
    NEIGHBOURS,
    LIMITS,
    CONF_FILES,
    ENVIRONMENT,
)

LIKELY = "likely"
CONTEXT = "context"
POSSIBLE = "possible"
UNLIKELY = "unlikely"
CONFIDENCES = (LIKELY, CONTEXT, POSSIBLE, UNLIKELY)


@dataclass(frozen=True)
class Cause:
    """One difference, with what it may have to do with the loss.

    Args:
        category: One of ``CATEGORIES``.
        title: What differs: ``NCCL_ALGO is gone``.
        detail: What it was and what it is: ``Ring → unset``.
        confidence: ``likely``, ``possible``, ``unlikely``; or ``context``: no cause, but how one came
            about.
        reason: Why it ranks where it does.
        weight: Order within category and confidence; smaller comes first.
        name: The variable, argument or field, for programs.
    """

    category: str
    title: str
    detail: str
    confidence: str
    reason: str
    weight: int = 0
    name: str = ""

    @property
    def rank(self) -> tuple[int, int, int]:
        """What causes are sorted by; equal ranks keep their order."""
        return CONFIDENCES.index(self.confidence), CATEGORIES.index(self.category), self.weight


@dataclass(frozen=True)
class Unknown:
    """What could not be compared.

    Args:
        what: e.g. ``NCCL version``.
        why: In the words of what failed to read it.
    """

    what: str
    why: str


@dataclass(frozen=True)
class Findings:
    """What one look at two fingerprints found."""

    causes: tuple[Cause, ...] = ()
    equal: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Args:
        label: For people: a run id, or the baseline and when it was accepted.
        fingerprint: What was in force.
        engine: The engine's name.
        profile: Empty for a server that was started by hand.
        profile_hash: Likewise.
        tok_s: How fast it was; None where no run was valid.
    """

    label: str
    fingerprint: Fingerprint
    engine: str
    profile: str = ""
    profile_hash: str = ""
    tok_s: float | None = None


def merged(parts: Iterable[Findings]) -> Findings:
    """Several findings as one, causes by rank."""
    every = list(parts)
    return Findings(
        causes=tuple(sorted((c for part in every for c in part.causes), key=lambda cause: cause.rank)),
        equal=tuple(text for part in every for text in part.equal),
        unknown=tuple(item for part in every for item in part.unknown),
    )


def why_unread(side: Side, *words: str) -> str:
    """Why something is missing in a fingerprint, as the host said it when it could not read it."""
    for line in side.fingerprint.unread:
        if any(word.lower() in line.lower() for word in words):
            return f"{side.label}: {line}"
    return f"{side.label} does not tell"


def count(number: int, one: str, many: str = "") -> str:
    """``1 variable``, ``6 variables``."""
    return f"{number} {one if number == 1 else many or one + 's'}"
