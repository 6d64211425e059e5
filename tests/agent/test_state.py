"""What stays on the host, and which processes belong to a launch."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.agent import life, procs, state
from stoker.agent.context import AgentError
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
def test_a_record_that_cannot_be_used_is_none(host: Host, text: str) -> None:
    home = Path(host.context().home)
    folder = home / "slots/stable/launches/x1"
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text(text)
    (home / "slots/stable/current").write_text("x1\n")
    assert state.current(str(home), "stable") is None
    (home / "slots/stable/current").write_text("../../../x")
    assert state.current(str(home), "stable") is None


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x"
    state.write(str(path), "one", 0o600)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("one", 0o600)
    with pytest.raises(AgentError) as caught:
        state.write(str(tmp_path / "missing" / "x"), "two")
    assert caught.value.kind == "io"
    assert str(tmp_path / "missing" / "x") in caught.value.what
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]
