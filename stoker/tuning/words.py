"""How words are read: one of a few, or one of the many spellings of on and off."""

from __future__ import annotations

import re
from collections.abc import Callable

from stoker.tuning.faults import OFF, ON, Fault, Faults, nearest, wordlist
from stoker.tuning.model import Variable

Reader = Callable[[str, Variable], Faults]


def text(_value: str, _variable: Variable) -> Faults:
    """Anything."""
    yield from ()


def plain_path(value: str, _variable: Variable) -> Faults:
    """A path that nobody expands: no shell comes between the profile and the program."""
    if value.startswith("~") or re.search(r"\$\{?[A-Za-z_]", value):
        reason = "values reach the program as they are written, and it expands neither ~ nor $NAME"
        yield Fault("unexpanded", "is taken literally", "", reason)


def choice(value: str, variable: Variable) -> Faults:
    """One of a few words, spelled exactly so."""
    if value in variable.values:
        return
    folded = {v.lower(): v for v in variable.values}
    meant = folded.get(value.strip().lower(), "")
    if meant and value.strip() == value:
        yield Fault("wrong-case", f"is not {meant}: capitals matter", meant)
    else:
        yield Fault(
            "bad-value", f"is none of {wordlist(variable.values)}", meant or nearest(value, variable.values)
        )


def choice_any_case(value: str, variable: Variable) -> Faults:
    """One of a few words, in capitals or not."""
    if value.lower() not in {v.lower() for v in variable.values}:
        yield Fault("bad-value", f"is none of {wordlist(variable.values)}", nearest(value, variable.values))


def spelled(on: str, off: str, *, any_case: bool = True) -> Reader:
    """On and off in certain spellings, all others being wrong.

    Args:
        on: The spellings of on, with blanks between; the first is the one to write.
        off: Those of off.
        any_case: Capitals do not matter.
    """
    accepted = frozenset(f"{on} {off}".split())

    def read(value: str, _variable: Variable) -> Faults:
        folded = value.lower()
        if (folded if any_case else value) in accepted:
            return
        meant = on.split()[0] if folded.strip() in ON else off.split()[0] if folded.strip() in OFF else ""
        if not any_case and folded in accepted:
            yield Fault("wrong-case", f"is not {folded}: capitals matter", folded)
        else:
            yield Fault("bad-value", f"is none of {wordlist([*on.split(), *off.split()])}", meant)

    return read


def true_words(value: str, variable: Variable) -> Faults:
    """On in certain words; whatever else is written is off."""
    folded = value.strip().lower()
    if folded and folded not in variable.values and folded not in OFF:
        meant = next((v for v in ("1", "true") if v in variable.values), "")
        yield Fault("bad-value", f"is read as off: only {wordlist(variable.values)} is on", meant)


def one_only(value: str, _variable: Variable) -> Faults:
    """`1` is on; whatever else is written is off."""
    if value not in {"1", "0", ""} and value.strip().lower() not in OFF:
        yield Fault("bad-value", "is read as off: only 1 is on", "1" if value.strip().lower() in ON else "")


def llama_flag(value: str, _variable: Variable) -> Faults:
    """A bare flag of llama-server: on in certain words; whatever else is written does nothing."""
    if value not in {"on", "enabled", "true", "1"} and value.lower() not in OFF:
        meant = "1" if value.strip().lower() in ON else ""
        yield Fault("bad-value", "does nothing: only on, enabled, true and 1 switch it on", meant)


def llama_off(value: str, variable: Variable) -> Faults:
    """A negated flag of llama-server: it is off as soon as the variable is there."""
    if value.strip().lower() in OFF:
        positive = variable.name.replace("LLAMA_ARG_NO_", "LLAMA_ARG_", 1)
        yield Fault("always-off", "switches it off all the same", f"{positive}: on", "any value does")


def refused(_value: str, variable: Variable) -> Faults:
    """Not read any more: the server does not start with it."""
    yield Fault(
        "refused",
        "ends the server at start",
        variable.renamed_to,
        "it was removed, with an error in its place",
    )
