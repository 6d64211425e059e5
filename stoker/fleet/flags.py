"""A flag of a command is an argument of the playbook module of the same name: one definition serves both."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from stoker.config import names
from stoker.config.settings import number, whole
from stoker.errors import InputError, nearest

Kind = Literal["text", "list", "flag", "whole", "number", "regex", "since", "name"]


# Commands of the results that are here: they name hosts, and take no inventory.
_OF_RESULTS = ("results", "report", "show", "compare")


def at_inventory(text: str, inventory: str) -> str:
    """A text whose ``inv`` commands name the inventory too: without it they would mean other hosts.

    Args:
        text: For people; commands in it that name hosts get ``--inventory``.
        inventory: As typed; empty for the project's own.
    """
    if not inventory or "inv " not in text:
        return text
    said = f" --inventory {quote(inventory)}"

    def named(found: re.Match[str]) -> str:
        own = found[1] in _OF_RESULTS or "--inventory" in found[2]
        return found[0] if own else f"inv {found[1]}{said}{found[2]}"

    return re.sub(r"\binv ([a-z][a-z-]*)((?: [^;&|\n]*?)? --(?:host|limit) [^;&|\n]*)", named, text)


@dataclass(frozen=True)
class Flag:
    """One named argument.

    Args:
        name: Python name; on a command line ``--`` and dashes for underscores.
        help: One line for ``inv --help``.
        kind: ``text``; ``list`` (may be given several times); ``flag`` (no value); ``whole`` number from
            ``least`` to ``most``; ``number`` above 0; ``regex``, checked; ``since``, an age or a moment,
            checked; ``name``, which becomes part of a path on the host, checked.
        least: Smallest whole number.
        most: Largest whole number; None for any.
        word_for_zero: A word that a whole number may be in place of 0.
        positional: On a command line typed without its name, and demanded.
        in_book: Whether a playbook may give it.
        alone: What the flag stands for without a value; None: it needs one.
        check: Of a text: raises InputError where it cannot be used; gets the text and where it stands.
    """

    name: str
    help: str
    kind: Kind = "text"
    least: int = 0
    most: int | None = None
    word_for_zero: str = ""
    positional: bool = False
    in_book: bool = True
    alone: float | None = None
    check: Callable[[str, str], None] | None = field(default=None, compare=False)

    @property
    def spelled(self) -> str:
        """As typed: ``--max-loss``."""
        return "--" + self.name.replace("_", "-")

    @property
    def default(self) -> Any:
        """What an absent flag is: ``[]``, ``False`` or ``None``."""
        return [] if self.kind == "list" else False if self.kind == "flag" else None

    def parse(self, value: Any, where: str = "") -> Any:
        """The typed value.

        Args:
            value: What was written: text from a command line, any YAML value from a playbook.
            where: For the message; the flag's spelling when empty.

        Raises:
            InputError: It does not fit the kind.
        """
        where = where or self.spelled
        if value is None:
            return self.default
        if value is True and self.alone is not None:
            return self.alone
        if self.kind == "whole":
            return whole(value, where, least=self.least, most=self.most, word_for_zero=self.word_for_zero)
        if self.kind == "number":
            return number(value, where)
        if self.kind == "flag":
            return _truth(value, where)
        if self.kind == "list":
            return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]
        if isinstance(value, list | tuple | dict):
            raise InputError(f"one value is expected, not {type(value).__name__}", where=where)
        if str(value) == "":  # an unset variable of a script must not mean "everything"
            raise InputError("is empty", where=where, next_step="name one, or leave it out")
        if self.kind == "name" and not names.is_name(str(value)):
            raise InputError(f"{str(value)!r} is no name", where=where, next_step=names.HINT)
        if self.check is not None:
            self.check(str(value), where)
        if self.kind == "regex":
            _check_regex(str(value), where)
        elif self.kind == "since":
            moment(str(value), where)
        return str(value)


def moment(text: str, where: str) -> datetime | float:
    """An age or a moment in the past.

    Args:
        text: ``90s``, ``10m``, ``2h``, ``1d``, or an ISO time; one without a zone is of this machine's.
        where: For the message.

    Returns:
        Seconds, or the moment with its zone.

    Raises:
        InputError: Neither.
    """
    age = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhd])", text.strip(), re.ASCII)
    if age is not None:
        return float(age.group(1)) * _UNITS_S[age.group(2)]
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        hint = "write 90s, 10m, 2h, 1d, or a time such as 2026-01-31T08:00"
        raise InputError(f"{text!r} is neither an age nor a time", where=where, next_step=hint) from error


_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _check_regex(text: str, where: str) -> None:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(f"no regular expression: {error}", where=where) from error


def _truth(value: Any, where: str) -> bool:
    """A flag's value, as YAML or as text."""
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("true", "yes", "on", "1"):
        return True
    if text in ("false", "no", "off", "0"):
        return False
    raise InputError(f"{value!r} is neither true nor false", where=where)


def parse_all(flags: Sequence[Flag], given: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Type every argument; absent ones get their defaults.

    Args:
        flags: What is known.
        given: Name (with underscores or dashes) to what was written.
        where: Prefix of the message's place, e.g. ``playbooks/x.yml:7``.

    Raises:
        InputError: An unknown name or a value that does not fit.
    """
    known = {flag.name: flag for flag in flags}
    typed = {flag.name: flag.default for flag in flags}
    for written, value in given.items():
        name = written.replace("-", "_")
        if name not in known:
            raise InputError(f"unknown argument {written!r}", where=where, next_step=nearest(written, known))
        flag = known[name]
        typed[name] = flag.parse(value, f"{where}: {written}" if where else "")
    return typed


def command_line(verb: str, host: str, flags: Sequence[Flag], args: Mapping[str, Any]) -> str:
    """The ``inv`` command that does the same by hand.

    Args:
        verb: Command name.
        host: Host to name; empty for commands without hosts.
        flags: Known flags, in order.
        args: Typed values; defaults are left out.
    """
    words = ["inv", verb] + (["--host", host] if host else [])
    for flag in flags:
        value = args.get(flag.name, flag.default)
        if value == flag.default:
            continue
        if flag.positional:
            words.append(str(value))
        elif flag.kind == "flag":
            words.append(flag.spelled)
        else:
            for item in value if flag.kind == "list" else [value]:
                words += [flag.spelled, str(item)]
    return " ".join(quote(word) for word in words)


@functools.lru_cache(maxsize=4096)  # each host of a task asks for the same words
def quote(word: str) -> str:
    """One word as a shell reads it back, on one line and without control characters.

    A newline inside single quotes is right for a shell and wrong on a screen, so such words become ``$'…'``.
    """
    if re.fullmatch(r"[\w@%+=:,./-]+", word, re.ASCII):
        return word
    if word.isprintable():
        return "'" + word.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_ansi_c, word)) + "'"


def _ansi_c(char: str) -> str:
    """One character inside ``$'…'``."""
    if char in "\\'":
        return "\\" + char
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
