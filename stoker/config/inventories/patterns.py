"""Ansible's host patterns: which hosts a ``--host`` value means.

A comma anywhere means that commas separate the terms, else colons do. All terms of all values together are
one choice: unions first, then every ``&``, then every ``!``, whatever the written order; only ``&`` and ``!``
imply ``all``. A term is a host's name, a group's, a glob, ``~regex`` (matched from the start), any of these
but a regex with ``[0]``, ``[-1]``, ``[0:1]``, ``[1:]`` (indices, inclusive), a range of names where no group
is called so, or ``@file`` with a term a line.

Unlike in Ansible a term that names nothing is an error, as is a choice that leaves no host.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.config.inventories import names as names
from stoker.errors import InputError, nearest

MAX_LIST_BYTES = 4 * 1024 * 1024

_SUBSCRIPT = re.compile(r"(.+)\[(?:(-?[0-9]+)|([0-9]+):([0-9]*))\]")
_DASHED = re.compile(r"(.+)\[([0-9]+)-([0-9]*)\]")
_SHOWN_TERMS = 5


def select(
    values: Sequence[str], hosts: Mapping[str, object], members: Mapping[str, Sequence[str]], *, root: Path
) -> tuple[str, ...]:
    """The names of the hosts that patterns mean.

    Args:
        values: Patterns, e.g. the values of ``--host``.
        hosts: Every host by name, in inventory order.
        members: Every group's hosts, those of its child groups included, by the group's name; with ``all``.
        root: Where the path behind ``@`` starts.

    Returns:
        At least one name, each once, in the order in which the terms mention them.

    Raises:
        InputError: A term that matches nothing, a broken pattern, or no host left.
    """
    terms = [term for value in values for term in _terms(value, root)]
    if not terms:
        raise InputError(
            "no host is named", where=", ".join(values), next_step="name a host, a group, or all"
        )
    matcher = _Matcher(hosts, members)
    wanted = [term for term in terms if term[0] not in "&!"] or ["all"]
    chosen = dict.fromkeys(name for term in wanted for name in matcher.union(term))
    kept = [set(matcher.match(term[1:].strip())) for term in terms if term[0] == "&"]
    dropped = {name for term in terms if term[0] == "!" for name in matcher.match(term[1:].strip())}
    matcher.complain()
    result = tuple(name for name in chosen if name not in dropped and all(name in one for one in kept))
    if not result:
        why = "the inventory has no hosts" if not hosts else "no host is left"
        raise InputError(f"{', '.join(values)}: {why}", next_step="`inv hosts` lists what there is")
    return result


def split(text: str) -> tuple[str, ...]:
    """The terms of one pattern, without blanks around them."""
    if "," in text:
        parts: Iterable[str] = text.split(",")
    elif names.is_ipv6(text) or re.fullmatch(r"[\w.-]+:[0-9]+", text):
        parts = [text]
    else:
        parts = _split_outside_brackets(text)
    return tuple(part.strip() for part in parts if part.strip())


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth == 0 and (character == ":" or character.isspace()):
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _terms(value: str, root: Path) -> list[str]:
    """The terms of one value, those of list files in place of ``@file``."""
    terms = []
    for term in split(value):
        if term.startswith("@"):
            terms.extend(_listed(root / term[1:], term))
        elif term in ("!", "&"):
            raise InputError(f"{term} names no host", where=value)
        else:
            terms.append(term)
    return terms


def _listed(path: Path, term: str) -> list[str]:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_LIST_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "is not UTF-8 text"
        raise InputError(f"the list of hosts cannot be read: {why}", where=term) from error
    if len(raw) > MAX_LIST_BYTES:
        raise InputError(f"the list of hosts is larger than {MAX_LIST_BYTES // 2**20} MiB", where=term)
    lines = (line.strip() for line in text.splitlines())
    terms = [part for line in lines if line and line[0] != "#" for part in split(line)]
    if not terms:
        raise InputError("the list of hosts is empty", where=term)
    nested = next((part for part in terms if part.startswith("@")), None)
    if nested is not None:
        raise InputError(f"a list of hosts cannot name another ({nested})", where=term)
    return terms


@dataclass
class _Matcher:
    """Matches single terms and gathers those that match nothing."""

    hosts: Mapping[str, object]
    members: Mapping[str, Sequence[str]]
    unmatched: list[str] = field(default_factory=list)

    def union(self, term: str) -> Sequence[str]:
        """What a term without ``&`` and ``!`` adds: a host of exactly this name comes first."""
        return [term] if term in self.hosts else self.match(term)

    def match(self, term: str) -> Sequence[str]:
        """The hosts of one term; a name that several matching groups hold stands there several times."""
        if term.startswith("~"):
            return self._found(self._regex(term), term)
        base, subscript = _subscript(term)
        # [a:c] is a range, though to a glob it would be a class of three characters.
        found = None if names.has_range(base) else self._named(base)
        if found is None and names.has_range(term):
            return self._ranged(term)
        return _pick(self._found(found, term), subscript, term)

    def complain(self) -> None:
        """Raise for the terms that matched nothing."""
        if not self.unmatched:
            return
        shown = [repr(term) for term in self.unmatched[:_SHOWN_TERMS]]
        more = len(self.unmatched) - len(shown)
        what = "no host or group matches " + ", ".join(shown) + (f" and {more} more" if more else "")
        hints = dict.fromkeys(self._hint(term) for term in self.unmatched[:_SHOWN_TERMS])
        raise InputError(what, next_step="; ".join(hint for hint in hints if hint))

    def _ranged(self, term: str) -> Sequence[str]:
        """The hosts of a range of names, each of which must match."""
        each = {name: self._named(name) for name in names.expand_ranges(term)}
        if all(found is None for found in each.values()):
            return self._found(None, term)
        return [host for name, found in each.items() for host in self._found(found, name)]

    def _hint(self, term: str) -> str:
        if "," not in term and (match := re.fullmatch(r"(.+):[0-9]+", term)) and match[1] in self.hosts:
            return f"{match[1]} is there; its port belongs into the inventory, as ansible_port"
        plain = names.expand_ranges(term)[0] if names.has_range(term) else _subscript(term)[0]
        return nearest(plain, (*self.hosts, *self.members))

    def _found(self, found: Sequence[str] | None, term: str) -> Sequence[str]:
        if found is None:
            self.unmatched.append(term)
        return found or ()

    def _named(self, pattern: str) -> Sequence[str] | None:
        """The hosts of a name or glob; None where it names nothing."""
        if any(special in pattern for special in "*?["):
            return self._search(re.compile(fnmatch.translate(pattern)))
        group = self.members.get(pattern)
        if group is not None and "." not in pattern:  # with a dot, Ansible looks among the hosts as well
            return group
        host = [pattern] if pattern in self.hosts else []
        return [*(group or ()), *host] if group is not None or host else None

    def _regex(self, term: str) -> Sequence[str] | None:
        try:
            return self._search(re.compile(term[1:]))
        except re.error as error:
            hint = "commas, or else colons, separate terms, in a regular expression too"
            raise InputError(f"{term} is no regular expression: {error}", next_step=hint) from error

    def _search(self, pattern: re.Pattern[str]) -> Sequence[str] | None:
        groups = [members for name, members in self.members.items() if pattern.match(name)]
        found = [host for group in groups for host in group]
        found += [host for host in self.hosts if pattern.match(host)]
        return found if groups or found else None


def _subscript(term: str) -> tuple[str, slice | int | None]:
    if match := _DASHED.fullmatch(term):
        base, begin, end = match.groups()
        raise InputError(f"{term} is no pattern", next_step=f"indices are written {base}[{begin}:{end}]")
    match = _SUBSCRIPT.fullmatch(term)
    if match is None:
        return term, None
    base, index, begin, end = match.groups()
    if index is not None:
        return base, int(index)
    return base, slice(int(begin), int(end) + 1 if end else None)


def _pick(found: Sequence[str], subscript: slice | int | None, term: str) -> Sequence[str]:
    if subscript is None or not found:
        return found
    if isinstance(subscript, int):
        if not -len(found) <= subscript < len(found):
            raise InputError(
                f"{term} is out of range", next_step=f"there are {len(found)}: [0] to [{len(found) - 1}]"
            )
        return [found[subscript]]
    if subscript.stop is not None and subscript.stop <= subscript.start:
        raise InputError(f"{term} runs backwards", next_step="write the smaller index first")
    return found[subscript]
