"""What serves on a host, who started it, and what is left over."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.health import status
from stoker.agent.killing import describe
from stoker.agent.processes import procs
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, MARK, PLAIN, ZOO, Host, eventually, free_port, lives

SLEEP = "import signal; print('up', flush=True); signal.pause()"
HEALTHY = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404); self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
server.serve_forever()
"""


def look(host: Host, **params: Any) -> dict[str, Any]:
    return status.status(host.context(), {"engines": ENGINES, "slots": None, **params})


def launch(host: Host, plan: dict[str, Any]) -> dict[str, Any]:
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    eventually(lambda: b"ready" in Path(done["log"]).read_bytes(), "ready")
    return dict(done)


def healthy(host: Host, **changes: Any) -> dict[str, Any]:
    """A plan whose server answers."""
    port = free_port()
    program = host.root / "healthy.py"
    program.write_text(HEALTHY)
    script = f"#!/bin/sh\nexec {sys.executable} {program} {port}\n"
    return host.plan(port=port, script=script, engine=PLAIN, **changes)


def test_a_server_of_ours_is_shown_with_all_that_belongs_to_it(host: Host) -> None:
    host.gpus()
    plan = host.plan("--gpu", host.device(1), gpus=(1,))
    done = launch(host, plan)
    (server,) = look(host)["servers"]
    assert server["launch"] == done
    assert (server["slot"], server["engine"], server["model"]) == ("stable", "zoo", "m")
    assert (server["alive"], server["pid"], server["exit"]) == (True, done["pid"], None)
    assert (server["bind"], server["port"]) == ("127.0.0.1", plan["port"])
    assert server["containment"] in ("shim", "shim+cgroup"), "as the host lets us"
    assert {process["pid"] for process in server["processes"]} == {done["pid"], *host.workers()}
    worker = next(process for process in server["processes"] if process["title"] == "zoo::worker_0")
    assert (worker["gpus"], worker["gpu_mib"]) == ([1], 1000)
    assert server["health"] is None, "it listens and says nothing"
    assert server["proof"]["variables"] == [], "its profile sets none"
    assert 0 <= server["uptime_s"] < 60


def test_health_is_the_answer_of_the_server(host: Host) -> None:
    launch(host, healthy(host))
    (server,) = look(host)["servers"]
    assert server["health"] == 200


def test_a_server_is_compared_with_the_plan_of_its_slot(host: Host) -> None:
    plan = host.plan(env={"NCCL_ALGO": "Ring"})
    plan["script"] = plan["script"].replace("exec", "export NCCL_ALGO=Ring; exec", 1)
    launch(host, plan)
    (server,) = look(host, plans={"stable": plan})["servers"]
    assert server["proof"]["verdict"] == "in-force"
    (server,) = look(host, plans={"stable": {**plan, "env": {"NCCL_ALGO": "Tree"}}})["servers"]
    assert server["proof"]["verdict"] == "not-in-force"


def test_a_server_is_compared_with_what_its_launch_was_given_where_no_plan_is_its_own(host: Host) -> None:
    given = {"env": {"NCCL_ALGO": "Ring", "HF_TOKEN": {"secret": "HF_TOKEN"}}}
    plan = host.plan(resolved=given)
    plan["script"] = plan["script"].replace("exec", "export NCCL_ALGO=Tree HF_TOKEN=x; exec", 1)
    launch(host, plan)
    for plans in ({}, {"stable": {**plan, "profile_hash": "another", "env": {"NCCL_PROTO": "LL"}}}):
        (server,) = look(host, plans=plans)["servers"]
        assert server["proof"]["variables"] == ["HF_TOKEN", "NCCL_ALGO"]
        assert {tuple(worker["changed"]) for worker in server["proof"]["workers"]} == {("NCCL_ALGO",)}


def test_a_server_by_hand_on_a_plans_port_is_compared_with_that_plan(host: Host) -> None:
    port = free_port()
    host.serve("--port", str(port), "--workers", "1")
    plan = host.plan(port=port, env={"NCCL_ALGO": "Ring"})
    (server,) = look(host, plans={"stable": plan})["servers"]
    assert (server["launch"], server["proof"]["workers"][0]["missing"]) == (None, ["NCCL_ALGO"])


def test_whoever_holds_a_gpu_without_being_a_server_is_named(host: Host) -> None:
    host.gpus()
    launch(host, host.plan("--gpu", host.device(1), gpus=(1,)))
    code = f"f = open({host.device(0)!r}); {SLEEP}"
    shell = host.spawn(["/bin/sh", "-c", '"$0" -c "$1"; true', sys.executable, code])  # its living parent
    assert shell.stdout is not None
    assert shell.stdout.readline() == "up\n"
    found = look(host)
    (notebook,) = procs.snapshot(host.context().facts).children(shell.pid)
    assert [process["pid"] for process in found["holders"]] == [notebook.pid]
    assert found["holders"][0]["gpus"] == [0]
    assert found["strays"] == []


def test_a_dead_server_is_shown_with_how_it_ended(host: Host) -> None:
    done = launch(host, host.plan())
    os.kill(done["pid"], signal.SIGKILL)
    eventually(lambda: not lives(done["pid"]), "its end")
    (server,) = look(host)["servers"]
    assert (server["alive"], server["exit"], server["health"]) == (False, {"signal": 9}, None)


