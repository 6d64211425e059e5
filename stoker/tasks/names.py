"""What every command is called, and how one is typed again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator

# Module of this package -> its commands, in the order of its COMMANDS.
SHELF = {
    "project": ("hosts", "ping", "render", "unlock", "init"),
    "execute": ("exec",),
    "lint": ("lint",),
    "trust": ("trust",),
    "transfer": ("put", "get"),
    "profiles": ("profiles",),
    "doctor": ("doctor",),
    "life": ("restart", "start", "wait", "stop", "kill"),
    "persist": ("persist",),
    "capture": ("capture",),
    "look": ("status", "logs"),
    "measure": ("bench", "bench-all", "fetch", "compare", "baseline", "explain"),
    "results": ("results", "show"),
    "experiments": ("bisect", "spec", "sweep"),
    "report": ("report",),
    "play": ("play",),
    "demo": ("demo",),
}
LAB = {"lab": ("up", "down", "status", "reboot")}
OWN = {"own": ("check", "test", "fuzz", "docs", "picture")}


def names() -> Iterator[str]:
    """Every command as it is typed."""
    for of_one in spelled():
        yield from of_one


def spelled() -> Iterator[set[str]]:
    """The commands of each collection as they are typed."""
    for shelf, prefix in ((SHELF, ""), (LAB, "lab."), (OWN, "dev.")):
        yield {prefix + name for names in shelf.values() for name in names}


def again(name: str, more: str) -> str:
    """The command as it was typed, with what it lacks; by its name alone where several were typed.

    Args:
        name: The command's.
        more: What it lacks: ``--host NAME``.
    """
    first, rest = sys.argv[1:2], sys.argv[2:]
    if first != [name] or set(rest) & set(names()):
        rest = []
    return " ".join(["inv", name, *map(shlex.quote, rest), more])
