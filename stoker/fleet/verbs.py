"""Every verb of Stoker by name, and what a playbook knows of each before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

from stoker.config.playbooktree import Argument, Module
from stoker.fleet import basics, life, measure
from stoker.fleet.flags import Flag, command_line, quote
from stoker.fleet.job import Verb

VERBS: Mapping[str, Verb] = MappingProxyType(
    {verb.name: verb for verb in (*life.VERBS, *measure.VERBS, *basics.VERBS)}
)

# Under --check these would load the server, wait for what was not started, write results, or do who knows
# what. The other verbs read only, or say themselves what they would do.
SKIPPED_IN_CHECK = frozenset(("bench", "fetch", "wait", "command", "shell"))

ONCE = frozenset(("pause",))
"""Modules that run once for all hosts of a play."""

_BASIC = frozenset(verb.name for verb in basics.VERBS)
_FREE = {"command": "cmd", "shell": "cmd", "debug": "msg"}
_NEEDS = {"command": (("cmd", "argv"),), "shell": (("cmd",),), "assert": (("that",),)}
_RUN_LATER = ("creates", "executable", "removes", "stdin_add_newline", "strip_empty_ends")
_RUN_PAIRS = ("chdir", "stdin", *_RUN_LATER)
_PAIRS = {"command": _RUN_PAIRS, "shell": _RUN_PAIRS, "debug": ("msg", "var", "verbosity")}
_LATER = {
    "command": (*_RUN_LATER, "expand_argument_vars"),
    "shell": _RUN_LATER,
    "assert": ("quiet",),
    "debug": ("verbosity",),
    "set_fact": ("cacheable",),
    "pause": ("echo", "prompt"),
    "kill": ("yes",),  # a book is reviewed: nobody is asked
    "logs": ("follow",),  # it would never end
}


@cache
def modules() -> Mapping[str, Module]:
    """What a playbook's tasks may do: every verb as a module."""
    return MappingProxyType({name: _module(verb) for name, verb in VERBS.items()})


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
    on = ",".join(hosts)
    if name in ("command", "shell"):
        return command_line("exec", on, basics.EXEC, basics.by_hand(name, args))
    if name in _BASIC:
        return ""
    if name == "compare":  # of the project, without hosts
        return " ".join(map(quote, ("inv", "compare", str(args["a"]), str(args["b"]))))
    return command_line(name, on, VERBS[name].flags, args)


def by_hand_hidden(name: str, hosts: Sequence[str]) -> str:
    """The same for a task with ``no_log``, without its arguments."""
    shown = "exec" if name in ("command", "shell") else name
    return command_line(shown, ",".join(hosts), (), {}) + " (arguments not shown: no_log)"


def _module(verb: Verb) -> Module:
    later = _LATER.get(verb.name, ())
    return Module(
        arguments={flag.name: _argument(flag) for flag in verb.flags if flag.name not in later},
        free=_FREE.get(verb.name, ""),
        needs=_NEEDS.get(verb.name, ()),
        later=later,
        pairs=_PAIRS.get(verb.name, ()),
        any_name=verb.name == "set_fact",
    )


def _argument(flag: Flag) -> Argument:
    """A flag as a playbook's argument."""
    if isinstance(flag, basics.Argument):
        exact, expressions = flag.holds == "words", flag.holds == "expressions"
        return Argument(flag.parse, exact=exact, expressions=expressions)
    return Argument(flag.parse, exact=flag.kind in ("text", "list"))