def test_after_a_reboot_no_server_is_alive(host: Host) -> None:
    done = launch(host, host.plan())
    host.declare(process_env={MARK: host.mark}, boot_id="another boot")
    found = status.status(host.context(), {"engines": ENGINES})
    ours = [server for server in found["servers"] if server["launch"]]
    assert [(one["alive"], one["processes"], one["containment"]) for one in ours] == [(False, [], "none")]
    assert [(one["host_restarted"], one["state"]) for one in ours] == [(True, "down")]
    assert lives(done["pid"])


def test_how_often_a_slot_was_started_is_counted_by_boots(host: Host) -> None:
    began = launch(host, host.plan())["started_at"]
    launch(host, host.plan())
    (server,) = look(host)["servers"]
    assert server["starts"] == {"launches": 2, "boots": 1, "this_boot": 2, "since": began}
    life.stop(host.context(), {"slot": "stable", "engines": ENGINES})
    host.declare(process_env={MARK: host.mark}, boot_id="another boot")
    params = {"engines": ENGINES, "plan": host.plan()}
    (server,) = status.status(host.context(), params)["servers"]
    assert (server["starts"]["launches"], server["starts"]["this_boot"]) == (2, 0)
    life.restart(host.context(), params)
    (server,) = status.status(host.context(), params)["servers"]
    assert server["starts"] == {"launches": 3, "boots": 2, "this_boot": 1, "since": began}


def test_a_server_that_somebody_started_by_hand_is_found(host: Host) -> None:
    port = free_port()
    pid = host.serve("--port", str(port), "--workers", "1")
    (server,) = look(host)["servers"]
    assert (server["launch"], server["slot"], server["engine"]) == (None, None, "zoo")
    assert (server["pid"], server["bind"], server["port"]) == (pid, "127.0.0.1", port)
    assert {process["pid"] for process in server["processes"]} == {pid, *host.workers()}


def test_only_the_slots_asked_for_are_shown(host: Host) -> None:
    launch(host, host.plan())
    launch(host, host.plan(slot="meadow"))
    host.serve()
    assert [server["slot"] for server in look(host, slots=["meadow"])["servers"]] == ["meadow"]
    assert len(look(host)["servers"]) == 3


def test_what_dead_servers_left_is_shown_as_strays(host: Host) -> None:
    host.gpus()
    launched = launch(host, host.plan("--hold-on"))
    by_hand = host.serve("--hold-on", "--gpu", host.device(0))
    for pid in (launched["pid"], by_hand):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lives(launched["pid"]) and not lives(by_hand), "the launchers' end")
    stale = host.orphan(f"f = open({host.device(1)!r}); {SLEEP}")
    host.python(SLEEP)
    found = {process["pid"]: process["reason"] for process in look(host)["strays"]}
    assert set(found) == {stale, *host.workers()}
    assert "parent is gone" in found[stale]
    assert sum("left by slot stable" in reason for reason in found.values()) == 2


def test_the_host_and_its_gpus_are_described(host: Host) -> None:
    host.gpus(2, charged={"1": 77})
    found = look(host)
    assert found["gpu_state"] == "ok"
    assert [(gpu["index"], gpu["memory_used_mib"]) for gpu in found["gpus"]] == [(0, 0), (1, 77)]
    assert found["host"]["uid"] == os.getuid()
    assert found["host"]["boot_id"]
    assert found["host"]["memory_mib"] > 0
    assert found["host"]["disk_free_mib"] > 0


def test_a_driver_that_cannot_answer_hides_no_server(host: Host) -> None:
    host.gpus(mode="mismatch")
    host.serve()
    found = look(host)
    assert found["gpu_state"] == "unknown"
    assert "mismatch" in found["gpu_why"]
    assert len(found["servers"]) == 1


def test_another_hosts_servers_on_the_same_machine_are_not_shown(host: Host) -> None:
    argv = [sys.executable, str(ZOO / "zooserve"), "serve"]
    child = host.spawn(argv, env={**host.env, MARK: "another"})
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    assert look(host)["servers"] == []
    for process in procs.snapshot(host.context().facts).descendants(child.pid):
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("x --api-key a b --port 1", "x --api-key *** *** --port 1"),
        ("x --hf-token=c HF_TOKEN=d", "x --hf-token=*** HF_TOKEN=***"),
        ("x --max-tokens 5 --tokenizer t", "x --max-tokens 5 --tokenizer t"),
        ("x --ssl-keyfile k.pem", "x --ssl-keyfile k.pem"),
        ("x sk-abcdefghijklmnop http://me:pw@host/", "x *** http://***@host/"),
        ("x --passphrase a --auth=b --cookie c", "x --passphrase *** --auth=*** --cookie ***"),
        (
            "x --env=HF_TOKEN=c --env=A=b http://h/?token=d",
            "x --env=HF_TOKEN=*** --env=A=b http://h/?token=***",
        ),
        ('x {"api_key":"s","port":1} --tls', 'x {"api_key":"***","port":1} --tls'),
        ("", ""),
    ],
)
def test_keys_in_command_lines_are_hidden(typed: str, shown: str) -> None:
    assert " ".join(describe.command(typed.split())) == shown


@pytest.mark.parametrize("sign", ["z", "z=", "://a:", '"a":', '"', "sk-", "\\"])
def test_a_long_word_of_anybodys_process_costs_no_time(sign: str) -> None:
    begin = time.process_time()
    describe.command(["program", sign * (120_000 // len(sign)), "://" + ":" * 120_000])
    assert time.process_time() - begin < 2
