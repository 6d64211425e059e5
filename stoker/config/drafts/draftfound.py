"""Places where variables are set → the text of a profile that sets them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.config import yamlwrite
from stoker.config.drafts.draft import Draft
from stoker.config.profiles import kinds as kinds


@dataclass(frozen=True)
class Found:
    """One place that says what a variable is.

    Args:
        name: The variable.
        value: Its value; None where it is unset there.
        how: How it is written.
        place: ``host:path:line``.
        at: When it was written, in Unix time; 0: unknown.
        hidden: The value may not be told; what stands for it is no value.
    """

    name: str
    value: str | None
    how: str
    place: str
    at: float
    hidden: bool = False

    @property
    def day(self) -> str:
        """The day on which it was written; empty where that is unknown."""
        return time.strftime("%Y-%m-%d", time.localtime(self.at)) if self.at else ""

    @property
    def why_not(self) -> str:
        """Why it cannot be chosen; empty where it can."""
        if self.value is None:
            return "it is unset there"
        if "comment" in self.how:
            return "it is commented out"
        if self.hidden:
            return ""
        if "$" in self.value or "`" in self.value:
            return "its value is what a shell makes of it"
        try:
            kinds.variable(self.name)
            kinds.text(self.value)
            yamlwrite.text(self.value)
        except ValueError as error:
            return str(error)
        return ""


def newest_first(found: Sequence[Found]) -> dict[str, list[Found]]:
    """Every place by its variable, the newest first."""
    by_name: dict[str, list[Found]] = {}
    for one in sorted(found, key=lambda one: (one.name, -one.at)):
        by_name.setdefault(one.name, []).append(one)
    return by_name


def of_places(found: Sequence[Found], extends: str, source: str) -> Draft:
    """A profile of the newest value of each variable; the others stand beside it as comments.

    Args:
        found: What was found.
        extends: The profile that it tunes; empty: its reader is told to name one.
        source: What was searched, for the head.
    """
    notes: list[str] = []
    secrets: list[str] = []
    body: list[str] = []
    for name, places in newest_first(found).items():
        chosen = next((one for one in places if not one.why_not), None)
        if chosen is None:
            notes.append(f"{name} is left out: {places[0].why_not} ({places[0].place})")
            continue
        secrets += [name] if chosen.hidden else []
        body += _entry(chosen, places)
    if not extends:
        notes.append("it names no engine: put the profile of the server that it tunes into extends:")
    lines = list(yamlwrite.comment(f"Captured by inv capture --search from {source}"))
    for note in notes:
        lines += yamlwrite.comment(f"- {note}")
    lines += [f"description: {yamlwrite.text(f'found in {source}')}"]
    lines += [f"extends: {yamlwrite.text(extends)}" if extends else "# extends: NAME"]
    lines += ["env:", *body] if body else ["env: {}"]
    return Draft("\n".join(lines) + "\n", tuple(notes), tuple(secrets))


def _entry(chosen: Found, places: Sequence[Found]) -> Iterator[str]:
    """A variable with where its value is from, and what stands elsewhere."""
    yield from yamlwrite.comment(_told(chosen), "  ")
    for one in places:
        if one is not chosen and (one.hidden, one.value) != (chosen.hidden, chosen.value):
            value = "a secret" if one.hidden else "unset" if one.value is None else one.value
            why = f", {one.why_not}" if one.why_not else ""
            yield from yamlwrite.comment(f"not taken: {value}, {_told(one)}{why}", "  ")
    if chosen.hidden:
        yield from yamlwrite.comment(f"its value is not kept here: export {chosen.name} where inv runs", "  ")
        yield f"  {chosen.name}: !secret {chosen.name}"
    else:
        yield f"  {chosen.name}: {yamlwrite.text(str(chosen.value))}"


def _told(one: Found) -> str:
    return f"{one.place} ({one.how}{', ' + one.day if one.day else ''})"
