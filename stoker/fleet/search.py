"""The verb that finds where variables are or were set; nothing is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import HostFailed, InputError
from stoker.fleet.flags import Flag
from stoker.fleet.hostdata import reading
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.config.drafts.draftfound import Found

DEADLINE_S = 60.0
_MORE_S = 30.0


def search(job: Job) -> Outcome:
    """Where the host's files and containers say what variables are.

    Raises:
        InputError: A pattern or a folder that cannot be.
    """
    args = job.args
    params = {
        "patterns": args["search"],
        "history": args["history"],
        "folders": args["folder"],
        "only_folders": bool(args.get("only_folders")),
        "deadline_s": DEADLINE_S,
    }
    try:
        data = job.session.call("search", params, timeout_s=DEADLINE_S + _MORE_S)
    except HostFailed as error:
        if error.kind != "bad-request":
            raise
        raise InputError(error.what, where=job.host.name, next_step=error.next_step) from error
    with reading(job.host.name, "what it found"):
        found = places(job.host.name, data["findings"])
        names = {one.name for one in found}
        looked, cut, skipped = data["looked"]["files"], str(data["cut"]), data["skipped"]
        lines = [(f"not all was looked at: {cut}", "yellow")] if cut else []
        lines += [(f"not read: {one['path']}: {one['why']}", "dim") for one in skipped[:5]]
        lines += [(f"not read: {len(skipped) - 5} more (--json)", "dim")] if len(skipped) > 5 else []
    of = f"{counts(len(found), 'place', 'places')} of {counts(len(names), 'variable', 'variables')}"
    told = f"{of} in {counts(looked, 'file', 'files')}"
    if not found:
        told = f"nothing sets {', '.join(args['search'])} in {counts(looked, 'file', 'files')}"
        lines += [(f"next: {text}", "cyan") for text in _elsewhere(job)]
    return Outcome(told, data, lines=tuple(lines))


def _elsewhere(job: Job) -> list[str]:
    """Where else to look; files tell nothing of what a server was given by hand."""
    hint = [] if job.args["history"] else ["--history looks into the shells' histories, too"]
    if not job.args.get("only_folders"):
        hint.append(f"inv capture --host {job.host.name} --name PROFILE reads a server that runs")
    return hint


def places(host: str, findings: Sequence[Mapping[str, Any]]) -> list[Found]:
    """What a host found, as ``draftfound`` takes it.

    Raises:
        KeyError, TypeError, ValueError: It is not of the contract.
    """
    from stoker.config.drafts.draftfound import Found

    return [
        Found(
            name=str(one["name"]),
            value=None if one["value"] is None else str(one["value"]),
            how=str(one["how"]),
            place=f"{host}:{one['path']}" + (f":{one['line']}" if one["line"] else ""),
            at=float(one["at"]),
            hidden=bool(one["hidden"]),
        )
        for one in findings
    ]


SEARCH = Verb(
    "search",
    (
        Flag("search", "Find where variables are or were set: a name, or a pattern such as NCCL_*.", "list"),
        Flag("history", "Search the shells' histories, too.", "flag"),
        Flag("folder", "Search the notes in this folder of the hosts, too.", "list"),
        Flag("notes", "Search the notes in this folder here; without --host nothing else.", "list"),
        Flag("extends", "The profile that what was found tunes.", "name"),
    ),
    search,
)
