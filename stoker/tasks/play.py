"""The command that runs a playbook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE
from stoker.fleet.flags import Flag
from stoker.tasks.command import CHECK, FORKS, INVENTORY, JSON, command
from stoker.tasks.playtell import Teller, document, recap, task_data

if TYPE_CHECKING:
    from stoker.config.books.playbooktree import Playbook
    from stoker.fleet.books.playlog import Journal
    from stoker.fleet.books.stages import Options, Stage
    from stoker.tasks.run import Run


@command(
    Flag("book", "A file, or a name in the playbooks' folder.", positional=True),
    INVENTORY,
    FORKS,
    JSON,
    CHECK,
    Flag("diff", "Show what changes in the launch scripts.", "flag"),
    Flag("limit", "Restrict the plays' hosts to these patterns.", "list"),
    Flag("tags", "Only tasks with one of these tags.", "list"),
    Flag("skip_tags", "No task with one of these tags.", "list"),
    Flag("start_at", "Begin at the task of this name (* and ? allowed)."),
    Flag("step", "Ask before each task.", "flag"),
    Flag("extra_var", "NAME=VALUE, a mapping {…}, or @FILE; beats every other variable.", "list"),
    Flag("resume", "Go on with the last run: each host at its first unfinished step.", "flag"),
    Flag("list_tasks", "Show the tasks that would run; run nothing.", "flag"),
    Flag("list_hosts", "Show the hosts of each play; run nothing.", "flag"),
    Flag("syntax_check", "Find every mistake that needs no host; run nothing.", "flag"),
    Flag("runbook", "Print the book as a page of markdown with its commands; run nothing.", "flag"),
)
def play(run: Run) -> int:
    """Run a playbook; the book names the hosts, --limit restricts them."""
    from stoker.config.books import playbook
    from stoker.fleet.books import play as playing
    from stoker.fleet.books.stages import stages
    from stoker.fleet.books.verbs import modules

    project = run.project
    path = playbook.find(run.args["book"], run.settings.path("playbooks"), project.root)
    book = playbook.load(path, modules(), shown=project.shown(path), open_vault=project.open_vault)
    options = _options(run)
    chosen = stages(book, project, options)
    if _only_shown(run):
        return _show(run, book, chosen, options)
    names = [host.name for stage in chosen for host in stage.hosts]
    run.unlock_keys([host for stage in chosen for host in stage.hosts])
    with run.screen.board(names) as board:
        teller = Teller(run.screen, board, asks=run.args["step"])
        playing.check(book, chosen, project, options)
        journal = _journal(run, book, options)
        report = playing.run(book, chosen, project, options, run.connect, teller, run.stop, journal)
    run.document.update(document(report))
    run.tell_warnings()
    recap(run.screen, report)
    return report.exit_code


def _only_shown(run: Run) -> bool:
    """Whether nothing is to be run."""
    return any(run.args[name] for name in ("list_tasks", "list_hosts", "syntax_check", "runbook"))


def _options(run: Run) -> Options:
    """How the book is to run, as typed."""
    from stoker.config import extravars
    from stoker.fleet.books.stages import Options

    return Options(
        limit=tuple(run.args["limit"]),
        tags=_tags(run, "tags"),
        skip_tags=_tags(run, "skip_tags"),
        extra=extravars.parse(run.args["extra_var"], run.settings.root, open_vault=run.project.open_vault),
        check=run.check,
        forks=run.args["forks"] or run.settings.forks,
        diff=run.args["diff"],
        start_at=run.args["start_at"] or "",
    )


def _tags(run: Run, name: str) -> frozenset[str]:
    """Tags, as typed.

    Raises:
        InputError: The flag names none: an empty variable of a script must not mean all.
    """
    from stoker.errors import InputError

    tags = frozenset(tag.strip() for text in run.args[name] for tag in text.split(",") if tag.strip())
    if run.args[name] and not tags:
        flag = "--" + name.replace("_", "-")
        raise InputError("no tag is named", where=flag, next_step="name one, or leave it out")
    return tags


def _journal(run: Run, book: Playbook, options: Options) -> Journal | None:
    """Where the run is written down; under ``--check`` nowhere.

    Raises:
        InputError: There is no run to resume.
    """
    from stoker.errors import InputError
    from stoker.fleet.books import playlog

    if run.check:
        if run.args["resume"]:
            raise InputError("--check begins anew", where="--resume", next_step="leave one of them out")
        return None
    path, about = playlog.path_of(run.project.root, book.path), playlog.about(options)
    before = playlog.read(path, about) if run.args["resume"] else ()
    return playlog.Journal(path, about, before, book.shown)


def _show(run: Run, book: Playbook, chosen: Sequence[Stage], options: Options) -> int:
    """What needs no host."""
    from stoker.config.books.playbooktree import flat
    from stoker.fleet.books import play as playing
    from stoker.fleet.books import runbook
    from stoker.fleet.shown import counts

    if run.args["runbook"]:
        run.document["page"] = runbook.page(book, chosen, run.project, options)
        run.screen.text(run.document["page"])
        return EXIT_DONE
    if run.args["syntax_check"]:
        playing.check(book, chosen, run.project, options)
        tasks = sum(not task.implied for stage in chosen for task in flat(stage.tasks))
        told = f"{counts(len(chosen), 'play', 'plays')}, {counts(tasks, 'task', 'tasks')}"
        run.screen.say(("✓ ", "green"), f"{book.shown}: {told}, no mistake")
    if run.args["list_tasks"] or run.args["list_hosts"]:
        _list(run, chosen)
    return EXIT_DONE


def _list(run: Run, chosen: Sequence[Stage]) -> None:
    """Show hosts and tasks."""
    from stoker.config.books.playbooktree import flat

    plays = []
    for stage in chosen:
        hosts = [host.name for host in stage.hosts]
        told: dict[str, Any] = {"name": stage.play.name, "at": stage.play.place, "hosts": hosts}
        run.screen.say(("PLAY ", "bold"), stage.play.name, (f"  {stage.play.place}", "dim"))
        if run.args["list_hosts"]:
            for name in hosts:
                run.screen.say("  ", name)
        if run.args["list_tasks"]:
            written = [task for task in flat(stage.tasks) if not task.implied]
            told["tasks"] = [task_data(task) for task in written]
            for task in written:
                tags = f"  tags: {', '.join(sorted(task.tags))}" if task.tags else ""
                run.screen.say("  ", task.name, (f"  {task.module}  {task.place}{tags}", "dim"))
        plays.append(told)
    run.document["plays"] = plays


COMMANDS = (play,)
