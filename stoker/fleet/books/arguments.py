"""What only a book's modules take: expressions, words of a command, one of a few words, any value."""

from __future__ import annotations

import functools
import shlex
from dataclasses import dataclass
from typing import Any, Literal

from stoker.errors import InputError, nearest
from stoker.fleet.flags import Flag


@dataclass(frozen=True)
class Argument(Flag):
    """An argument that no command line has.

    Args:
        holds: ``value``: anything that YAML can say. ``expressions``: one or a list, written without braces;
            the module gets them as ``Evaluated``. ``words``: a command, split as a shell would. ``switch``:
            true or false. ``sealed``: a text that may come out of a vault.
    """

    holds: Literal["value", "expressions", "words", "switch", "sealed"] = "value"

    def parse(self, value: Any, where: str = "") -> Any:
        """The value as it is; words are tried.

        Raises:
            InputError: Words with an open quote, or none at all; neither true nor false.
        """
        if self.holds == "switch" and value is not None and not isinstance(value, bool):
            raise InputError(f"true or false is expected, here is {value!r:.60}", where=where)
        if self.holds == "words" and value is not None:
            split(str(value), where)
            return str(value)
        return super().parse(value, where) if self.holds == "sealed" else value


@dataclass(frozen=True)
class Place(Flag):
    """A path on the host, or a pattern of one."""

    def parse(self, value: Any, where: str = "") -> Any:
        """The path.

        Raises:
            InputError: A variable of the host's environment in it, which nobody would read; or no text.
        """
        found = super().parse(value, where)
        if isinstance(found, str) and "$" in found:
            what = f"the host's variables are not read in {self.name}: {found!r}"
            raise InputError(what, where=where, next_step="write the path out, or begin it with ~/")
        return found


@dataclass(frozen=True)
class Choice(Flag):
    """One of a few words.

    Args:
        words: Those.
    """

    words: tuple[str, ...] = ()

    def parse(self, value: Any, where: str = "") -> Any:
        """The word.

        Raises:
            InputError: Another one.
        """
        if value is not None and value not in self.words:
            raise InputError(
                f"{value!r} is not known", where=where, next_step=nearest(str(value), self.words)
            )
        return value


@dataclass(frozen=True)
class Evaluated:
    """An expression and what it gave.

    Args:
        expression: As written.
        value: Plain data; None where it could not be evaluated.
        error: Why it could not; empty where it could.
    """

    expression: str
    value: Any = None
    error: str = ""


@functools.lru_cache(maxsize=256)
def _words(text: str) -> tuple[str, ...]:
    """A command's words: every host of a task asks for those of the same command, more than once."""
    return tuple(shlex.split(text))


def split(text: str, where: str) -> list[str]:
    """A command in words.

    Raises:
        InputError: An open quote, or no word.
    """
    try:
        words = list(_words(text))
    except ValueError as error:
        raise InputError(f"{text!r} has an open quote or escape", where=where) from error
    if not words:
        raise InputError("there is no command", where=where)
    return words
