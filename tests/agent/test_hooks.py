"""Commands around a restart, and waiting until a server has nothing to do."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.launches import state
from stoker.agent.launches.locks import lock_set
from stoker.agent.starting import hooks, life, ready
from stoker.engines.base import Engine, Metrics
from tests.agent.conftest import ENGINES, PLAIN, Host, eventually, free_port, lives
from tests.agent.launched import SERVER

COUNTED = Engine(
    name="counted", grace_s=0.5, metrics=Metrics(running=("zoo_running",), waiting=("zoo_waiting",))
)
# Serves a count of running requests that falls to nothing in a second, or never.
BUSY = """
import http.server, sys, time
began = time.monotonic()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        left = 0 if time.monotonic() - began > float(sys.argv[2]) else 2
        body = ("zoo_running %d\\nzoo_waiting 0\\n" % left).encode()
        self.send_response(200); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
server.serve_forever()
"""


def restart(host: Host, plan: dict[str, Any], **params: Any) -> dict[str, Any]:
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES, **params})
    if done["launch"] and not done["already_running"]:
        eventually(lambda: b"ready" in Path(done["launch"]["log"]).read_bytes(), "ready")
    return done


def told(*before: str, after: tuple[str, ...] = (), drain_s: float = 0.0) -> dict[str, Any]:
    return {"before_stop": list(before), "after_ready": list(after), "drain_s": drain_s}


def busy(host: Host, for_s: float, engine: Engine = COUNTED, **changes: Any) -> dict[str, Any]:
    """A plan whose server says that it is busy for so long."""
    port = free_port()
    (host.root / "busy.py").write_text(BUSY)
    script = f"#!/bin/sh\nexec {sys.executable} {host.root}/busy.py {port} {for_s}\n"
    plan = host.plan(port=port, script=script, engine=engine)
    return {**plan, "resolved": {"hooks": changes.get("hooks", {})}, **changes}


def test_a_hook_runs_before_the_old_server_is_ended_and_its_words_are_kept(host: Host) -> None:
    old = restart(host, host.plan())["launch"]
    line = f"kill -0 {old['pid']} && echo $STOKER_SLOT at $STOKER_PORT && echo aside >&2"
    plan = {**host.plan(), "hooks": told(line)}
    done = restart(host, plan)
    (ran,) = done["kill"]["hooks"]
    assert (ran["when"], ran["command"], ran["rc"]) == ("before_stop", line, 0)
    assert ran["output"] == f"stable at {plan['port']}\naside\n"
    assert not lives(old["pid"])
    assert "hook before_stop" in [step["name"] for step in done["launch"]["steps"]]


def test_a_hook_that_fails_stops_everything_before_the_first_signal(host: Host) -> None:
    old = restart(host, host.plan())["launch"]
    plan = {**host.plan(), "hooks": told("echo balancer says no; exit 3", "touch never")}
    with pytest.raises(AgentError) as caught:
        restart(host, plan)
    assert caught.value.kind == "hook"
    assert "exit status 3" in caught.value.what
    assert caught.value.evidence == ["balancer says no"]
    assert lives(old["pid"])
    assert state.current(host.context().home, "stable") == old
    assert not (host.home / "never").exists()
    assert state.history(host.context().home, "stable") == [old["launch_id"]], "a draft was left"
    assert lock_set(host.context()).listing() == []


def test_a_hook_that_hangs_is_ended(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "HOOK_S", 0.3)
    old = restart(host, host.plan())["launch"]
    with pytest.raises(AgentError) as caught:
        restart(host, {**host.plan(), "hooks": told("sleep 60")})
    assert caught.value.kind == "hook"
    assert "not done after 0.3 s" in caught.value.what
    assert lives(old["pid"])
    assert not [one for one in host.mine() if one.title == "sleep 60"]


def test_where_nothing_is_ended_no_hook_runs_before_it(host: Host) -> None:
    done = restart(host, {**host.plan(), "hooks": told("exit 1", drain_s=60)})
    assert done["kill"]["hooks"] == []


def test_a_check_only_tells_the_hooks(host: Host) -> None:
    restart(host, host.plan())
    plan = {**host.plan(), "hooks": told("touch ran", drain_s=5)}
    done = restart(host, plan, check=True)
    assert [hook["command"] for hook in done["kill"]["hooks"]] == ["touch ran", "at most 5 s"]
    assert not (host.home / "ran").exists()


@pytest.mark.parametrize("act", ["stop", "kill"])
def test_stop_and_kill_run_what_the_running_profile_says(host: Host, act: str) -> None:
    recorded = {"hooks": told("echo out", after=("exit 1",))}
    done = restart(host, host.plan(resolved=recorded))["launch"]
    report = getattr(life, act)(host.context(), {"slot": "stable", "engines": ENGINES})
    assert [hook["output"] for hook in report["hooks"]] == ["out\n"]
    assert not lives(done["pid"])
    again = getattr(life, act)(host.context(), {"slot": "stable", "engines": ENGINES})
    assert again["hooks"] == [], "nothing runs any more"


def test_a_drain_ends_when_the_engine_counts_no_request(host: Host) -> None:
    restart(host, busy(host, 1.2))
    began = time.monotonic()
    plan = {**host.plan(profile_hash="ba9876543210"), "hooks": told(drain_s=60)}
    engines = [*ENGINES, COUNTED.to_wire()]
    done = life.restart(host.context(), {"plan": plan, "engines": engines})
    (drain,) = done["kill"]["hooks"]
    assert (drain["when"], drain["output"]) == ("drain", "no request runs or waits")
    assert 0.3 < time.monotonic() - began < 20


def test_a_drain_ends_with_its_time_and_says_what_still_ran(host: Host) -> None:
    plan = busy(host, 600, hooks=told(drain_s=0.6))
    restart(host, plan)
    report = life.stop(host.context(), {"slot": "stable", "engines": [COUNTED.to_wire()]})
    (drain,) = report["hooks"]
    assert drain["output"] == "2 requests still run and 0 wait: went on after 0.6 s"
    assert drain["seconds"] >= 0.6


def test_an_engine_without_metrics_is_given_the_whole_time(host: Host) -> None:
    mute = replace(PLAIN, metrics=Metrics(path=""))
    restart(host, busy(host, 0, engine=mute, hooks=told(drain_s=0.6)))
    report = life.stop(host.context(), {"slot": "stable", "engines": [mute.to_wire()]})
    (drain,) = report["hooks"]
    assert "no metrics that Stoker knows: went on after 0.6 s" in drain["output"]


def test_what_a_hook_changed_is_looked_at_again(host: Host) -> None:
    old = restart(host, host.plan())["launch"]
    plan = {**host.plan(), "hooks": told(f"kill -KILL {old['pid']}; sleep 0.2")}
    done = restart(host, plan)
    assert old["pid"] not in {one["pid"] for one in done["kill"]["ended"]}


def test_a_cancel_during_a_drain_leaves_the_server(host: Host) -> None:
    done = restart(host, busy(host, 600, hooks=told(drain_s=60)))["launch"]
    ctx = host.context()
    threading.Timer(0.5, ctx.cancel).start()
    with pytest.raises(AgentError) as caught:
        life.stop(ctx, {"slot": "stable", "engines": [COUNTED.to_wire()]})
    assert caught.value.kind == "cancelled"
    assert lives(done["pid"])


@pytest.fixture
def serving(host: Host) -> Iterator[dict[str, Any]]:
    """A plan whose server gets ready."""
    port = free_port()
    argv = [sys.executable, "-S", str(SERVER), "--port", str(port)]
    yield host.plan(
        port=port,
        script="#!/bin/sh\nexec " + " ".join(argv) + "\n",
        engine=PLAIN,
        model="tiny",
        served_names=("tiny",),
    )


def wait(host: Host, plan: dict[str, Any], **params: Any) -> dict[str, Any]:
    return ready.wait(host.context(), {"plan": plan, "engines": [], "launch_id": None, **params})


def test_what_follows_readiness_runs_once_the_server_is_proven(host: Host, serving: dict[str, Any]) -> None:
    plan = {**serving, "hooks": told(after=("echo in",))}
    life.restart(host.context(), {"plan": plan, "engines": ENGINES})
    found = wait(host, plan, after_ready=True)
    assert [(hook["when"], hook["output"]) for hook in found["hooks"]] == [("after_ready", "in\n")]
    assert wait(host, plan)["hooks"] == [], "waiting alone runs nothing"


def test_what_follows_readiness_may_fail_and_the_server_runs_on(host: Host, serving: dict[str, Any]) -> None:
    plan = {**serving, "hooks": told(after=("echo no such pool; false",))}
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    with pytest.raises(AgentError) as caught:
        wait(host, plan, after_ready=True)
    assert caught.value.kind == "hook"
    assert caught.value.evidence == ["no such pool"]
    assert lives(done["pid"])


def test_a_server_whose_tuning_is_not_in_force_is_not_put_into_service(
    host: Host, serving: dict[str, Any]
) -> None:
    plan = {**serving, "env": {"NCCL_ALGO": "Ring"}, "hooks": told(after=("touch ran",))}
    life.restart(host.context(), {"plan": plan, "engines": ENGINES})
    found = wait(host, plan, after_ready=True)
    assert found["proof"]["verdict"] == "not-in-force"
    assert found["hooks"] == []
    assert not (host.home / "ran").exists()


def test_every_steps_time_is_in_the_launchs_record(host: Host, serving: dict[str, Any]) -> None:
    done = life.restart(host.context(), {"plan": serving, "engines": ENGINES})
    assert state.current(host.context().home, "stable") == done["launch"]
    found = wait(host, serving)
    kept = state.current(host.context().home, "stable")
    assert kept == found["launch"]
    assert kept is not None
    names = [step["name"] for step in kept["steps"]]
    assert names == ["look", "preflight", "prepare", "release", "launch", "ready", "prove"]
    assert all(step["seconds"] >= 0 for step in kept["steps"])
    assert kept["ready_s"] == found["ready_s"]
    wait(host, serving)
    assert state.current(host.context().home, "stable") == kept, "only the first readiness counts"
