"""What stays on the host, and which processes belong to a launch."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.health import status
from stoker.agent.launches import state
from stoker.agent.processes import procs
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, Host, eventually, lives


def launched(host: Host, *options: str) -> dict[str, Any]:
    """A server of the zoo, launched by Stoker, and up."""
    plan = host.plan(*options)
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    eventually(lambda: b"ready" in Path(done["log"]).read_bytes(), "ready")
    return dict(done)


def members(host: Host, launch: dict[str, Any]) -> tuple[set[int], str]:
    ctx = host.context()
    found, how = state.members(procs.snapshot(ctx.facts), launch)
    return {process.pid for process in found}, how.replace("cgroup+", "").replace("+cgroup", "")


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-x", "a b", "x\n", "é"])
def test_a_slot_that_is_no_plain_name_is_refused(name: str) -> None:
    with pytest.raises(AgentError) as caught:
        state.slot_dir("/home", name)
    assert caught.value.kind == "bad-request"


def test_a_launch_is_remembered_with_what_names_its_processes(host: Host) -> None:
    launch = launched(host)
    home = host.context().home
    assert state.current(home, "stable") == launch
    assert state.launches(home) == [launch]
    assert state.history(home, "stable") == [launch["launch_id"]]
    assert procs.alive(launch["pid"], launch["start"])
    assert procs.alive(launch["shim_pid"], launch["shim_start"])


def test_under_the_shim_every_descendant_is_a_member(host: Host) -> None:
    launch = launched(host, "--escape")
    escaped = {p.pid for p in host.mine() if p.title == "nothing to see here"}
    found, how = members(host, launch)
    assert how == "shim"
    assert found == {launch["pid"], *host.workers(), *escaped}
    assert escaped


def test_without_the_shim_session_and_marker_find_them(host: Host) -> None:
    launch = launched(host, "--escape", "--hold-on")
    everyone = members(host, launch)[0]
    for name in ("shim_pid", "pid"):
        os.kill(launch[name], signal.SIGKILL)
    eventually(lambda: not lives(launch["pid"]) and not lives(launch["shim_pid"]), "their end")
    assert members(host, launch) == (everyone - {launch["pid"]}, "session+marker")


def test_the_number_of_a_session_may_pass_to_somebody_else(host: Host) -> None:
    launch = launched(host)
    os.kill(launch["shim_pid"], signal.SIGKILL)
    os.kill(launch["pid"], signal.SIGTERM)
    eventually(lambda: not host.mine(), "their end")
    stranger = host.serve()
    assert members(host, {**launch, "pid": stranger, "start": 1}) == (set(), "session+marker")


def test_after_a_restart_of_the_host_nobody_is_a_member(host: Host) -> None:
    launch = launched(host)
    ctx = host.context()
    rebooted = replace(ctx.facts, boot_id="another")
    assert state.members(procs.snapshot(rebooted), launch) == ([], "none")
    restarted = replace(ctx.facts, init_start=ctx.facts.init_start + 1)
    assert state.members(procs.snapshot(restarted), launch) == ([], "none")


def test_a_launch_that_never_got_a_process_has_no_members(host: Host) -> None:
    ctx = host.context()
    record = {"pid": 0, "start": 0, "boot_id": ctx.facts.boot_id, "init_start": ctx.facts.init_start}
    assert state.members(procs.snapshot(ctx.facts), record) == ([], "none")


def test_a_launch_whose_agent_was_ended_in_the_middle_is_found_by_its_shims_word(host: Host) -> None:
    launch = launched(host)
    folder = Path(launch["log"]).parent
    early = {**launch, "pid": 0, "start": 0, "shim_pid": 0, "shim_start": 0}
    (folder / "launch.json").write_text(json.dumps(early))
    ctx = host.context()
    (left,) = state.leftovers(ctx.home, "stable", ctx.facts)
    assert (left["pid"], left["start"]) == (launch["pid"], launch["start"])
    assert set(host.workers()) < members(host, left)[0]


def test_what_the_shim_saw_of_the_end_is_told(host: Host) -> None:
    launch = launched(host)
    home = host.context().home
    assert state.exit_of(home, launch) is None
    os.kill(launch["pid"], signal.SIGKILL)
    assert eventually(lambda: state.exit_of(home, launch), "the exit") == {"signal": 9}
    (Path(launch["log"]).parent / "exit").write_text("rubbish")
    assert state.exit_of(home, launch) is None


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}"])
def test_a_record_of_a_launch_without_processes_is_named_as_damaged(host: Host, text: str) -> None:
    home = Path(host.context().home)
    folder = home / "slots/stable/launches/x1"
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text(text)
    (home / "slots/stable/current").write_text("x1\n")
    found = state.current(str(home), "stable")
    assert found is not None
    assert f"{folder}/launch.json is damaged" in found["damaged"]
    assert members(host, found) == (set(), "none")
    (home / "slots/stable/current").write_text("../../../x")
    assert state.current(str(home), "stable") is None


def damage(launch: dict[str, Any], how: Any) -> None:
    """Make its record unusable: bytes in its place, other values in it, or no file at all."""
    path = Path(launch["log"]).parent / "launch.json"
    if isinstance(how, dict):
        path.write_text(json.dumps({**json.loads(path.read_text()), **how}))
        return
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to("/proc/self/environ")
    elif isinstance(how, bytes):
        path.write_bytes(how)


DAMAGES: dict[str, Any] = {
    "empty": b"",
    "half": b'{"launch_id": "x", "slot": "st',
    "no UTF-8": b"\xff\xfe\x00{",
    "a list": b"[]",
    "nested": b"[" * 100_000,
    "fields missing": b'{"launch_id": "X"}',
    "a folder": "folder",
    "a link": "link",
    "gone": "",
    "another launch": {"launch_id": "20200101T000000.000Z-aaaa"},
    "texts for numbers": {"pid": "7", "port": "8000", "started_at": "now"},
    "numbers for texts": {"slot": 5, "log": 5, "engine": 5, "model": 5, "bind": 5, "cgroup": 5, "marker": 5},
    "null": dict.fromkeys(("pid", "start", "shim_pid", "boot_id", "kill", "gpus", "resolved")),
    "other lists": {"gpus": 5, "gpu_uuids": 5, "steps": "x", "gpus2": 1},
    "inner": {"kill": {"protect": 5}, "resolved": {"env": [], "server": 5}},
    "negative": {"pid": -1, "shim_pid": -1},
    "huge": {"pid": 10**300},
}


@pytest.mark.parametrize("how", list(DAMAGES.values()), ids=list(DAMAGES))
def test_a_damaged_record_is_named_and_blocks_nobody(host: Host, how: Any) -> None:
    """Not its own slot either: the supervisor and the marker tell which processes are its."""
    launch = launched(host)
    damage(launch, how)
    left = {p.pid for p in host.mine()} - {launch["shim_pid"]}
    params: dict[str, Any] = {"engines": ENGINES, "slots": None, "plans": {}}
    (server,) = status.status(host.context(), params)["servers"]
    assert (server["slot"], server["alive"], server["pid"]) == ("stable", True, launch["pid"])
    assert "launch.json is damaged: " in server["why"]
    other = life.restart(host.context(), {"plan": host.plan(slot="meadow"), "engines": ENGINES})["launch"]
    assert any("launch.json is damaged" in event.get("text", "") for event in host.events)
    report = life.kill(host.context(), {"engines": ENGINES, "slot": "stable"})
    assert {process["pid"] for process in report["ended"]} == left
    assert not any(map(lives, left))
    assert lives(other["pid"])


def test_a_slot_with_a_damaged_record_can_be_restarted_and_stopped(host: Host) -> None:
    launch = launched(host)
    damage(launch, b"{")
    again = life.restart(host.context(), {"plan": host.plan(), "engines": ENGINES})
    assert launch["pid"] in {process["pid"] for process in again["kill"]["ended"]}
    assert not lives(launch["pid"])
    damage(again["launch"], b"{")
    with pytest.raises(AgentError) as caught:
        life.restart(host.context(), {"plan": host.plan(), "engines": ENGINES, "replace": False})
    assert caught.value.kind == "already-running"
    assert life.stop(host.context(), {"slot": "stable", "engines": ENGINES})["ended"]
    assert not lives(again["launch"]["pid"])


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x"
    state.write(str(path), "one", 0o600)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("one", 0o600)
    with pytest.raises(AgentError) as caught:
        state.write(str(tmp_path / "missing" / "x"), "two")
    assert caught.value.kind == "io"
    assert str(tmp_path / "missing" / "x") in caught.value.what
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]
