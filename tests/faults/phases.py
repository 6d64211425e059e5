"""Commands brought to one of their phases, so that a test can break something there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.box import Box, eventually, lives


@dataclass(frozen=True)
class Phase:
    """A command in the middle of its work.

    Args:
        name: Of the phase.
        begin: Prepares the host, begins the command, and returns once the phase is reached.
        op: What the controller does then on the host, as it tells who reads that the link was lost.
        check: That what is there now is right, and that the next command goes on from it.
    """

    name: str
    begin: Callable[[Box], subprocess.Popen[str]]
    op: str
    check: Callable[[Box], None]


def settled(box: Box) -> None:
    """Nobody works there any more: no agent, no lock, nothing written by halves."""
    eventually(lambda: not box.agents(), "the agents' end")
    assert box.halves() == []
    # A process that ends shows no command line any more before the kernel closes its files.
    eventually(lambda: not box.locked(), "the release of their locks")


def goes_on(box: Box) -> None:
    """Whatever is there: a restart leaves exactly one server, which serves, and nothing else."""
    launch = box.restart("plain")
    server = box.ours()
    assert (server["pid"], server["state"], server["health"]) == (launch["pid"], "up", 200)
    left = {launch_id for launch_id, pid in box.launchers().items() if lives(pid)}
    assert left == {launch["launch_id"]}


def _told(command: subprocess.Popen[str], words: str) -> subprocess.Popen[str]:
    """The command, once it has said so."""
    assert command.stderr is not None
    said = []
    for line in command.stderr:
        said.append(line)
        if words in line:
            return command
    raise AssertionError(f"{words!r} was never said:\n{''.join(said)}")


# Kill: the old server is being ended, the new one not begun.


def _killing(box: Box) -> subprocess.Popen[str]:
    box.restart("deaf")
    return _told(box.begin("restart", "--profile", "plain", "--json"), "end  ")


def _replaced(box: Box) -> None:
    """What was begun was finished: the old server is gone, the new one serves."""
    settled(box)
    ended = box.inv("wait", "--profile", "plain")
    assert ended.code == 0, ended.text
    assert box.ours()["launch"]["profile"] == "plain"
    assert len([pid for pid in box.launchers().values() if lives(pid)]) == 1


# Launch: the new server has just been begun.


def _launching(box: Box) -> subprocess.Popen[str]:
    before = set(box.launchers())
    command = box.begin("restart", "--profile", "plain")
    eventually(lambda: set(box.launchers()) - before, "the launch")
    return command


# Wait: the new server loads.


def _waiting(box: Box) -> subprocess.Popen[str]:
    return _told(box.begin("restart", "--profile", "slow", "--json"), "· starting")


def _loads_on(box: Box) -> None:
    settled(box)
    server = box.ours()
    assert (server["launch"]["profile"], server["alive"], server["state"]) == ("slow", True, "starting")
    goes_on(box)


# Bench: requests run.


def _measuring(box: Box) -> subprocess.Popen[str]:
    box.restart("paced")
    command = box.begin("bench", "--profile", "paced", "--tokens", "2000")
    eventually(lambda: _requests(box), "the first request")
    return command


def _requests(box: Box) -> int:
    """Connections to the server that are open now; it may listen in a network namespace of its own."""
    pid = box.launchers()[box.current()]
    rows = [row.split() for row in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return sum(1 for row in rows if row[3] == "01" and int(row[1].split(":")[1], 16) == box.port)


def _serves_on(box: Box) -> None:
    settled(box)
    assert box.ours()["launch"]["profile"] == "paced"
    box.restart("plain")
    ended = box.inv("bench", "--profile", "plain")
    assert ended.code == 0, ended.text


# Pull: a file is under way.


def _pulling(box: Box) -> subprocess.Popen[str]:
    folder = box.state / "runs" / "20260101T000000-box-0000"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "requests.jsonl").open("wb") as file:
        file.truncate(200 << 20)
    command = box.begin("fetch")
    eventually(lambda: list(box.project.root.glob("results/*/.*.part")), "the first bytes")
    return command


def _fetches(box: Box) -> None:
    settled(box)
    with (box.state / "runs/20260101T000000-box-0000/requests.jsonl").open("wb") as file:
        file.truncate(1 << 20)
    ended = box.inv("fetch")
    assert ended.code == 0, ended.text
    (pulled,) = box.project.root.glob("results/*/requests.jsonl")
    assert pulled.stat().st_size == 1 << 20


KILL = Phase("kill", _killing, "lost during restart", _replaced)
LAUNCH = Phase("launch", _launching, "lost during", goes_on)
WAIT = Phase("wait", _waiting, "lost during wait", _loads_on)
BENCH = Phase("bench", _measuring, "lost during bench", _serves_on)
PULL = Phase("pull", _pulling, "files were carried", _fetches)
ALL = (KILL, LAUNCH, WAIT, BENCH, PULL)
_IN_CI = (KILL, LAUNCH)


def cases(phases: Iterable[Phase]) -> list[Any]:
    """A test's parameters: all of these; CI tries those in which the most is at stake."""
    return [
        pytest.param(phase, id=phase.name, marks=() if phase in _IN_CI else pytest.mark.long)
        for phase in phases
    ]
