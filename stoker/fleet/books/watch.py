"""What is told while a playbook runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from stoker.config.books.playbooktree import Play, Task
from stoker.fleet.books import step


class Watch(step.Listener, Protocol):
    """Told what happens while a book runs."""

    def play(self, play: Play, hosts: Sequence[str]) -> None:
        """A play begins, or its next batch of hosts."""

    def begin(self, task: Task, title: str, commands: Sequence[str]) -> bool:
        """A task is to begin; with the ``inv`` commands that do the same. False: it is left out."""

    def event(self, host: str, event: dict[str, Any]) -> None:
        """A host tells how far it is; from any thread."""
