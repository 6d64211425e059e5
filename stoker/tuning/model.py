"""What the room speaks in: a variable, what an environment will run under, a remark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "advice"]


@dataclass(frozen=True)
class Remark:
    """One thing to say about one variable of an environment.

    Args:
        name: The variable it is about.
        severity: ``error``: what was meant will not happen; ``warning``: it probably will not, or hurts;
            ``advice``: it works, and there is something to know.
        code: Stable, the family first, e.g. ``nccl-unknown-name``.
        what: One sentence, with the value.
        reason: Why it matters.
        source: Where that is known from: a page, a file, a version, ``facts: …``.
        mend: What to write instead; empty where there is nothing.
    """

    name: str
    severity: Severity
    code: str
    what: str
    reason: str
    source: str
    mend: str = ""


@dataclass(frozen=True)
class Setting:
    """What an environment will run under; empty or None is not known.

    Args:
        engine: ``sglang``, ``vllm``, ``llamacpp``, ``transformers``, ``openai``.
        versions: By family: ``nccl``, ``cuda``, ``torch``, ``sglang``, …; unknown ones are left out.
        gpus: How many the server gets.
        args: The engine's arguments, names without dashes in front.
        expect: The profile's ``expect``: variable to what the engine turns it into, None for unset.
    """

    engine: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    expect: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Variable:
    """One variable of the catalogue.

    Args:
        name: As programs read it; capitals matter.
        family: Whose it is: the name of the data file it stands in, e.g. ``nccl``.
        kind: How its value is read; the names of ``stoker.tuning.kinds``.
        values: What may be written, where the kind is a choice of words or numbers.
        lowest: The least number that may be written, where there is one.
        highest: The greatest.
        default: What holds where it is unset, as its source words it; empty where that depends.
        since: The first version that reads it; empty where it is older than what the source covers.
        until: The last version that reads it, or ``ignored`` with no known version; empty: it is still read.
        renamed_to: The name that took its place.
        effect: What it does.
        risk: What may go wrong with it, where it is not for production or can hurt.
        overwritten: By an engine: its name to the value that it sets whatever was exported.
        source: Where all this is known from.
    """

    name: str
    family: str
    kind: str
    effect: str
    source: str
    values: tuple[str, ...] = ()
    lowest: int | None = None
    highest: int | None = None
    default: str = ""
    since: str = ""
    until: str = ""
    renamed_to: str = ""
    risk: str = ""
    overwritten: Mapping[str, str] = field(default_factory=dict)
