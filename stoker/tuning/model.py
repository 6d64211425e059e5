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
class Overwrite:
    """An engine sets a variable itself, whatever was exported.

    Args:
        engine: Which one.
        value: To what; empty: not known before it runs.
        argument: Only where the engine has this argument.
        variable: Only where this variable is on.
    """

    engine: str
    value: str = ""
    argument: str = ""
    variable: str = ""


@dataclass(frozen=True)
class Variable:
    """One variable of the catalogue.

    Args:
        name: As programs read it; capitals matter.
        family: Whose it is: the name of the data file it stands in, e.g. ``nccl``.
        kind: How its value is read: a name of ``stoker.tuning.kinds.KINDS``.
        effect: What it does; empty where only the name and the reading are known.
        source: Where all this is known from.
        values: The words or numbers that may be written, where the kind is a choice.
        values_since: Of those that came later: the version that brought them.
        lowest: The least number that may be written, where there is one.
        highest: The greatest.
        default: What holds where it is unset; empty where that depends or is not known.
        since: The first version that reads it; empty where that is not known.
        until: The first version that no longer reads it; empty: it is still read.
        renamed_to: The name that took its place.
        risk: What may go wrong with it.
        risky: At which values; ``on`` and ``off`` stand for every spelling of them; empty: at any.
        severity: How bad that is.
        overwritten: What engines do to it.
    """

    name: str
    family: str
    kind: str
    effect: str
    source: str
    values: tuple[str, ...] = ()
    values_since: Mapping[str, str] = field(default_factory=dict)
    lowest: int | None = None
    highest: int | None = None
    default: str = ""
    since: str = ""
    until: str = ""
    renamed_to: str = ""
    risk: str = ""
    risky: tuple[str, ...] = ()
    severity: Severity = "advice"
    overwritten: tuple[Overwrite, ...] = ()


@dataclass(frozen=True)
class Family:
    """The variables that one program reads, and what it does with others.

    Args:
        name: Also the key of its version in a setting, and what its codes begin with.
        title: For people.
        prefixes: What its names begin with.
        complete: Every name that it reads stands in the catalogue.
        foreign: Beginnings of names that look like its own and are others'.
        old_prefixes: An older beginning of names, to what it is now.
        engine: The only engine that reads them, where it is one engine's.
        ignored: What becomes of a name that it does not know.
        illegal: What becomes of a value that it cannot read.
    """

    name: str
    title: str
    prefixes: tuple[str, ...]
    complete: bool
    foreign: tuple[str, ...]
    ignored: str
    illegal: str
    old_prefixes: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
