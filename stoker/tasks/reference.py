"""The reference of the commands, made out of the commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

from stoker.fleet.flags import Flag
from stoker.tasks import lab, life, measure, play, project
from stoker.tasks.command import CHANGING, READING, Command

_HEAD = """\
# Commands

Made from the code by `inv dev.docs`. `inv NAME` in a project and `stoker NAME` are the same program.

Exit codes: 0 done; 1 a fault in Stoker itself (and Invoke's own usage errors); 2 the input is wrong and
nothing was touched; 3 a host failed; 4 a host was unreachable and none failed; 5 a regression was found; 130
interrupted once a command had begun. Several at once: 3 before 4 before 5.
"""


def commands() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD, "## Flags that commands share\n\n" + _table(CHANGING)]
    parts.append("Reading commands have the first four; commands that change hosts have them all.\n")
    parts += _section("The project and its hosts", project.COMMANDS)
    parts += _section("The life of a server", life.COMMANDS)
    parts += _section("Measure, judge, explain", measure.COMMANDS)
    parts += _section("Runbooks", play.COMMANDS)
    parts += _section("The lab", (lab.demo,))
    parts += _section("", lab.COMMANDS, prefix="lab.")
    return "\n".join(parts).rstrip() + "\n"


def _section(title: str, tasks: Iterable[Command], *, prefix: str = "") -> Iterator[str]:
    if title:
        yield f"## {title}\n"
    for task in tasks:
        flags = task.flags
        changes, reads = set(CHANGING) <= set(flags), set(READING) <= set(flags)
        shared = CHANGING if changes else READING if reads else ()
        note = " *(changes hosts)*" if changes else ""
        own = [flag for flag in flags if flag not in shared]
        words = "".join(f" {flag.name.upper()}" for flag in own if flag.name in task.positional)
        yield f"### `inv {prefix}{task.name}{words}`{note}\n"
        yield inspect.getdoc(task.body) or ""
        rest = [flag for flag in own if flag.name not in task.positional]
        yield "\n" + _table(rest) if rest else ""


def _table(flags: Iterable[Flag]) -> str:
    """Flags with what they take and what they mean."""
    takes = {"text": "TEXT", "list": "TEXT, repeatable", "flag": "", "whole": "NUMBER", "number": "NUMBER"}
    rows = [f"| `{f.spelled}` | {takes[f.kind]} | {f.help.replace('|', chr(92) + '|')} |" for f in flags]
    return "\n".join(["| flag | takes | |", "|---|---|---|", *rows]) + "\n"
