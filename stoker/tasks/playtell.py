"""What a playbook's run shows: each step while it runs, and the recap."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError

if TYPE_CHECKING:
    from stoker.config.books.playbooktree import Play, Task
    from stoker.fleet.books.recap import Report
    from stoker.fleet.books.result import Result
    from stoker.screen import Board, Screen

_SIGNS = {
    "ok": ("✓ ", "green"),
    "changed": ("✓ ", "yellow"),
    "failed": ("✗ ", "bold red"),
    "unreachable": ("✗ ", "bold red"),
    "skipped": ("- ", "dim"),
    "interrupted": ("✗ ", "bold yellow"),
}


class Teller:
    """Shows a book while it runs.

    Args:
        screen: The terminal.
        board: Live lines of the hosts.
        asks: Ask before each task.

    Raises:
        InputError: Nobody is there to be asked.
    """

    def __init__(self, screen: Screen, board: Board, *, asks: bool = False) -> None:
        if asks and not sys.stdin.isatty():
            raise InputError("nobody is there to be asked", where="--step", next_step="run it in a terminal")
        self._screen = screen
        self._board = board
        self._asks = asks

    def play(self, play: Play, hosts: Sequence[str]) -> None:
        """A play begins, or its next batch of hosts."""
        count = f"{len(hosts)} hosts" if len(hosts) != 1 else hosts[0]
        self._screen.say(
            ("PLAY ", "bold"), (play.name, "bold"), (f"  {count if hosts else 'no hosts'}", "dim")
        )

    def begin(self, task: Task, title: str, commands: Sequence[str]) -> bool:
        """A task begins, or is left out where people say so."""
        kind = "" if title == task.module else f" [{task.module}]"
        first = f"  {commands[0]}" if len(commands) == 1 else ""
        self._screen.say(("TASK ", "bold"), title, (kind, "dim"), (first, "cyan"))
        for line in commands if len(commands) > 1 else ():
            self._screen.say((f"  {line}", "cyan"))
        return not self._asks or self._wanted()

    def _wanted(self) -> bool:
        """Ask: yes, no, or yes to all that follow."""
        while True:
            self._screen.aside("do it? [y]es, [n]o, [c]ontinue without asking: ", end="")
            answer = sys.stdin.readline()
            word = answer.strip().lower()[:1]
            if word == "c":
                self._asks = False
            if word in ("y", "c"):
                return True
            if word == "n" or not answer:
                return False

    def again(self, host: str, task: Task, left: int, result: Result) -> None:
        """It is tried again."""
        tries = "one try" if left == 1 else f"{left} tries"
        self._board.line(host, (f"not yet, {tries} left", "dim"))

    def round(self, host: str, task: Task, command: str) -> None:
        """A further round of a loop begins."""
        if command:
            self._board.line(host, (command, "cyan"))

    def event(self, host: str, event: dict[str, Any]) -> None:
        """A host tells how far it is."""
        self._board.event(host, event)

    def ended(self, host: str, task: Task, result: Result) -> None:
        """A task, or a round of its loop, has ended."""
        from stoker.screen import seconds

        for text, style in () if result.hidden else result.lines:
            self._board.line(host, (text, style))
        word = result.status + (", ignored" if result.ignored else "")
        if result.label and not result.hidden:
            word += f" (item={result.label})"
        what = _what(result)
        took = f"  ({seconds(result.seconds)})" if result.seconds >= 0.05 else ""
        self._board.line(host, _SIGNS[result.status], word, f": {what}" if what else "", (took, "dim"))
        self._board.rest(host)


def _what(result: Result) -> str:
    """A result in a few words."""
    if result.hidden:
        return "not shown: no_log"
    if result.error is None:
        return result.summary
    if result.ignored or result.label:
        return result.error.what  # told nowhere else
    return getattr(result.error, "kind", "")  # the recap tells it whole


def recap(screen: Screen, report: Report) -> None:
    """The table at the end, and each host that is not fine with its reason and the next step."""
    from stoker.fleet.books.recap import COUNTED

    rows = []
    for host, part in report.parts.items():
        style = {"ok": "green", "interrupted": "bold yellow"}.get(part.status, "bold red")
        rows.append(
            [
                (host, style),
                *((str(part.counts[name]), "" if part.counts[name] else "dim") for name in COUNTED),
            ]
        )
    screen.table(("RECAP", *(f"{name}>" for name in COUNTED)), rows)
    for host, part in report.parts.items():
        if part.error is not None:
            screen.error(part.error)
        if part.pending:
            screen.say((f"  {host}: handlers that did not run: {', '.join(part.pending)}", "bold yellow"))
    if report.ended_at is not None:
        play = report.ended_at
        told = f"too many hosts of {play.name} ({play.place}) are lost: the book ended there"
        if all(report.parts[name].error for name in report.plays[-1].hosts):
            told = f"none of the hosts of {play.name} ({play.place}) is left: the book ended there"
        screen.say((told, "bold"))
    if report.interrupted:
        left = ", ".join(host for host, part in report.parts.items() if part.goes_on)
        but = f" (of {left}: see above)" if left else ""
        told = f"interrupted: what had begun on a host was ended{but}, launched servers go on"
        screen.say((told, "bold yellow"))


def document(report: Report) -> dict[str, Any]:
    """The run as JSON types; nothing of a task with ``no_log`` but its status."""
    from stoker.tasks.outcomes import error_data

    plays = []
    for play in report.plays:
        tasks = [
            {
                **task_data(one.task),
                "name": one.title,
                "hosts": {host: _result_data(result) for host, result in one.results.items()},
            }
            for one in play.tasks
        ]
        plays.append(
            {"name": play.play.name, "at": play.play.place, "hosts": list(play.hosts), "tasks": tasks}
        )
    hosts: dict[str, Any] = {}
    for name, part in report.parts.items():
        hosts[name] = {"status": part.status}
        if part.error is not None:
            hosts[name]["error"] = error_data(part.error)
        if part.pending:
            hosts[name]["pending"] = list(part.pending)
    counts = {name: dict(part.recap) for name, part in report.parts.items()}
    return {"plays": plays, "recap": counts, "hosts": hosts}


def task_data(task: Task) -> dict[str, Any]:
    """A task as JSON types."""
    return {"name": task.name, "module": task.module, "at": task.place, "tags": sorted(task.tags)}


def _result_data(result: Result) -> dict[str, Any]:
    data: dict[str, Any] = {
        "status": "ignored" if result.ignored else result.status,
        "seconds": round(result.seconds, 3),
    }
    if result.hidden:
        return data
    return {**data, "command": result.command, "result": result.data}
