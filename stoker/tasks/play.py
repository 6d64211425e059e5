"""The command that runs a playbook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE
from stoker.fleet.flags import Flag
from stoker.tasks.command import CHECK, FORKS, INVENTORY, JSON, command

if TYPE_CHECKING:
    from stoker.config.playbooktree import Play, Task
    from stoker.fleet.recap import Report
    from stoker.fleet.result import Result
    from stoker.fleet.stages import Options, Stage
    from stoker.screen import Board, Screen
    from stoker.tasks.run import Run

_SIGNS = {
    "ok": ("✓ ", "green"),
    "changed": ("✓ ", "yellow"),
    "failed": ("✗ ", "bold red"),
    "unreachable": ("✗ ", "bold red"),
    "skipped": ("- ", "dim"),
    "interrupted": ("✗ ", "bold yellow"),
}


@command(
    Flag("book", "A file, or a name in the playbooks' folder.", positional=True),
    INVENTORY,
    FORKS,
    JSON,
    CHECK,
    Flag("limit", "Restrict the plays' hosts to these patterns.", "list"),
    Flag("tags", "Only tasks with one of these tags.", "list"),
    Flag("skip_tags", "No task with one of these tags.", "list"),
    Flag("extra_var", "NAME=VALUE, a mapping {…}, or @FILE; beats every other variable.", "list"),
    Flag("list_tasks", "Show the tasks that would run; run nothing.", "flag"),
    Flag("list_hosts", "Show the hosts of each play; run nothing.", "flag"),
)
def play(run: Run) -> int:
    """Run a playbook; the book names the hosts, --limit restricts them."""
    from stoker.config import playbook
    from stoker.fleet import play as playing
    from stoker.fleet.stages import stages
    from stoker.fleet.verbs import modules

    project = run.project
    path = playbook.find(run.args["book"], run.settings.path("playbooks"), project.root)
    book = playbook.load(path, modules(), shown=project.shown(path))
    options = _options(run)
    chosen = stages(book, project, options)
    if run.args["list_tasks"] or run.args["list_hosts"]:
        return _list(run, chosen)
    names = [host.name for stage in chosen for host in stage.hosts]
    run.unlock_keys([host for stage in chosen for host in stage.hosts])
    with run.screen.board(names) as board:
        teller = Teller(run.screen, board)
        report = playing.run(book, chosen, project, options, run.connect, teller, run.stop)
    run.document.update(_document(report))
    run.tell_warnings()
    _recap(run.screen, report)
    return report.exit_code


def _options(run: Run) -> Options:
    """How the book is to run, as typed."""
    from stoker.config import extravars
    from stoker.fleet.stages import Options

    return Options(
        limit=tuple(run.args["limit"]),
        tags=_split(run.args["tags"]),
        skip_tags=_split(run.args["skip_tags"]),
        extra=extravars.parse(run.args["extra_var"], run.settings.root),
        check=run.check,
        forks=run.args["forks"] or run.settings.forks,
    )


def _split(texts: Sequence[str]) -> frozenset[str]:
    return frozenset(tag.strip() for text in texts for tag in text.split(",") if tag.strip())


def _list(run: Run, chosen: Sequence[Stage]) -> int:
    """Show hosts and tasks."""
    from stoker.config.playbooktree import flat

    plays = []
    for stage in chosen:
        hosts = [host.name for host in stage.hosts]
        told: dict[str, Any] = {"name": stage.play.name, "at": stage.play.place, "hosts": hosts}
        run.screen.say(("PLAY ", "bold"), stage.play.name, (f"  {stage.play.place}", "dim"))
        if run.args["list_hosts"]:
            for name in hosts:
                run.screen.say("  ", name)
        if run.args["list_tasks"]:
            told["tasks"] = [_task_data(task) for task in flat(stage.tasks)]
            for task in flat(stage.tasks):
                tags = f"  tags: {', '.join(sorted(task.tags))}" if task.tags else ""
                run.screen.say("  ", task.name, (f"  {task.module}  {task.place}{tags}", "dim"))
        plays.append(told)
    run.document["plays"] = plays
    return EXIT_DONE


def _task_data(task: Task) -> dict[str, Any]:
    return {"name": task.name, "module": task.module, "at": task.place, "tags": sorted(task.tags)}


class Teller:
    """Shows a book while it runs.

    Args:
        screen: The terminal.
        board: Live lines of the hosts.
    """

    def __init__(self, screen: Screen, board: Board) -> None:
        self._screen = screen
        self._board = board

    def play(self, play: Play, hosts: Sequence[str]) -> None:
        """A play begins."""
        count = f"{len(hosts)} hosts" if len(hosts) != 1 else hosts[0]
        self._screen.say(
            ("PLAY ", "bold"), (play.name, "bold"), (f"  {count if hosts else 'no hosts'}", "dim")
        )

    def begin(self, task: Task, title: str, commands: Sequence[str]) -> bool:
        """A task begins."""
        kind = "" if title == task.module else f" [{task.module}]"
        first = f"  {commands[0]}" if len(commands) == 1 else ""
        self._screen.say(("TASK ", "bold"), title, (kind, "dim"), (first, "cyan"))
        for line in commands if len(commands) > 1 else ():
            self._screen.say((f"  {line}", "cyan"))
        return True

    def again(self, host: str, task: Task, left: int, result: Result) -> None:
        """It is tried again."""
        self._board.line(host, (f"not yet, {left} tries left", "dim"))

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


def _what(result: Result) -> str:
    """A result in a few words."""
    if result.hidden:
        return "not shown: no_log"
    if result.error is None:
        return result.summary
    if result.ignored or result.label:
        return result.error.what  # told nowhere else
    return getattr(result.error, "kind", "")  # the recap tells it whole


def _recap(screen: Screen, report: Report) -> None:
    """The table at the end, and each host that is not fine with its reason and the next step."""
    from stoker.fleet.recap import COUNTED

    rows = []
    for host, part in report.parts.items():
        style = "green" if part.error is None else "bold red"
        rows.append(
            [
                (host, style),
                *((str(part.counts[name]), "" if part.counts[name] else "dim") for name in COUNTED),
            ]
        )
    screen.table(("RECAP", *(f"{name}>" for name in COUNTED)), rows)
    for part in report.parts.values():
        if part.error is not None:
            screen.error(part.error)
    if report.ended_at is not None:
        play = report.ended_at
        screen.say((f"none of the hosts of {play.name} ({play.place}) is left: the book ended there", "bold"))
    if report.interrupted:
        screen.say(("interrupted: what had begun on a host was ended, launched servers go on", "bold yellow"))


def _document(report: Report) -> dict[str, Any]:
    """The run as JSON types; nothing of a task with ``no_log`` but its status."""
    from stoker.tasks.run import error_data

    plays = []
    for play in report.plays:
        tasks = [
            {
                **_task_data(one.task),
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
    recap = {name: dict(part.recap) for name, part in report.parts.items()}
    return {"plays": plays, "recap": recap, "hosts": hosts}


def _result_data(result: Result) -> dict[str, Any]:
    data: dict[str, Any] = {
        "status": "ignored" if result.ignored else result.status,
        "seconds": round(result.seconds, 3),
    }
    if result.hidden:
        return data
    return {**data, "command": result.command, "result": result.data}


COMMANDS = (play,)
