"""Every error Stoker raises on purpose, and the exit codes it promises.

The tree::

    StokerError                     1  a fault in Stoker itself
    ├── InputError                  2  the input is wrong, nothing was touched
    │   └── ConfigError             2  ... with every mistake of the files, as file:line
    └── HostError                      knows its host
        ├── HostFailed              3  reached, but the step failed
        │   └── HostInterrupted   130  ... by Ctrl-C, with what goes on there
        └── HostUnreachable         4  never reached, or lost

Ctrl-C is Python's own KeyboardInterrupt (130, once a command had begun).

An error says what, where, the last evidence, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

EXIT_DONE = 0
EXIT_FAULT = 1
EXIT_INPUT = 2
EXIT_HOST_FAILED = 3
EXIT_UNREACHABLE = 4
EXIT_REGRESSED = 5
EXIT_INTERRUPTED = 130


class StokerError(Exception):
    """The root: a message with evidence and the next step.

    Args:
        what: One sentence: what is wrong.
        where: The place: ``file:line``, a host, a step; empty where there is none.
        evidence: The last lines that show it (a log's tail, a command's output), oldest first.
        next_step: What to do about it, as an imperative sentence.
    """

    exit_code = EXIT_FAULT

    def __init__(
        self, what: str, *, where: str = "", evidence: Iterable[str] = (), next_step: str = ""
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.evidence = tuple(evidence)
        self.next_step = next_step

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return place + self.what


class InputError(StokerError):
    """What the user gave is wrong; nothing was touched."""

    exit_code = EXIT_INPUT


class OneHostsInput(InputError):
    """What only one host could show to be wrong or not enough; the others are served."""


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a file that people write.

    Args:
        file: Path as the user would type it, relative to the project where it lies inside.
        line: 1-based; 0 where the file as a whole is meant.
        what: What is wrong there.
        hint: What was expected, or the nearest name; may be empty.
        column: 1-based; 0 where unknown.
    """

    file: str
    line: int
    what: str
    hint: str = ""
    column: int = 0

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.what}" + (f" ({self.hint})" if self.hint else "")


class ConfigError(InputError):
    """All mistakes found in the files, at once.

    Args:
        problems: At least one, in the order of file and line.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        first = str(self.problems[0])
        more = len(self.problems) - 1
        super().__init__(first if not more else f"{first} (and {more} more)")


class HostError(StokerError):
    """Something about one host.

    Args:
        host: The inventory's name of it.
        kind: A short stable word for programs, e.g. ``lock-held`` or ``host-key-changed``.
    """

    def __init__(
        self,
        what: str,
        *,
        host: str,
        kind: str,
        evidence: Iterable[str] = (),
        next_step: str = "",
        detail: dict[str, object] | None = None,
    ) -> None:
        super().__init__(what, where=host, evidence=evidence, next_step=next_step)
        self.host = host
        self.kind = kind
        self.detail: dict[str, object] = detail or {}


class HostFailed(HostError):
    """The host was reached and the step failed there."""

    exit_code = EXIT_HOST_FAILED


class HostInterrupted(HostFailed):
    """Ctrl-C ended our part of a step: says what goes on on the host without us."""

    exit_code = EXIT_INTERRUPTED


class HostUnreachable(HostError):
    """Refused, timed out, wrong host key, login denied, or lost on the way."""

    exit_code = EXIT_UNREACHABLE


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint for an unknown name.

    Args:
        name: What was written.
        known: What would have been right.

    Returns:
        ``did you mean 'x'?``, or the choices when nothing is near and they are few, or ``""``.
    """
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if not close:
        folded = {n.lower(): n for n in names}
        close = [folded[m] for m in difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)]
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return ""
    if len(names) <= 8:
        return "known: " + ", ".join(names)
    return f"{len(names)} are known, none of them near"


def exit_code_of(codes: Iterable[int]) -> int:
    """The one exit code of several outcomes: 130, then 1, 2, 3, 4, 5, else 0."""
    order = (EXIT_INTERRUPTED, EXIT_FAULT, EXIT_INPUT, EXIT_HOST_FAILED, EXIT_UNREACHABLE, EXIT_REGRESSED)
    seen = set(codes)
    return next((code for code in order if code in seen), EXIT_DONE)
