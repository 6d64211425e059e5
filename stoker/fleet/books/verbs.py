"""Every verb of Stoker by name, and what a playbook knows of each before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

from stoker.config.books.playbooktree import Argument, Module
from stoker.fleet import capture, doctor, fetch, judge, life, look, measure, persist
from stoker.fleet.books import arguments, basics, shell
from stoker.fleet.experiments import bisect, spec, sweep, verify
from stoker.fleet.flags import Flag
from stoker.fleet.job import Book, Verb

_ROOMS = (life, persist, look, doctor, measure, fetch, judge, shell, basics)
VERBS: Mapping[str, Verb] = MappingProxyType({verb.name: verb for room in _ROOMS for verb in room.VERBS})
IN_BOOKS: Mapping[str, Verb] = MappingProxyType(
    {
        **VERBS,
        "bisect": bisect.BISECT,
        "capture": replace(capture.CAPTURE, book=Book(needs=(("name",),))),
        "explain": verify.EXPLAIN,
        "spec": spec.SPEC,
        "sweep": sweep.SWEEP,
    }
)
"""The modules of playbooks."""


@cache
def modules() -> Mapping[str, Module]:
    """What a playbook's tasks may do: every verb as a module."""
    return MappingProxyType({name: _module(verb) for name, verb in IN_BOOKS.items()})


def by_hand(name: str, hosts: Sequence[str], args: Mapping[str, Any]) -> str:
    """The ``inv`` command that does on these hosts what a module does.

    Args:
        name: The module's name.
        hosts: Names of hosts.
        args: Its typed arguments.

    Returns:
        Empty for modules that only the book itself needs (debug, assert, …).

    Raises:
        InputError: A command that cannot be split into words.
    """
    typed = IN_BOOKS[name].typed
    return typed.line(hosts, args) if typed.name else ""


def by_hand_hidden(name: str, hosts: Sequence[str]) -> str:
    """The same for a task with ``no_log``, without its arguments."""
    return IN_BOOKS[name].typed.hidden(hosts)


def _module(verb: Verb) -> Module:
    book = verb.book
    return Module(
        arguments={flag.name: _argument(flag) for flag in verb.flags if flag.in_book},
        free=book.free,
        needs=book.needs,
        later=(*book.later, *(flag.name for flag in verb.flags if not flag.in_book)),
        pairs=book.pairs,
        any_name=book.any_name,
        elsewhere=book.elsewhere,
        fixed=book.fixed,
    )


def _argument(flag: Flag) -> Argument:
    """A flag as a playbook's argument."""
    if isinstance(flag, arguments.Argument):
        exact, expressions = flag.holds in ("words", "sealed"), flag.holds == "expressions"
        return Argument(flag.parse, exact, expressions, vaults=flag.holds == "sealed")
    return Argument(flag.parse, exact=flag.kind in ("text", "list", "name", "regex"))
