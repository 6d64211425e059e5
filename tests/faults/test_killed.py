"""A controller or an agent that is killed in the middle: what it left is free and can be gone on from."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.faults import phases
from tests.faults.box import SLOT, Box, eventually, lives
from tests.faults.phases import Phase

# That of the kill is in tests/e2e/test_life.py.
OF_THE_CONTROLLER = (phases.LAUNCH, phases.WAIT, phases.BENCH, phases.PULL)


@pytest.mark.parametrize("phase", phases.cases(OF_THE_CONTROLLER))
def test_a_killed_controller_leaves_no_agent_and_no_lock(box: Box, phase: Phase) -> None:
    command = phase.begin(box)
    os.killpg(command.pid, signal.SIGKILL)
    command.communicate()
    eventually(lambda: not box.agents(), "the agents' end")
    # A pull that is killed cannot take its draft back: it is no file of the run, and no later pull minds it.
    phase.check(box)


def test_a_controller_that_is_killed_while_it_logs_in_leaves_nothing(box: Box) -> None:
    command = box.begin("restart", "--profile", "plain")
    eventually(box.server.sessions, "the login")
    os.killpg(command.pid, signal.SIGKILL)
    command.communicate()
    eventually(lambda: not box.server.sessions(), "the end of the login")
    phases.settled(box)
    phases.goes_on(box)


@pytest.mark.parametrize("phase", phases.cases(phases.ALL[:4]))
def test_a_killed_agent_is_told_and_what_it_left_is_gone_on_from(box: Box, phase: Phase) -> None:
    command = phase.begin(box)
    for pid in box.agents():
        os.kill(pid, signal.SIGKILL)
    out, err = command.communicate(timeout=60)
    # It may have been done with this part already: then the next one is what is lost.
    assert command.returncode == 4, out + err
    assert "lost during" in out + err, out + err
    assert "the agent ended" in out + err, out + err
    phases.settled(box)
    phases.goes_on(box)


def test_an_agent_that_is_killed_in_a_pull_costs_no_file(box: Box) -> None:
    """Files have a way of their own: a pull is whole, or is told with what to do, and the next one is."""
    command = phases.PULL.begin(box)
    for pid in box.agents():
        os.kill(pid, signal.SIGKILL)
    out, err = command.communicate(timeout=60)
    assert command.returncode in (0, 4), out + err
    pulled = list(box.project.root.glob("results/*/requests.jsonl"))
    if command.returncode:
        assert "files were carried" in out + err or "lost during" in out + err, out + err
        assert not pulled
    else:
        assert [path.stat().st_size for path in pulled] == [200 << 20]
    assert not list(box.project.root.glob("results/*/.*.part"))
    for path in pulled:
        path.unlink()
    phases.PULL.check(box)


def test_a_server_whose_agent_was_killed_before_it_could_name_it_is_seen_and_replaced(box: Box) -> None:
    """As an agent leaves it that is killed between the start of the server and its own next line."""
    first = box.restart("plain")
    second = box.restart("plain")
    slot = box.state / "slots" / SLOT
    (slot / "current").write_text(first["launch_id"])
    record = slot / "launches" / second["launch_id"] / "launch.json"
    unfinished = {"pid": 0, "start": 0, "shim_pid": 0, "shim_start": 0}
    record.write_text(json.dumps({**json.loads(record.read_text()), **unfinished}))
    server = box.ours()
    assert (server["alive"], server["pid"], server["state"]) == (True, second["pid"], "up")
    assert server["launch"]["launch_id"] == second["launch_id"]
    again = box.inv("start", "--profile", "plain")
    assert "plain runs already" in again.text, again.text
    phases.goes_on(box)
    assert not lives(second["pid"])


def test_a_shim_that_is_killed_costs_neither_the_server_nor_its_kill(box: Box) -> None:
    launch = box.restart("plain")
    os.kill(launch["shim_pid"], signal.SIGKILL)
    eventually(lambda: not lives(launch["shim_pid"]), "the shim's end")
    server = box.ours()
    assert (server["alive"], server["pid"]) == (True, launch["pid"])
    assert "shim" not in server["containment"]
    phases.goes_on(box)
    assert not Path(f"/proc/{launch['pid']}").exists() or not lives(launch["pid"])
