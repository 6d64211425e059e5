"""What a doctor says of one thing: a state, the evidence for it, and the remedy."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Sequence

Check = Dict[str, Any]

OK, UNKNOWN, WARN, FAIL = "ok", "unknown", "warn", "fail"
_ORDER = (OK, UNKNOWN, WARN, FAIL)
_MOST = 6


class Part(NamedTuple):
    """One of several equal things (a GPU, a process) as a check found it.

    Args:
        of: Its number.
        evidence: Equal words are told once.
    """

    of: int
    state: str
    evidence: str
    remedy: str = ""


def check(name: str, state: str, evidence: str, remedy: str = "") -> Check:
    """One check as it travels: ``{name, state, evidence, remedy}``."""
    return {"name": name, "state": state, "evidence": evidence, "remedy": "" if state == OK else remedy}


def worst(states: Iterable[str]) -> str:
    """The state that counts for all of them."""
    return max(states, key=_ORDER.index, default=OK)


def together(name: str, parts: Sequence[Part], word: str = "GPU") -> Check:
    """One check out of many parts, the worst first, equal ones told once."""
    state = worst(part.state for part in parts)
    told: Dict[str, List[int]] = {}
    for part in sorted(parts, key=lambda part: -_ORDER.index(part.state)):
        told.setdefault(part.evidence, []).append(part.of)
    lines = [f"{word} {ranges(of)}: {evidence}" for evidence, of in told.items()]
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    remedies = dict.fromkeys(part.remedy for part in parts if part.state == state and part.remedy)
    return check(name, state, "; ".join(lines[:_MOST] + more), "; ".join(remedies))


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in few words: ``0-3, 6``."""
    found: List[List[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in found)
