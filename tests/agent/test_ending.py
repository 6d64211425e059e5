"""A server that somebody ended on purpose did not die: who finds it gone is told who ended it, and when."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.health import status
from stoker.agent.killing import describe
from stoker.agent.launches import state
from stoker.agent.starting import life, ready
from tests.agent.conftest import ENGINES, Host, eventually, lives


def launched(host: Host) -> tuple[dict[str, Any], dict[str, Any]]:
    plan = host.plan()
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES, "owner": "one@desk"})
    return plan, dict(done["launch"])


def wait_fails(host: Host, plan: dict[str, Any], launch_id: str | None = None) -> AgentError:
    with pytest.raises(AgentError) as caught:
        ready.wait(host.context(), {"plan": plan, "engines": ENGINES, "launch_id": launch_id})
    assert caught.value.kind == "died"
    return caught.value


def why(host: Host) -> str:
    (server,) = status.status(host.context(), {"engines": ENGINES, "slots": None, "plans": {}})["servers"]
    assert server["state"] == "down"
    return str(server["why"])


@pytest.mark.parametrize("what", ["stop", "kill"])
def test_wait_and_status_tell_who_ended_a_server(host: Host, what: str) -> None:
    plan, _ = launched(host)
    getattr(life, what)(host.context(), {"slot": "stable", "engines": ENGINES, "owner": "two@laptop"})
    error = wait_fails(host, plan)
    told = f"was stopped by {describe.user(os.getuid())} from two@laptop ({what}) on 20"
    assert told in error.what
    assert error.detail["cause"] == "stopped"
    assert "inv start" in error.next_step
    assert why(host).startswith(told)


def test_who_waits_for_a_server_that_is_replaced_is_told_by_whom(host: Host) -> None:
    plan, old = launched(host)
    life.restart(host.context(), {"plan": plan, "engines": ENGINES, "owner": "two@laptop"})
    assert "from two@laptop (restart)" in wait_fails(host, plan, old["launch_id"]).what
    life.stop(host.context(), {"slot": "stable", "engines": ENGINES})


def test_a_server_that_dies_by_itself_was_stopped_by_nobody(host: Host) -> None:
    plan, launch = launched(host)
    os.kill(launch["pid"], signal.SIGKILL)
    eventually(lambda: not lives(launch["pid"]), "its end")
    assert "was ended by signal 9" in wait_fails(host, plan).what
    life.stop(host.context(), {"slot": "stable", "engines": ENGINES, "owner": "two@laptop"})
    assert "stopped" not in why(host), "what was left of it was cleaned up"


def test_a_check_notes_nothing(host: Host) -> None:
    _, launch = launched(host)
    life.stop(host.context(), {"slot": "stable", "engines": ENGINES, "check": True})
    assert "stopped" not in (state.current(host.context().home, "stable") or {})
    assert lives(launch["pid"])
    life.stop(host.context(), {"slot": "stable", "engines": ENGINES})
