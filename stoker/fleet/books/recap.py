"""What came of a playbook: by host, and by play and task."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from stoker.config.books.playbooktree import Play, Task
from stoker.errors import EXIT_DONE, EXIT_INTERRUPTED, HostUnreachable, StokerError, exit_code_of
from stoker.fleet.books.result import Result
from stoker.fleet.session import Session

COUNTED = ("ok", "changed", "failed", "unreachable", "skipped", "rescued", "ignored")
"""The recap's columns, with Ansible's meaning: ``ok`` counts changed and ignored tasks too."""


@dataclass
class Part:
    """One host's part in a book.

    Args:
        session: Its connection, for the whole book.
        facts: What was registered and set.
        counts: The recap.
        error: Why it left the book.
        trouble: Its latest failure, which a rescue may deal with.
        delegates: Connections to hosts that do something in its place, by name.
        pending: Handlers that were asked for there and have not run.
        interrupted: Ctrl-C cut a task short there, or came before the book was through with it.
        goes_on: Something goes on there without us, or may; it was told with the task.
        code: What the latest verdict asks for.
        silent: A task with ``no_log`` runs: nothing of what the host tells is passed on.
    """

    session: Session
    facts: dict[str, Any] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    error: StokerError | None = None
    trouble: StokerError | None = None
    delegates: dict[str, Session] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    interrupted: bool = False
    goes_on: bool = False
    code: int = EXIT_DONE
    silent: bool = False

    @property
    def status(self) -> str:
        """``ok``, ``failed``, ``unreachable`` or ``interrupted``."""
        if self.error is None:
            return "interrupted" if self.interrupted else "ok"
        return "unreachable" if isinstance(self.error, HostUnreachable) else "failed"

    @property
    def recap(self) -> dict[str, int]:
        """Every count of the recap."""
        return {name: self.counts[name] for name in COUNTED}


@dataclass(frozen=True)
class TaskReport:
    """What came of a task, by host."""

    task: Task
    title: str
    results: dict[str, Result]


@dataclass(frozen=True)
class PlayReport:
    """What came of a play."""

    play: Play
    hosts: tuple[str, ...]
    tasks: list[TaskReport] = field(default_factory=list)


@dataclass
class Report:
    """What came of a book.

    Args:
        plays: Those that began.
        parts: Every host that took part.
        ended_at: The play that no host survived, after which the book ended; None where it went through.
        interrupted: Ctrl-C ended it.
    """

    plays: list[PlayReport] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    ended_at: Play | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        """By the worst of the hosts; a regression counts where it is a host's latest verdict."""
        codes = [part.error.exit_code if part.error else part.code for part in self.parts.values()]
        return exit_code_of([*codes, EXIT_INTERRUPTED] if self.interrupted else codes)
