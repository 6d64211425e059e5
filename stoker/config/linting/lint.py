"""Findings: what is wrong, or worth knowing, at one place of a project's files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stoker.config.linting.codes import CODES
from stoker.config.profiles.parts import Part, find
from stoker.errors import Problem
from stoker.tuning import Severity

ORDER = {"error": 0, "warning": 1, "advice": 2}


@dataclass(frozen=True)
class Finding:
    """One thing about one place.

    Args:
        file: As the user would type it in the project's folder.
        line: 1-based; 0 where the file as a whole is meant.
        column: 1-based; 0 where the line as a whole is meant.
        severity: ``error``: it will fail, or not do what was meant; ``warning``: it probably will not, or
            hurts; ``advice``: it works, and there is something to know.
        code: Stable, e.g. ``argument-unknown``.
        what: One sentence. It never holds a value that may be a secret.
        reason: Why it matters; may be empty.
        source: Where that is known from; may be empty.
        mend: What to write instead; may be empty.
        profiles: The profiles in which it was seen; empty where it is not about one.
        hosts: The hosts for which it holds; empty where it holds for all, or for none in particular.
    """

    file: str
    line: int
    column: int
    severity: Severity
    code: str
    what: str
    reason: str = ""
    source: str = ""
    mend: str = ""
    profiles: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """``file:line:column``, as far as it is known."""
        numbers = [self.line, self.column] if self.line and self.column else [self.line] if self.line else []
        return ":".join([self.file, *map(str, numbers)])

    @property
    def place_and_what(self) -> str:
        """One line: what is wrong where, and what to do."""
        return f"{self.place}: {self.what}" + (f" ({self.mend})" if self.mend else "")

    def problem(self) -> Problem:
        """The same as a mistake that ends a command."""
        return Problem(self.file, self.line, self.what, self.mend, self.column)


def finding(
    problem: Problem, code: str, *, severity: Severity | None = None, reason: str = "", source: str = ""
) -> Finding:
    """A mistake under one of our own codes, which says how grave it is and why where nothing else does."""
    known = CODES[code]
    return Finding(
        problem.file,
        problem.line,
        problem.column,
        severity or known.severity,
        code,
        problem.what,
        reason or known.reason,
        source or known.source,
        problem.hint or known.mend,
    )


def at(tree: Part, path: tuple[str | int, ...], what: str, mend: str = "", *, key: bool = False) -> Problem:
    """Something about a value of a profile, where it was written: in the profile, or in what it extends."""
    part = find(tree, path)
    return part.document.problem(part.at, what, mend, key=key)


def fold(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The same thing for many hosts or profiles is one finding; in the order of files, lines and columns."""
    met: dict[Finding, tuple[dict[str, None], dict[str, None]]] = {}
    for one in findings:
        profiles, hosts = met.setdefault(replace(one, profiles=(), hosts=()), ({}, {}))
        profiles.update(dict.fromkeys(one.profiles))
        hosts.update(dict.fromkeys(one.hosts))
    folded = [replace(one, profiles=tuple(p), hosts=tuple(h)) for one, (p, h) in met.items()]
    return tuple(sorted(folded, key=_key))


def _key(one: Finding) -> tuple[str, int, int, int, str, str]:
    return one.file, one.line, one.column, ORDER[one.severity], one.code, one.what
