"""Host names as people write them: ranges, ports, and what a name may hold."""

from __future__ import annotations

import ipaddress
import itertools
import math
import re
import string
from collections.abc import Sequence

from stoker.errors import InputError

MAX_NAMES = 100_000
"""Names that one range may give; more is a slip of the pen."""

_RANGE = re.compile(r"\[([^\[\]]*)\]")
_BRACKETED_PORT = re.compile(r"\[([^\[\]]+)\]:([0-9]+)")
_PORT = re.compile(r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]+)")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_GROUPS_OF_ANSIBLE = ("all", "ungrouped")
_HOST = re.compile(r"[\w:][\w.:%+-]*")
GROUP = re.compile(r"[^\s,:\[\]*?/!&~@][^\s,:\[\]*?/]*")


def expand_host(text: str) -> tuple[tuple[str, ...], int | None]:
    """The names behind one entry of an inventory, and its port.

    Args:
        text: e.g. ``node174``, ``node[174:176]``, ``rack[a:c]-n[01:16:2]:2222``, ``::1``, ``[::1]:2222``.

    Returns:
        Names in order, at least one; the port where one is written.

    Raises:
        InputError: No name can be made of it; ``next_step`` holds the hint.
    """
    if _PLAIN.fullmatch(text) and text not in _GROUPS_OF_ANSIBLE:
        return (text,), None  # nearly all of an inventory's thousands
    text, port = _split_port(text)
    check_host(_RANGE.sub("1", text))
    return expand_ranges(text), port


def is_group_name(text: str) -> bool:
    """Whether patterns and files of variables can name such a group."""
    return GROUP.fullmatch(text) is not None


def is_ipv6(text: str) -> bool:
    """Whether a name is an IPv6 address; ranges in it count as digits."""
    try:
        return ipaddress.ip_address(_RANGE.sub("1", text)).version == 6
    except ValueError:
        return False


def is_address(text: str) -> bool:
    """Whether a name is an IP address."""
    if ":" not in text and not text.replace(".", "").isdigit():
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def has_range(text: str) -> bool:
    """Whether a text holds something in brackets that looks like a range, right or not."""
    return any(re.fullmatch(r"\w*:\w+(:\w*)?", body) for body in _RANGE.findall(text))


def expand_ranges(text: str) -> tuple[str, ...]:
    """Every name that a text with any number of ranges stands for, the last range varying fastest.

    Raises:
        InputError: A range that is none, runs backwards, or gives too many names.
    """
    pieces = _RANGE.split(text)  # literal, range, literal, range, …, literal
    if any(bracket in literal for literal in pieces[::2] for bracket in "[]"):
        raise InputError(f"the brackets in {text} do not pair", next_step="write a range as [1:3]")
    series = [_series(body, text) for body in pieces[1::2]]
    if math.prod(len(one) for one in series) > MAX_NAMES:
        raise InputError(f"{text} gives more than {MAX_NAMES} names", next_step="shorten the range")
    names = []
    for values in itertools.product(*series):
        between = itertools.zip_longest(pieces[::2], values, fillvalue="")
        names.append("".join(itertools.chain.from_iterable(between)))
    return tuple(names)


def _split_port(text: str) -> tuple[str, int | None]:
    if text.startswith("[") and text.endswith("]") and is_ipv6(text[1:-1]):
        return text[1:-1], None
    bracketed = _BRACKETED_PORT.fullmatch(text)
    if bracketed and (is_ipv6(bracketed[1]) or ":" not in bracketed[1]):
        name, digits = bracketed.groups()
    elif (match := _PORT.fullmatch(text)) and match[1]:
        name, digits = match.groups()
    else:
        return text, None
    if len(digits) > 5 or not 1 <= int(digits) <= 65535:
        raise InputError(f"{digits} in {text} is no port", next_step="ports are 1 to 65535")
    return name, int(digits)


def check_host(name: str) -> None:
    """Refuse what cannot be the name of one host.

    Raises:
        InputError: With the reason, and in ``next_step`` the mend.
    """
    if name in _GROUPS_OF_ANSIBLE:
        raise InputError(f"a host cannot be called {name}", next_step=f"{name} is a group of Ansible's own")
    if any(character.isspace() for character in name):
        first = name.split()[0] if name.split() else ""
        hint = f"is a ':' missing after {first}?" if first else ""
        raise InputError(f"the host name {name!r} holds a space", next_step=hint)
    if "@" in name:
        user, _, rest = name.rpartition("@")
        raise InputError(
            f"the host name {name} holds a user",
            next_step=f"write {rest} and its variable ansible_user: {user}",
        )
    if not _HOST.fullmatch(name):
        raise InputError(f"{name!r} is no host name", next_step="letters, digits, dots, dashes, underscores")
    if ":" in name and not is_ipv6(name):
        raise InputError(
            f"{name} is no host name", next_step="after a colon stands a port, as in node174:2222"
        )


def _series(body: str, text: str) -> Sequence[str]:
    """What one range stands for.

    Args:
        body: Between the brackets: ``begin:end`` or ``begin:end:step``, both inclusive.
        text: The whole entry, for messages.
    """
    parts = body.split(":")
    if len(parts) not in (2, 3):
        dashed = re.fullmatch(r"(\w+)-(\w+)", body)
        right = f"[{dashed[1]}:{dashed[2]}]" if dashed else "[1:3] or [1:9:2]"
        raise InputError(f"[{body}] in {text} is no range", next_step=f"write {right}")
    begin, end, step = parts[0] or "0", parts[1], _step(parts[2] if len(parts) == 3 else "1", text)
    letters = string.ascii_letters
    if len(begin) == len(end) == 1 and begin in letters and end in letters:
        chosen = letters[letters.index(begin) : letters.index(end) + 1 : step]
        _refuse_backwards(chosen, body, text)
        return chosen
    if not (begin.isascii() and begin.isdigit() and end.isascii() and end.isdigit()):
        raise InputError(
            f"[{body}] in {text} is no range", next_step="two numbers or two letters, as in [1:3], [a:c]"
        )
    width = len(begin) if begin[0] == "0" and len(begin) > 1 else 0
    if width and len(end) != width:
        hint = f"write {begin}:{end.zfill(width)}" if len(end) < width else "give both ends the same length"
        raise InputError(f"the ends of [{body}] in {text} differ in length", next_step=hint)
    if max(len(begin), len(end)) > 9:
        raise InputError(f"[{body}] in {text} is too large", next_step="shorten the range")
    numbers = range(int(begin), int(end) + 1, step)
    _refuse_backwards(numbers, body, text)
    if len(numbers) > MAX_NAMES:
        raise InputError(f"{text} gives more than {MAX_NAMES} names", next_step="shorten the range")
    return [str(number).zfill(width) for number in numbers]


def _step(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or not 0 < len(digits) < 10 or int(digits) == 0:
        raise InputError(f"{digits!r} in {text} is no step", next_step="a whole number from 1, as in [1:9:2]")
    return int(digits)


def _refuse_backwards(series: Sequence[object], body: str, text: str) -> None:
    if not series:
        begin, end, *step = body.split(":")
        right = ":".join([end, begin, *step])
        raise InputError(f"[{body}] in {text} runs backwards", next_step=f"write [{right}]")
