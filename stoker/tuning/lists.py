"""How lists are read: NCCL's own grammars, devices, threads' places, the allocator's pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stoker.tuning.faults import Fault, Faults, nearest, wordlist
from stoker.tuning.model import Variable

FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
# What the numbers meant before there were words; more than 5 counts as 5.
_OLD_LEVELS = ("LOC", "PIX", "PXB", "PHB", "SYS", "SYS")
_UNTRIMMED = "lists are not trimmed: a word with a blank is an unknown word"


def level(value: str, variable: Variable) -> Faults:
    """A distance between GPUs or cards by its word, in capitals; the old numbers still go."""
    if not value or value in variable.values:
        return
    if re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
        word = _OLD_LEVELS[min(int(value), len(_OLD_LEVELS) - 1)]
        reason = "what the numbers mean has changed before and may again"
        yield Fault("legacy-level", f"is the old number of {word}", word, reason, "advice")
        return
    reason = "an unknown word is ignored without a word, and capitals matter (facts: seen with 2.28.9)"
    if value.strip().upper() in variable.values:
        rule = "wrong-case" if value.strip() == value else "blank"
        yield Fault(rule, f"is not {value.strip().upper()}", value.strip().upper(), reason)
    else:
        words = wordlist(variable.values)
        yield Fault("bad-value", f"is none of {words}", nearest(value, variable.values), reason)


def subsystems(value: str, variable: Variable) -> Faults:
    """Words with commas between, in capitals or not; ^ in front of the first excludes them all."""
    yield from words(value, variable.values)


def by_function(value: str, variable: Variable) -> Faults:
    """Words with commas between, for all functions or, with semicolons between, for single ones.

    ``Ring``, ``^Tree``, ``Ring;allreduce:Tree,NVLS``: the function may be left out in the first part alone.
    """
    for index, part in enumerate(value.split(";") if value else ()):
        function, colon, listed = part.rpartition(":")
        if colon and function.lower() not in {f.lower() for f in FUNCTIONS}:
            what = f"has {function[:30]!r} for a function, which is none of {wordlist(FUNCTIONS)}"
            yield Fault("bad-value", what)
        elif not colon and index:
            yield Fault("bad-value", f"has {part[:30]!r} without a function behind a semicolon")
        yield from words(listed, variable.values)


def words(listed: str, known: Sequence[str]) -> Faults:
    """The words of one list; NCCL does not trim them."""
    folded = {k.lower() for k in known}
    for index, word in enumerate(listed.removeprefix("^").split(",")):
        plain = word.strip()
        if not plain:
            yield Fault("empty-element", f"has no word in place {index + 1} of a list", _tidy(listed))
        elif plain.startswith("^"):
            reason = "^ stands once, in front of a list, and excludes all of its words"
            yield Fault("negation", f"has a ^ within a list, at {plain[:30]!r}", "", reason)
        elif plain.lower() not in folded:
            near = nearest(plain, known)
            yield Fault("bad-value", f"has {plain[:30]!r}, which is none of {wordlist(known)}", near)
        elif plain != word:
            yield Fault("blank", f"has a blank at {plain[:30]!r}", _tidy(listed), _UNTRIMMED)


def selection(value: str, _variable: Variable) -> Faults:
    """Interfaces or adapters by prefix; `^` in front excludes, `=` in front takes names exactly."""
    listed = value[1:] if value.startswith("^") else value
    listed = listed.removeprefix("=")
    for word in listed.split(",") if listed else ():
        if not word.strip():
            yield Fault("empty-element", "has nothing between two commas", _tidy(value))
        elif word.strip() != word or " " in word:
            yield Fault("blank", f"has a blank at {word.strip()[:30]!r}", _tidy(value), _UNTRIMMED)
        elif word[0] in "^=":
            reason = "^ and = stand once, in front of the whole list"
            yield Fault(
                "negation", f"has a {word[0]} within the list", value.replace("," + word[0], ","), reason
            )


def policies(value: str, variable: Variable) -> Faults:
    """Words with | between."""
    known = {v.lower() for v in variable.values}
    for word in value.split("|") if value else ():
        if word.lower() not in known:
            what = f"has {word[:30]!r}, which is none of {wordlist(variable.values)}"
            yield Fault("bad-value", what, nearest(word, variable.values))


def devices(value: str, _variable: Variable) -> Faults:
    """GPUs by number or UUID; the list ends at the first that is not there."""
    for part in value.split(",") if value else ():
        if not re.fullmatch(r"-?[0-9]{1,4}|(GPU|MIG)-[0-9A-Za-z/-]+", part.strip(), re.ASCII):
            reason = "the list ends at the first that is no GPU, without a word"
            yield Fault("bad-value", f"has {part[:40]!r}, which is no GPU's number or UUID", "", reason)


def binding(value: str, variable: Variable) -> Faults:
    """How threads are bound, a word for each level."""
    known = {v.lower() for v in variable.values}
    for part in value.split(","):
        if part.strip().lower() not in known:
            what = f"has {part.strip()[:30]!r}, which is none of {wordlist(variable.values)}"
            yield Fault("bad-value", what, nearest(part, variable.values))


def allocator(value: str, variable: Variable) -> Faults:
    """PyTorch's key:value pairs; a value in brackets may hold commas."""
    flat = re.sub(r"\[[^\]]*\]", "0", value)
    for pair in flat.split(",") if flat.strip() else ():
        key, colon, setting = (p.strip() for p in pair.partition(":"))
        if not colon or not setting:
            yield Fault("bad-value", f"has {pair.strip()[:40]!r}, which is no key:value pair")
        elif key not in variable.values:
            near = nearest(key, variable.values)
            yield Fault("bad-value", f"has the unknown key {key[:40]!r}", f"{near}:{setting}" if near else "")
        elif setting.lower() in {"true", "false"} and setting not in {"True", "False"}:
            right = f"{key}:{setting.capitalize()}"
            yield Fault("wrong-case", f"has {key}:{setting[:10]}, and only True and False are read", right)


def chosen(listed: str, known: Sequence[str]) -> frozenset[str]:
    """Which of the known words one list (with ^ or without) allows."""
    named = {word.strip().lower() for word in listed.removeprefix("^").split(",")}
    return frozenset(k for k in known if (k.lower() in named) != listed.startswith("^"))


def chosen_by_function(value: str, known: Sequence[str]) -> dict[str, frozenset[str]]:
    """What ``by_function`` allows for each function; without a list for it, everything."""
    allowed = dict.fromkeys(FUNCTIONS, frozenset(known))
    for part in value.split(";") if value else ():
        function, _, listed = part.rpartition(":")
        for name in FUNCTIONS:
            if function.lower() in {"", name.lower()}:
                allowed[name] = chosen(listed, known)
    return allowed


def _tidy(listed: str) -> str:
    """The same list without blanks and empty places."""
    return ",".join(_filled(listed))


def _filled(listed: str) -> Iterator[str]:
    for word in listed.split(","):
        if word.strip():
            yield word.strip().replace(" ", "")
