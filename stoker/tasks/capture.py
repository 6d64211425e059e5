"""The command ``capture``."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError, nearest
from stoker.fleet import capture as servers
from stoker.fleet import search as searches
from stoker.tasks.command import CHECK, READING, command

if TYPE_CHECKING:
    from stoker.config.drafts.draftfound import Found
    from stoker.fleet.pool import HostResult
    from stoker.tasks.run import Run

HERE = "here"
_WIDE = 110
_ALONE = ("history", "folder", "notes", "extends")


@command(*READING, CHECK, *servers.CAPTURE.flags, *searches.SEARCH.flags)
def capture(run: Run) -> int:
    """A profile of a server that runs, whoever started it; or, with --search, where variables were set.

    Without --search: profiles/NAME.yml starts the same server again, with what could not be known in its
    comments; --check prints it. With --search: every place in start-up files, units, containers, modules, job
    scripts and notes that says what the variables are, the newest value first; --name writes the newest ones
    into a profile. Credentials are never shown or written: they become !secret NAME.
    """
    return _search(run) if run.args["search"] else _server(run)


def _server(run: Run) -> int:
    """A profile of a server."""
    run.need("host", "inv capture --host NAME --name PROFILE")
    run.need("name", "inv capture --host NAME --name PROFILE")
    given = [name for name in _ALONE if run.args[name]]
    if given:
        raise InputError(f"--{given[0]} belongs to --search", next_step="say what to search for")
    if run.args["slot"] and run.args["port"]:
        raise InputError("--port and --slot name two servers", next_step="leave one of them out")
    hosts = run.hosts()
    if len(hosts) > 1:
        names = ", ".join(host.name for host in hosts)
        raise InputError(f"a profile is captured from one host, these are {names}", next_step="name one")
    _must_be_free(run)
    results = run.on_hosts(servers.CAPTURE)
    for outcome in (outcome for result in results for outcome in result.data or []):
        secrets = [f"{name} is a secret: provide it before a start" for name in outcome.data["secrets"]]
        notes = [*outcome.data["notes"], *secrets]
        _shown(run, outcome.data["text"], notes, f"--host {hosts[0].name}")
    return run.end(results)


def _search(run: Run) -> int:
    """Where variables are or were set."""
    from stoker.config.drafts import draftfound

    if run.args["port"] or run.args["slot"]:
        raise InputError("--search looks at files, not at a server", next_step="leave --port and --slot out")
    name, extends = run.args["name"], run.args["extends"]
    known = run.project.library.names() if extends else ()
    if extends and extends not in known:
        raise InputError(f"unknown profile {extends!r}", where="--extends", next_step=nearest(extends, known))
    if name:
        _must_be_free(run)
    results = run.on_hosts(searches.SEARCH) if run.args["host"] or not run.args["notes"] else []
    results += _here(run) if run.args["notes"] else []
    found = list(_found(results))
    columns = ("variable", "value", "where", "how", "written")
    wide = run.screen.width >= _WIDE
    rows = (row if wide else (*row[:3], row[4]) for row in _rows(found))
    if found:
        run.screen.table(columns if wide else (*columns[:3], columns[4]), rows)
    if name and found:
        source = ", ".join(result.host for result in results)
        draft = draftfound.of_places(found, extends or _desired(run), source)
        path = run.project.settings.path("profiles") / f"{name}.yml"
        if not run.check:
            servers.write(path, draft.text, replace=run.args["force"])
            run.screen.say(("+ ", "green"), run.project.shown(path))
        run.document["profile"] = {"name": name, "text": draft.text, "written": not run.check}
        _shown(run, draft.text, draft.notes, "--host NAME")
    return run.end(results)


def _must_be_free(run: Run) -> None:
    if not run.check:
        servers.free(run.project, run.args["name"], replace=run.args["force"])


def _shown(run: Run, text: str, notes: Sequence[str], where: str) -> None:
    """The profile itself under ``--check``; else what is to be known of it, and the next step."""
    if run.check:
        run.screen.text(text)
        return
    for note in notes:
        run.screen.say(("  note: ", "yellow"), note)
    name = run.args["name"]
    run.screen.say(
        ("  next: ", "cyan"), f"read profiles/{name}.yml, then: inv restart {where} --profile {name}"
    )


def _here(run: Run) -> list[HostResult]:
    """The same search in folders of this machine, by an agent of its own."""
    from stoker.config.inventories.inventory import Host
    from stoker.fleet.job import Job
    from stoker.fleet.pool import fan_out
    from stoker.fleet.session import Session
    from stoker.tasks.outcomes import result_data

    folders = [str((run.settings.root / Path(name).expanduser()).resolve()) for name in run.args["notes"]]
    host = Host(HERE, {"ansible_connection": "local"}, (), "--notes")
    args = {**run.args, "folder": folders, "only_folders": True}

    def work(_: str, board: Any) -> list[Any]:
        session = Session(host, run.connect, board.event, run.bare, run.stop)
        try:
            return searches.SEARCH.on(Job(run.project, session, args), ())
        finally:
            session.close()

    with run.screen.board([HERE]) as board:
        results = fan_out(
            [HERE],
            functools.partial(work, board=board),
            forks=1,
            on_done=functools.partial(run.finished, board),
            stop=run.stop,
        )
    run.document.setdefault("hosts", {})[HERE] = result_data(results[0])
    return results


def _found(results: Sequence[HostResult]) -> Iterator[Found]:
    for result in results:
        for outcome in result.data or []:
            yield from searches.places(result.host, outcome.data["findings"])


def _rows(found: Sequence[Found]) -> Iterator[tuple[Any, ...]]:
    """A file and value a row, the newest first; a value that another place contradicts stands out."""
    from stoker.config.drafts import draftfound

    for name, places in draftfound.newest_first(found).items():
        one_value = len({place.value for place in places}) == 1
        of_file: dict[tuple[str, str | None, str], list[Found]] = {}
        for place in places:
            of_file.setdefault((place.place.rpartition(":")[0], place.value, place.why_not), []).append(place)
        for number, ((file, value, why), same) in enumerate(of_file.items()):
            style = "dim" if why else "" if one_value else "bold green" if not number else "yellow"
            lines = ",".join(place.place.rpartition(":")[2] for place in same)
            where = f"{file}:{lines}" + (f" ({why})" if why else "")
            how = ", ".join(dict.fromkeys(place.how for place in same))
            shown = ("unset" if value is None else value, style)
            yield ("" if number else name, shown, where, how, (same[0].day, "dim"))


def _desired(run: Run) -> str:
    """The only profile that should run on the hosts that were searched; empty where there is no such one."""
    from stoker.fleet.servers import desired

    names = {name for host in run.hosts() for name in desired(host)} if run.args["host"] else set()
    return names.pop() if len(names) == 1 else ""


COMMANDS = (capture,)
