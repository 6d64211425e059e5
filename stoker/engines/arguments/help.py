"""An engine's ``--help`` as data: argparse's, Click's and llama.cpp's ways to print it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Takes = Literal["none", "one", "optional", "many", "any"]

MOST_BYTES = 4 * 1024 * 1024
"""A help longer than this is none; SGLang's has 180 kB."""

_HEADING = re.compile(r"(?: {2})?(?=-)")  # deeper lines that begin with a dash belong to a description
_NAME = re.compile(r"--?[A-Za-z0-9][\w.-]*")
_MORE = re.compile(r",\s+(?=-)|\s+/\s+(?=-)")
_VALUE = re.compile(r" (?=\S)((?:(?!\s{2}|, -).)+)")
_CHOICES = re.compile(r"\{([^{}]*)\}")
_CLICK = re.compile(r"^Usage: .*\[OPTIONS\]", re.M)
_CLICK_CHOICES = re.compile(r"\[([^\[\]|]+(?:\|[^\[\]|]+)+)\]")


@dataclass(frozen=True)
class Argument:
    """One argument.

    Args:
        names: All its names, with their dashes.
        takes: Its value: ``none`` (a bare flag), ``one``, ``optional``, ``many``; ``any``: not known.
        choices: What the value may be, where it is one of a few words.
        removed: It is only there to say that it is gone.
    """

    names: tuple[str, ...]
    takes: Takes
    choices: tuple[str, ...] = ()
    removed: bool = False


def parse(text: str) -> tuple[Argument, ...]:
    """Every argument that a help names, in its order; each once.

    Args:
        text: What the engine printed. It comes from a host, so nothing about it is taken for granted.
    """
    is_click = bool(_CLICK.search(text[:2000]))
    found: dict[tuple[str, ...], Argument] = {}
    for heading, rest in _headings(text[:MOST_BYTES]):
        argument = _argument(heading, rest, is_click)
        if argument is not None:
            found.setdefault(argument.names, argument)
    return tuple(found.values())


def _headings(text: str) -> Iterator[tuple[str, str]]:
    """Each line that begins an argument, and the line after it."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        begun = _HEADING.match(line)
        if begun and _NAME.match(line, begun.end()):
            yield line[begun.end() :], lines[index + 1] if index + 1 < len(lines) else ""


def _argument(heading: str, after: str, is_click: bool) -> Argument | None:
    names: list[str] = []
    value, position = "", 0
    while (name := _NAME.match(heading, position)) is not None:
        names.append(name.group())
        position = name.end()
        if (said := _VALUE.match(heading, position)) is not None and not _MORE.match(heading, position):
            value, position = said.group(1).strip(), said.end()
        more = _MORE.match(heading, position)
        if more is None:
            break
        position = more.end()
    described = heading[position:] + after
    return Argument(tuple(names), _takes(value, is_click), _choices(value, is_click), _is_removed(described))


def _takes(value: str, is_click: bool) -> Takes:
    if not value:
        return "none"
    if value.endswith("...]") or (is_click and value.endswith("...")):
        return "many"
    return "optional" if value.startswith("[") and value.endswith("]") and not is_click else "one"


def _choices(value: str, is_click: bool) -> tuple[str, ...]:
    """The words that the parser itself holds a value against; others are only a hint."""
    found = _CHOICES.match(value.lstrip("[")) or (_CLICK_CHOICES.fullmatch(value) if is_click else None)
    if found is None:
        return ()
    return tuple(word.strip() for word in re.split(r"[,|]", found.group(1)) if word.strip())


def _is_removed(described: str) -> bool:
    return "the argument has been removed" in " ".join(described.split())
