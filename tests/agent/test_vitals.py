"""Busy is not dead, starting is not stuck: how a server is, by its answer, its figures and its CPU time."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker import engines
from stoker.agent.health import status
from stoker.agent.starting import life
from stoker.engines.base import Engine, Metrics, Stage
from tests.agent.conftest import Host, eventually, free_port
from tests.agent.launched import listening

VLLM_LOG = Path(__file__).parent.parent / "cases/logs/vllm-enginecore-killed.log"
MOODY = Path(__file__).parent / "programs" / "moody.py"
ENGINE = Engine(
    name="moody",
    grace_s=0.2,
    stages=(
        Stage("loading weights", r"loading weights (?P<percent>\d+)%", 0.1),
        Stage("ready", "ready", 0.9),
    ),
    ready="^ready$",
    metrics=Metrics(
        running=("moody:running",),
        waiting=("moody:waiting",),
        generation_tokens=("moody:tokens_total",),
        throughput=("moody:speed",),
        steps=("moody:steps_total",),
    ),
)


def launch(host: Host, *options: str, slot: str = "stable") -> int:
    """A moody server; returns its port once it listens."""
    port = free_port()
    script = f"#!/bin/sh\nexec {sys.executable} -I {MOODY} {port} {' '.join(options)}\n"
    plan = host.plan(engine=ENGINE, port=port, script=script, slot=slot)
    life.restart(host.context(), {"plan": plan, "engines": [ENGINE.to_wire()]})
    eventually(lambda: listening(port), "its listener")
    return port


def look(host: Host) -> list[dict[str, Any]]:
    found = status.status(host.context(), {"engines": [ENGINE.to_wire()], "slots": None})
    return list(found["servers"])


@pytest.mark.parametrize(
    ("options", "state", "why"),
    [
        ((), "up", ""),
        (("--health", "404"), "up", "health answers 404"),
        (("--health", "503", "--figures", "moving"), "busy", "health answers 503 while its figures move"),
        (("--health", "hang", "--figures", "moving"), "busy", "no answer within 2 s while its figures move"),
        (("--health", "503", "--burn"), "busy", "health answers 503 while it computes"),
        (("--health", "hang", "--burn"), "busy", "no answer within 2 s while it computes"),
        (("--health", "503"), "stuck", "health answers 503, and nothing moves"),
        (("--health", "hang", "--figures", "still"), "stuck", "no answer within 2 s, and nothing moves"),
        (("--health", "503", "--mute"), "starting", "loading weights, 42 %"),
        (("--health", "503", "--mute", "--figures", "moving"), "busy", "figures move, 2 requests run"),
    ],
)
def test_the_state_of_a_server(host: Host, options: tuple[str, ...], state: str, why: str) -> None:
    launch(host, *options)
    (server,) = look(host)
    assert (server["state"], server["alive"]) == (state, True)
    assert why in server["why"]
    assert bool(server["why"]) == bool(why)


def test_a_server_that_lost_its_listener_is_stuck(host: Host) -> None:
    plan = host.plan(engine=ENGINE, script="#!/bin/sh\necho ready\nexec sleep 60\n")
    done = life.restart(host.context(), {"plan": plan, "engines": [ENGINE.to_wire()]})["launch"]
    eventually(lambda: "ready" in Path(done["log"]).read_text(), "its word")
    (server,) = look(host)
    assert (server["state"], server["why"]) == ("stuck", "nothing listens on its port any more")


def test_a_server_whose_engine_has_died_is_stuck_and_not_busy(host: Host) -> None:
    """Its HTTP server lives on, answers 503 and computes a little; its log says what it is."""
    port = free_port()
    dead = (
        "(APIServer pid=7) ERROR 11-29 11:35:38 [async_llm.py:906] vllm.EngineDeadError: EngineCore is gone."
    )
    lines = [*VLLM_LOG.read_text().splitlines()[-8:], dead, *['INFO: "GET /health" 503'] * 50]
    (host.root / "log").write_text("ready\n" + "\n".join(lines) + "\n")
    engine = replace(ENGINE, fatal=engines.get("vllm").fatal)
    moody = f"{sys.executable} -I {MOODY} {port} --health 503 --figures moving --burn"
    plan = host.plan(engine=engine, port=port, script=f"#!/bin/sh\ncat {host.root}/log\nexec {moody}\n")
    life.restart(host.context(), {"plan": plan, "engines": [engine.to_wire()]})
    eventually(lambda: listening(port), "its listener")
    (server,) = status.status(host.context(), {"engines": [engine.to_wire()], "slots": None})["servers"]
    assert server["state"] == "stuck"
    assert "health answers 503, and its log says why: " in server["why"]
    assert "EngineDeadError" in server["why"]


@pytest.mark.parametrize(
    ("options", "tok_s", "source"),
    [
        (("--figures", "moving"), 100, "counter"),
        (("--figures", "late"), 100, "steps"),
        (("--figures", "moving", "--gauge", "88.5"), 88.5, "gauge"),
        (("--figures", "still"), 0, "idle"),
    ],
)
def test_tokens_a_second_now(host: Host, options: tuple[str, ...], tok_s: float, source: str) -> None:
    launch(host, *options)
    (server,) = look(host)
    load = server["load"]
    assert (load["tok_s_from"], load["why"]) == (source, "")
    assert load["tok_s"] == pytest.approx(tok_s, rel=0.3)
    assert (load["running"], load["waiting"]) == ((2, 1) if source != "idle" else (0, 0))


def test_what_is_not_known_of_the_load_is_not_zero(host: Host) -> None:
    launch(host)
    (server,) = look(host)
    assert (server["load"]["running"], server["load"]["tok_s"]) == (None, None)
    assert "404" in server["load"]["why"]


def test_several_servers_are_asked_side_by_side(host: Host) -> None:
    for number in range(4):
        launch(host, "--health", "hang", slot=f"slot{number}")
    begun = time.monotonic()
    assert [server["state"] for server in look(host)] == ["stuck"] * 4
    assert time.monotonic() - begun < 2 * 3.5, "one after the other they would take eight seconds"
