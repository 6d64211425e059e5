"""A link that is cut without a word: both sides notice in time, and the next command goes on.

Each case runs in a network namespace where the machine allows one; else the host's sshd is stopped instead.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import phases
from tests.faults.box import SILENCE_S, Box, eventually
from tests.faults.cable import Cable, Namespace, Stopped, namespaces_refused
from tests.faults.phases import Phase

# What both sides may take beyond their limit, on a machine that is busy.
_SLACK_S = 8.0


@pytest.mark.parametrize("phase", phases.cases(phases.ALL))
def test_a_cut_link_ends_both_sides_and_the_next_command_goes_on(
    far: Box, cable: Cable, phase: Phase
) -> None:
    command = phase.begin(far)
    began = time.monotonic()
    cable.cut()
    out, err = command.communicate(timeout=60)
    assert command.returncode == 4, out + err
    assert time.monotonic() - began < SILENCE_S + _SLACK_S
    assert phase.op in out + err, out + err
    assert "inv status" in out + err or "run the command again" in out + err, out + err
    eventually(lambda: not far.agents(), "the agents' end", SILENCE_S + _SLACK_S)
    assert not list(far.project.root.glob("results/*/.*.part"))
    cable.mend()
    phase.check(far)


def test_a_host_that_is_cut_off_before_it_is_reached_is_unreachable_in_time(far: Box, cable: Cable) -> None:
    cable.cut()
    began = time.monotonic()
    ended = far.inv("restart", "--profile", "plain", "--json")
    assert ended.code == 4, ended.text
    assert time.monotonic() - began < 2 + 10 + _SLACK_S
    assert ended.json["hosts"]["box"]["error"]["kind"] in ("timeout", "no-route", "banner"), ended.text
    assert not far.state.exists()
    cable.mend()
    phases.goes_on(far)


def test_a_link_that_is_cut_in_the_middle_of_a_login_is_unreachable_in_time(far: Box, cable: Cable) -> None:
    """The connection stands, and whoever should log in hears nothing more."""
    command = far.begin("restart", "--profile", "plain", "--json")
    eventually(far.server.sessions, "the connection")
    began = time.monotonic()
    cable.cut()
    out, err = command.communicate(timeout=60)
    assert command.returncode == 4, out + err
    assert time.monotonic() - began < 10 + _SLACK_S, "what a login may take"
    error = json.loads(out)["hosts"]["box"]["error"]
    assert error["kind"] in ("timeout", "banner", "lost"), out
    assert error["next"]
    cable.mend()
    phases.settled(far)
    phases.goes_on(far)


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[tuple[Box, Stopped]]:
    cable = Stopped()
    one = Box(tmp_path, cable.serve)
    yield one, cable
    cable.mend()
    one.end()


@pytest.mark.long
def test_an_sshd_that_is_stopped_in_a_wait_is_a_lost_host(stopped: tuple[Box, Stopped]) -> None:
    box, cable = stopped
    command = phases.WAIT.begin(box)
    cable.cut()
    out, err = command.communicate(timeout=60)
    assert command.returncode == 4, out + err
    assert "lost during wait" in out + err
    eventually(lambda: not box.agents(), "the agents' end", SILENCE_S + _SLACK_S)
    cable.mend()
    phases.WAIT.check(box)


@pytest.mark.skipif(bool(namespaces_refused()), reason=namespaces_refused() or "-")
@pytest.mark.long
def test_a_cable_that_is_put_back_in_time_costs_nothing(tmp_path: Path) -> None:
    cable = Namespace()
    far = Box(tmp_path, cable.serve)
    try:
        command = phases.KILL.begin(far)
        cable.cut()
        time.sleep(SILENCE_S / 8)
        cable.mend()
        out, err = command.communicate(timeout=60)
        assert command.returncode == 0, out + err
        assert far.ours()["launch"]["profile"] == "plain"
    finally:
        far.end()
        cable.remove()
