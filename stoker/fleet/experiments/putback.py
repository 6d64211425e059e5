"""The way back to what ran on a host before somebody measured other servers there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.errors import HostInterrupted, StokerError
from stoker.fleet import aftermath, life

if TYPE_CHECKING:  # a listing of the commands needs none of them
    from stoker.fleet.job import Job

Servers = Sequence[dict[str, Any]]
Touched = Mapping[str, str]


def put_back(job: Job, before: Servers, touched: Touched) -> list[tuple[str, str]]:
    """Stop what was left where nothing ran, and start again what ran; says what it cannot.

    Args:
        job: Of the host.
        before: The servers that lived there before.
        touched: Slot to the profile that was begun there last.

    Raises:
        HostInterrupted: Ctrl-C.
    """
    if not touched:  # probes end no server: one that is gone meanwhile, somebody else has ended
        return []
    were = {server.get("slot") for server in before}
    lines: list[tuple[str, str]] = []
    try:
        now = aftermath.alive(job)
        for slot, name in touched.items():
            if slot not in were and slot in {server.get("slot") for server in now}:
                life.stop(replace(job, plan=None, args={**job.args, "slot": slot, "profile": []}))
                lines.append((f"stopped {name}: nothing ran in slot {slot} before", "dim"))
    except StokerError as error:
        if getattr(error, "kind", "") == "cancelled":
            raise left(job, before, touched, error) from error
        return [*lines, (f"{_story(before)}; could not go back to that: {error.what}", "bold red")]
    for server in before:
        if not any(_is_same(server, one) for one in now):
            lines.append(_started_again(job, server, before, touched))
    return lines


def _started_again(job: Job, server: dict[str, Any], before: Servers, touched: Touched) -> tuple[str, str]:
    """Start one server again that ran before; says so where it cannot."""
    launch = server.get("launch")
    if not launch:
        told = f"{server['engine']} on port {server['port']} was started by hand: start it again"
        return told, "yellow"
    try:
        life.restart(job.on(job.project.plan_again(launch, job.host)))
    except HostInterrupted as error:
        raise left(job, before, touched, error) from error
    except StokerError as error:
        way = _command(job, server)
        return f"could not put back {launch['profile']}: {error.what}; try again: {way}", "bold red"
    return f"put back {launch['profile']}, which ran before", "dim"


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two looks saw the same server."""
    mine, its = one.get("launch"), other.get("launch")
    if mine and its:
        return bool(mine["launch_id"] == its["launch_id"]) or _is_same_setting(mine, its)
    return not mine and not its and bool(one.get("pid") == other.get("pid"))


def _is_same_setting(mine: Mapping[str, Any], its: Mapping[str, Any]) -> bool:
    """Whether one launch is as good as the other: the same profile, unedited, in the same slot."""
    names = ("slot", "profile", "profile_hash")
    return all(mine.get(name) and mine.get(name) == its.get(name) for name in names)


def left(job: Job, before: Servers, touched: Touched, error: StokerError) -> HostInterrupted:
    """An interrupted matrix: what runs now, what ran before, and the commands that put it back."""
    stops = [
        f"inv stop --host {job.host.name} --slot {slot}"
        for slot in touched
        if slot not in {server.get("slot") for server in before}
    ]
    steps = [*stops, *(_command(job, server) for server in before)] if touched else []
    return HostInterrupted(
        f"{error.what}; {_story(before)}",
        host=job.host.name,
        kind="cancelled",
        next_step=" && ".join(steps) and f"to put it back: {' && '.join(steps)}",
    )


def _story(before: Servers) -> str:
    """What ran before, as half a sentence."""
    told = aftermath.listed(before)
    return f"before ran {told}" if told else "before nothing ran"


def _command(job: Job, server: dict[str, Any]) -> str:
    """The command that starts a server again that ran before."""
    launch = server.get("launch")
    if not launch:
        return f"start {server['engine']} on port {server['port']} by hand again"
    return f"inv restart --host {job.host.name} --profile {launch['profile']}"
