"""A host that is not right: a full disk, a read-only home, no programs in /tmp, a wrong clock, company."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import phases
from tests.faults.box import SLOT, Box, eventually, lives
from tests.faults.mounts import mounts_refused, server_with

needs_mounts = pytest.mark.skipif(bool(mounts_refused()), reason=mounts_refused() or "-")

MakeBox = Callable[[str, Path], Box]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[MakeBox]:
    """Makes a host whose sshd sees mounts of its own over a folder."""
    made: list[Box] = []

    def make(mounts: str, where: Path) -> Box:
        where.mkdir(exist_ok=True)
        one = Box(tmp_path, lambda folder, env: server_with(mounts, folder, env, where))
        made.append(one)
        return one

    yield make
    for one in made:
        one.end()


def fill(path: Path) -> None:
    """Take every byte that is left there."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def refusal(box: Box, *words: str) -> str:
    """What a command that needs room on the host says, which touched nothing there."""
    ended = box.inv(*words, "--json")
    assert ended.code == 3, ended.text
    error = ended.json["hosts"]["box"]["error"]
    assert error["kind"] in ("preflight", "io"), ended.text
    assert error["next"], ended.text
    assert box.locked() == []
    return str(error["what"])


@needs_mounts
def test_a_full_disk_stops_what_needs_room_before_anybody_is_ended(tmp_path: Path, mounted: MakeBox) -> None:
    box = mounted('mount -t tmpfs -o size=70m none "$1"', tmp_path / "home")
    launch = box.restart("plain")
    filled = box.inv("exec", "--cmd", "cat /dev/zero > ~/filling; ls ~/.stoker/slots/plain/launches")
    assert "No space left" in filled.text
    said = refusal(box, "restart", "--profile", "plain")
    assert str(box.home) in said
    assert "0 MiB free" in said
    measured = box.inv("bench", "--profile", "plain")
    assert measured.code == 0, "what was measured is not lost with the host's disk: " + measured.text
    assert re.search(r"not kept on the host: .*No space left", measured.text), measured.text
    server = box.ours()
    assert (server["pid"], server["state"]) == (launch["pid"], "up")
    drafts = "ls ~/.stoker/slots/plain/launches ~/.stoker/runs 2>/dev/null; find ~/.stoker -name '*.n*'"
    left = box.inv("exec", "--cmd", drafts)
    assert ".new" not in left.text and ".next" not in left.text, left.text
    assert left.text.count("Z-") == 1, left.text
    assert box.result("stop", "--slot", SLOT)["ended"], "a full disk keeps nobody running"
    assert box.inv("exec", "--cmd", "rm ~/filling").code == 0
    again = box.restart("plain")
    assert box.ours()["pid"] == again["pid"]


@needs_mounts
def test_a_disk_that_fills_while_the_old_server_is_ended_leaves_no_server_without_a_record(
    tmp_path: Path, mounted: MakeBox
) -> None:
    """There was room when it was looked; the old server is ended, and the new one cannot be written down."""
    box = mounted('mount -t tmpfs -o size=70m none "$1"', tmp_path / "home")
    command = phases.KILL.begin(box)
    filling = Path(f"/proc/{box.server.process.pid}/root{box.home}/filling")
    fill(filling)
    out, err = command.communicate(timeout=60)
    assert command.returncode == 3, out + err
    error = json.loads(out)["hosts"]["box"]["error"]
    assert (error["kind"], "No space left" in error["what"]) == ("io", True), out
    assert str(box.home) in error["what"]
    assert error["next"]
    assert box.locked() == []
    assert [one for one in box.result("status")["servers"] if one["alive"]] == []
    assert box.serving() == [], "a server that nobody could find again"
    filling.unlink()
    launch = box.restart("plain")
    server = box.ours()
    assert (server["pid"], server["state"]) == (launch["pid"], "up")
    assert len(box.serving()) == 1


@needs_mounts
def test_a_home_that_is_read_only_is_told_and_can_be_looked_at(tmp_path: Path, mounted: MakeBox) -> None:
    box = mounted('mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"', tmp_path / "home")
    said = refusal(box, "restart", "--profile", "plain")
    assert str(box.home) in said
    assert "cannot be written" in said
    assert box.result("status")["servers"] == []


@needs_mounts
def test_no_program_may_be_run_in_tmp_and_home(tmp_path: Path, mounted: MakeBox) -> None:
    noexec = 'for m in /tmp "$1"; do mount --bind "$m" "$m"; mount -o remount,bind,noexec "$m"; done'
    box = mounted(noexec, tmp_path / "home")
    tried = box.inv("exec", "--cmd", "printf '#!/bin/sh\\n' > ~/p; chmod +x ~/p; ~/p")
    assert tried.code != 0, "programs run there"
    phases.goes_on(box)
    phases.goes_on(box)


def test_a_launch_that_is_dated_an_hour_ahead_breaks_nothing(box: Box) -> None:
    launch = box.restart("plain")
    ahead = time.time() + 3600
    folder = box.state / "slots" / SLOT / "launches" / launch["launch_id"]
    record = json.loads((folder / "launch.json").read_text())
    (folder / "launch.json").write_text(json.dumps({**record, "started_at": ahead}))
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ahead))
    with (folder / "server.log").open("a") as log:
        log.write(f"[{stamp}] a line of the next hour\n")
    server = box.ours()
    assert (server["state"], server["pid"]) == ("up", launch["pid"])
    assert 0 <= server["uptime_s"] < 600
    logs = box.inv("logs", "--slot", SLOT, "--since", "10m")
    assert logs.code == 0, logs.text
    assert "a line of the next hour" in logs.out
    phases.goes_on(box)


def test_launches_of_a_clock_that_ran_ahead_do_not_push_the_new_one_out(box: Box) -> None:
    old = box.restart("plain")
    box.result("stop", "--slot", SLOT)
    launches = box.state / "slots" / SLOT / "launches"
    eventually((launches / old["launch_id"] / "empty").exists, "the proof that it has ended")
    for number in range(25):
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(time.time() + 3600 + number))
        ahead = f"{stamp}.000Z-{number:04x}"
        shutil.copytree(launches / old["launch_id"], launches / ahead)
        record = json.loads((launches / ahead / "launch.json").read_text())
        (launches / ahead / "launch.json").write_text(json.dumps({**record, "launch_id": ahead}))
    new = box.restart("plain")
    assert box.current() == new["launch_id"]
    server = box.ours()
    assert (server["launch"]["launch_id"], server["pid"]) == (new["launch_id"], new["pid"])


def test_two_operators_at_once_leave_one_server_and_no_lock(box: Box) -> None:
    other = box.operator("other")
    both = [one.start("restart", "--profile", "plain", "--host", "box") for one in (box.project, other)]
    said = ["".join(one.communicate(timeout=90)) for one in both]
    codes = sorted(one.returncode for one in both)
    assert codes in ([0, 0], [0, 3]), said
    if codes == [0, 3]:  # else one came when the other was done
        (refused,) = [text for one, text in zip(both, said, strict=True) if one.returncode == 3]
        assert "is locked by" in refused, refused
        assert "inv unlock --check" in refused, refused
    phases.settled(box)
    running = [pid for pid in box.launchers().values() if lives(pid)]
    assert len(running) == 1
    assert box.ours()["pid"] == running[0]
