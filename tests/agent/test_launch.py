"""Restart and start: what is checked first, what a server is born with, and what outlives whom."""

from __future__ import annotations

import errno
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker import engines
from stoker.agent.context import AgentError
from stoker.agent.launches import state
from stoker.agent.launches.locks import lock_set
from stoker.agent.processes import procs
from stoker.agent.starting import launch, life, preflight, prepare
from tests.agent.conftest import ENGINE, ENGINES, MARK, PLAIN, Host, eventually, free_port, lives

SLEEP = "#!/bin/sh\nexec sleep 60\n"


def restart(host: Host, plan: dict[str, Any], **params: Any) -> dict[str, Any]:
    return life.restart(host.context(), {"plan": plan, "engines": ENGINES, **params})


def refused(host: Host, plan: dict[str, Any], **params: Any) -> AgentError:
    with pytest.raises(AgentError) as caught:
        restart(host, plan, **params)
    return caught.value


def up(launched: dict[str, Any]) -> None:
    eventually(lambda: b"ready" in Path(launched["log"]).read_bytes(), "ready")


def environ(pid: int) -> dict[str, str]:
    return procs.environ_of(pid) or {}


def test_a_restart_replaces_the_old_server(host: Host) -> None:
    port = free_port()
    first = restart(host, host.plan(port=port))["launch"]
    up(first)
    done = restart(host, host.plan(port=port, profile="zorse"))
    second = done["launch"]
    up(second)
    assert not lives(first["pid"])
    assert first["pid"] in {process["pid"] for process in done["kill"]["ended"]}
    assert [row.pid for row in procs.listeners(port)] == [second["pid"]]
    assert (second["profile"], second["slot"], second["port"]) == ("zorse", "stable", port)
    assert {check["ok"] for check in done["preflight"]} == {True}
    assert done["seconds"] < 10
    assert state.current(host.context().home, "stable") == second


def test_a_server_is_born_with_a_fixed_environment_and_nothing_else(host: Host) -> None:
    host.gpus()
    host.env |= {"LD_LIBRARY_PATH": "/login", "HF_HOME": "/models", "NCCL_ALGO": "Tree", "LC_ALL": "C"}
    plan = host.plan(gpus=("GPU-zoo-1", 0), inherit=("HF_HOME", "ABSENT"), engine=PLAIN, script=SLEEP)
    done = restart(host, plan)["launch"]
    eventually(lambda: procs.look(done["pid"]).comm == "sleep", "the sleep")  # type: ignore[union-attr]
    env = environ(done["pid"])
    assert {name: value for name, value in env.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")} == {
        "HOME": str(host.home),
        "USER": "zoo",
        "LOGNAME": "zoo",
        "SHELL": "/bin/sh",
        "PATH": host.env["PATH"],
        "HF_HOME": "/models",
        "STOKER_GPUS": "GPU-zoo-1,GPU-zoo-0",
        "STOKER_LAUNCH": done["marker"],
        MARK: host.mark,
    }
    assert done["gpus"] == [1, 0]


def test_a_server_inherits_no_descriptor_of_the_agent(host: Host) -> None:
    with socket.socket() as open_here:
        os.set_inheritable(open_here.fileno(), True)
        done = restart(host, host.plan(engine=PLAIN, script=SLEEP))["launch"]
    for pid in (done["pid"], done["shim_pid"]):
        assert {link.name for link in Path(f"/proc/{pid}/fd").iterdir()} == {"0", "1", "2"}
    assert Path(f"/proc/{done['pid']}/cwd").readlink() == host.home


def test_locks_are_free_after_a_restart(host: Host) -> None:
    restart(host, host.plan())
    assert lock_set(host.context()).listing() == []


def test_the_script_that_ran_is_kept_as_it_was(host: Host) -> None:
    script = "#!/bin/sh\n# ünïcode 'quotes' $HOME\nexec sleep 60\n"
    done = restart(host, host.plan(engine=PLAIN, script=script))["launch"]
    slot = Path(host.context().home) / "slots/stable"
    assert Path(done["script"]).read_text() == (slot / "launch.sh").read_text() == script
    assert (slot / "launch.sh").stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in slot.iterdir()) == ["current", "launch.sh", "launches"]


def test_secrets_are_in_a_closed_file_beside_each_script_and_nowhere_else(host: Host) -> None:
    secret = "s3cret 'with' $signs"
    script = '#!/bin/sh\n. "$(dirname "$0")/secrets.env"\nexport TOKEN\nexec sleep 60\n'
    plan = host.plan(engine=PLAIN, script=script, secrets={"TOKEN": secret})
    done = restart(host, plan)["launch"]
    eventually(lambda: environ(done["pid"]).get("TOKEN") == secret, "the secret in the server")
    slot = Path(host.context().home) / "slots/stable"
    holders = [path for path in slot.rglob("*") if path.is_file() and "s3cret" in path.read_text()]
    assert set(holders) == {slot / "secrets.env", Path(done["script"]).with_name("secrets.env")}
    assert [path.stat().st_mode & 0o777 for path in holders] == [0o600, 0o600]
    assert "s3cret" not in json.dumps(done) + json.dumps(host.events)
    restart(host, host.plan(engine=PLAIN, script=SLEEP))
    assert not (slot / "secrets.env").exists(), "a secret outlived its profile"


def failing(host: Host, case: str) -> dict[str, Any]:
    """A plan that one check refuses."""
    host.gpus()
    python = replace(ENGINE, import_name="zoo_module_that_is_not_there")
    empty = host.root / "empty.gguf"
    empty.touch()
    changes: dict[str, dict[str, Any]] = {
        "program": {"engine": PLAIN, "argv": ("no-such-program", "serve")},
        "import": {"engine": python, "python": sys.executable},
        "python": {"engine": python, "python": "/no/such/python"},
        "model": {"model_path": "/no/such/model"},
        "empty": {"model_path": str(empty)},
        "gpu": {"gpus": (0, 7)},
        "address": {"bind": "192.0.2.1"},
        "name": {"bind": "no-such-name.invalid"},
        "script": {"script": "#!/bin/sh\nif true; then\n"},
        "interpreter": {"script": "#!/no/such/shell\n"},
        "variable": {"env": {"BIG": "x" * 140_000}},
        "secret": {"engine": python, "python": sys.executable, "secrets": {"BIG": "x" * 140_000}},
        "argument": {"argv": ("sleep", "x" * 140_000)},
        "all": {"env": {f"V{number}": "x" * 120_000 for number in range(60)}},
    }
    return host.plan(**changes[case])


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("program", "no-such-program is not on the PATH"),
        ("import", "No module named 'zoo_module_that_is_not_there'"),
        ("python", "/no/such/python does not exist"),
        ("model", "/no/such/model: No such file or directory"),
        ("empty", "empty.gguf is empty"),
        ("gpu", "GPU 7 is not there; the host has 2 GPUs"),
        ("address", "192.0.2.1 is no address of this host"),
        ("name", "no-such-name.invalid is no address"),
        ("script", "the launch script is no shell script"),
        ("interpreter", "/no/such/shell does not exist"),
        ("variable", "BIG has 140005 bytes, the kernel takes 131072 in one string"),
        ("secret", "BIG has 140005 bytes"),
        ("argument", "argument 1 has 140001 bytes"),
        ("all", "arguments and environment have 72"),
    ],
)
def test_what_would_not_start_is_refused_before_the_first_signal(host: Host, case: str, told: str) -> None:
    plan = failing(host, case)
    old = restart(host, host.plan(port=plan["port"]))["launch"]
    error = refused(host, plan)
    assert error.kind == "preflight"
    assert told in error.what
    assert procs.alive(old["pid"], old["start"])
    assert state.current(host.context().home, "stable") == old
    assert [check["name"] for check in error.detail["preflight"] if not check["ok"]]


def test_setup_lines_of_the_script_hold_for_the_import_too(host: Host) -> None:
    folder = host.root / "modules"
    folder.mkdir()
    (folder / "zoo_engine.py").write_text("__version__ = '1.2'")
    engine = replace(ENGINE, import_name="zoo_engine")
    setup = [f"export PYTHONPATH={folder}"]
    assert refused(host, host.plan(engine=engine), check=True).kind == "preflight"
    done = restart(host, host.plan(engine=engine, setup=setup), check=True)
    (program,) = [check for check in done["preflight"] if check["name"] == "program"]
    assert program["detail"].endswith("imports zoo_engine 1.2")


def test_a_script_without_a_named_interpreter_is_tried_with_its_own(host: Host) -> None:
    program = host.bin / "zoo-engine"
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    engine = replace(ENGINE, import_name="zoo_module_that_is_not_there")
    script = "#!/bin/sh\nexec zoo-engine\n"
    plan = host.plan(engine=engine, python="", argv=("zoo-engine",), script=script, path=str(host.bin))
    host.env["PATH"] = "/usr/bin:/bin"
    assert "No module named" in refused(host, plan, check=True).what


def test_setup_that_fails_is_told_before_the_first_signal(host: Host) -> None:
    plan = host.plan(setup=["echo no such module >&2; false"])
    error = refused(host, plan, check=True)
    assert error.kind == "preflight"
    assert "no such module" in error.what


def test_a_wildcard_is_free_where_each_of_its_addresses_is(host: Host) -> None:
    done = restart(host, host.plan(bind=""), check=True)
    (address,) = [check for check in done["preflight"] if check["name"] == "address"]
    assert address["ok"] and "0.0.0.0" in address["detail"]
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        assert refused(host, host.plan(bind="", port=stranger.getsockname()[1])).kind == "blocked"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_port_that_only_root_may_take_is_told(host: Host) -> None:
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) <= 81:
        pytest.skip("here anybody may take it")
    wanted = host.plan(port=81)
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        try:
            preflight._address(host.context(), wanted, ("127.0.0.1",), ())
        except Exception as error:
            os._exit(0 if "reserved for root" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_home_that_cannot_be_written_is_told_with_its_path_and_ends_nothing(host: Host) -> None:
    port = free_port()
    old = host.serve("--port", str(port))
    Path(host.context().home).write_text("a file in place of a folder")
    error = refused(host, host.plan(port=port))
    assert error.kind == "io"
    assert str(host.context().home) in error.what
    assert lives(old)


def test_a_disk_that_gets_full_ends_nothing_and_keeps_nothing_of_the_launch(host: Host) -> None:
    first = life.restart(host.context(), {"plan": host.plan(), "engines": ENGINES})["launch"]
    slot = Path(host.context().home) / "slots" / "stable"
    before = sorted(path for path in slot.rglob("*") if path.is_file())
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limit[1]))  # the script fits, the supervisor does not
    try:
        with pytest.raises(AgentError) as caught:
            life.restart(host.context(), {"plan": host.plan(secrets={"KEY": "abcdef"}), "engines": ENGINES})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caught.value.kind == "io"
    assert lives(first["pid"])
    assert sorted(path for path in slot.rglob("*") if path.is_file()) == before
    assert len(list((slot / "launches").iterdir())) == 1


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "df -h /a"), (errno.EROFS, "findmnt -T /a"), (errno.EACCES, "make /a/b writable")],
)
def test_what_cannot_be_written_says_what_to_do_about_it(number: int, advice: str) -> None:
    assert advice in state.io_error("/a/b", OSError(number, os.strerror(number))).next_step


def test_a_check_touches_nothing(host: Host) -> None:
    port = free_port()
    old = host.serve("--port", str(port))
    before = sorted(host.root.rglob("*"))
    done = restart(host, host.plan(port=port), check=True)
    assert done["launch"] is None
    assert old in {process["pid"] for process in done["kill"]["ended"]}
    assert {check["ok"] for check in done["preflight"]} == {True}
    assert sorted(host.root.rglob("*")) == before
    assert lives(old)


def test_a_start_where_the_same_profile_runs_is_done(host: Host) -> None:
    plan = host.plan()
    first = restart(host, plan, replace=False)
    again = restart(host, plan, replace=False)
    assert (first["already_running"], again["already_running"]) == (False, True)
    assert again["launch"] == first["launch"]
    assert again["kill"]["ended"] == []


def test_a_start_where_another_profile_runs_is_refused(host: Host) -> None:
    old = restart(host, host.plan())["launch"]
    error = refused(host, host.plan(profile_hash="ba9876543210"), replace=False)
    assert error.kind == "already-running"
    assert error.detail["launch"] == old
    assert lives(old["pid"])


def test_a_start_ends_no_server_that_was_started_by_hand(host: Host) -> None:
    port = free_port()
    old = host.serve("--port", str(port))
    error = refused(host, host.plan(port=port), replace=False)
    assert error.kind == "blocked"
    assert str(old) in error.what
    assert lives(old)


def test_a_start_clears_away_what_a_dead_server_of_its_slot_left(host: Host) -> None:
    first = restart(host, host.plan("--hold-on"))["launch"]
    up(first)
    left = host.workers()
    os.kill(first["pid"], signal.SIGKILL)
    eventually(lambda: not lives(first["pid"]), "the launcher's end")
    done = restart(host, host.plan(), replace=False)
    assert {process["pid"] for process in done["kill"]["ended"]} == set(left)
    assert not any(map(lives, left))
    assert lives(done["launch"]["pid"])


def test_after_a_reboot_a_start_starts(host: Host) -> None:
    plan = host.plan()
    first = restart(host, plan)["launch"]
    host.declare(boot_id="another boot")
    os.kill(first["pid"], signal.SIGTERM)  # the reboot did that
    eventually(lambda: not lives(first["shim_pid"]), "the end of all")
    again = restart(host, plan, replace=False)
    assert again["already_running"] is False
    assert again["launch"]["boot_id"] == "another boot"


def test_a_server_that_ends_at_once_is_told_with_the_cause_that_its_engine_names(host: Host) -> None:
    script = "#!/bin/sh\necho vllm: error: unrecognized arguments: --tp; exit 2\n"
    error = refused(host, host.plan(engine=engines.get("vllm"), script=script, python="", argv=("sh",)))
    assert (error.kind, error.detail["cause"]) == ("died", "bad-argument")
    assert "unrecognized arguments" in error.what


def test_a_server_that_ends_at_once_is_told_with_its_last_lines(host: Host) -> None:
    error = refused(host, host.plan(engine=PLAIN, script="#!/bin/sh\necho no such flag: --tp\nexit 3\n"))
    assert error.kind == "died"
    assert "exit status 3" in error.what
    assert error.evidence == ["no such flag: --tp"]
    told = {name: error.detail[name] for name in ("cause", "exit", "alive", "log")}
    log = error.detail["launch"]["log"]
    assert told == {"cause": "unknown", "exit": {"code": 3}, "alive": False, "log": log}
    assert error.detail["kill"]["ended"] == []
    assert Path(error.detail["launch"]["log"]).read_text() == "no such flag: --tp\n"


def test_the_last_launches_are_kept(host: Host) -> None:
    home = Path(host.context().home)
    launches = home / "slots/stable/launches"
    for number in range(25):
        (launches / f"2000{number:02d}").mkdir(parents=True)
    done = restart(host, host.plan(engine=PLAIN, script=SLEEP))["launch"]
    kept = state.history(str(home), "stable")
    assert kept == [f"2000{number:02d}" for number in range(6, 25)] + [done["launch_id"]]


def test_a_launch_that_still_has_processes_is_kept(host: Host) -> None:
    home = Path(host.context().home)
    old = restart(host, host.plan(engine=PLAIN, script=SLEEP))["launch"]
    for number in range(25):
        (home / f"slots/stable/launches/3000{number:02d}").mkdir()
    launch.rotate(host.context(), "stable")
    assert state.recorded(str(home), "stable", old["launch_id"]) == old


def test_a_failed_kill_leaves_no_draft_of_the_next_launch(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.gpus(charged={"0": 9000})
    monkeypatch.setattr(life, "SETTLE_S", 0.1)
    old = restart(host, host.plan(engine=PLAIN, script=SLEEP))["launch"]
    assert refused(host, host.plan(gpus=(0,))).kind == "blocked"
    slot = Path(host.context().home) / "slots/stable"
    assert sorted(path.name for path in slot.iterdir()) == ["current", "launch.sh", "launches"]
    assert state.history(host.context().home, "stable") == [old["launch_id"]]


def test_a_server_whose_record_cannot_be_written_is_not_left_running(host: Host) -> None:
    ctx = host.context()
    prepared = prepare.prepare(ctx, host.plan(engine=PLAIN, script=SLEEP), ())
    (Path(prepared.slot_dir) / "current").mkdir()
    with pytest.raises(AgentError) as caught:
        launch.start(ctx, prepared)
    assert caught.value.kind == "io"
    eventually(lambda: not host.mine(), "its end")


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("#!/bin/bash -eu\nx", ["/bin/bash", "-eu"]),
        ("#! /usr/bin/env  bash\nx", ["/usr/bin/env", "bash"]),
        ("exec x\n", ["/bin/sh"]),
        ("", ["/bin/sh"]),
    ],
)
def test_a_script_is_run_by_what_its_first_line_says(script: str, command: list[str]) -> None:
    assert prepare.interpreter(script) == command


class Wire:
    """A controller that speaks to an agent of its own process."""

    def __init__(self, host: Host) -> None:
        code = "from stoker.agent.main import main; main(0, 1, 'zoo', 45.0)"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            env=host.env,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        host.children.append(self.process)  # type: ignore[arg-type]
        assert "hello" in self.read()

    def send(self, **message: Any) -> None:
        body = json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(struct.pack("!I", len(body)) + body)
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        (size,) = struct.unpack("!I", self._exactly(4))
        return dict(json.loads(self._exactly(size)))

    def _exactly(self, size: int) -> bytes:
        assert self.process.stdout is not None
        data = b""
        while len(data) < size:
            assert select.select([self.process.stdout], [], [], 20)[0], "the agent is silent"
            more = os.read(self.process.stdout.fileno(), size - len(data))
            assert more, "the agent has ended"
            data += more
        return data

    def until(self, step: str) -> None:
        """Read events until this step begins."""
        while True:
            event = self.read().get("event", {})
            if (event.get("name"), event.get("state")) == (step, "begin"):
                return


def test_a_server_outlives_an_agent_that_is_killed(host: Host) -> None:
    wire = Wire(host)
    wire.send(id=1, op="restart", params={"plan": host.plan(), "engines": ENGINES})
    while "result" not in (message := wire.read()):
        assert "error" not in message, message
    done = message["result"]["launch"]
    wire.process.kill()
    wire.process.wait()
    up(done)
    assert procs.alive(done["pid"], done["start"])


@pytest.mark.parametrize("how", ["end of input", "SIGTERM", "cancel"])
def test_after_the_first_signal_kill_and_launch_are_finished_whoever_leaves(host: Host, how: str) -> None:
    port = free_port()
    old = restart(host, host.plan("--deaf", port=port))["launch"]
    up(old)
    wire = Wire(host)
    wire.send(id=1, op="restart", params={"plan": host.plan(port=port, profile="zorse"), "engines": ENGINES})
    wire.until("terminate")
    if how == "end of input":
        assert wire.process.stdin is not None
        wire.process.stdin.close()
    elif how == "SIGTERM":
        wire.process.send_signal(signal.SIGTERM)
    else:
        wire.send(cancel=1)
    home = host.context().home
    new = eventually(
        lambda: (state.current(home, "stable") or {}).get("profile") == "zorse", "the new launch"
    )
    assert new
    done = state.current(home, "stable")
    assert done is not None
    up(done)
    assert not lives(old["pid"])
    assert [row.pid for row in procs.listeners(port)] == [done["pid"]]


def test_before_the_first_signal_a_cancel_leaves_the_old_server(host: Host) -> None:
    port = free_port()
    old = restart(host, host.plan(port=port))["launch"]
    engine = replace(ENGINE, import_name="zoo_slow")
    (host.root / "zoo_slow.py").write_text("import time; time.sleep(60)")
    wire = Wire(host)
    plan = host.plan(port=port, engine=engine, setup=[f"export PYTHONPATH={host.root}"])
    wire.send(id=1, op="restart", params={"plan": plan, "engines": ENGINES})
    wire.until("preflight")
    began = time.monotonic()
    wire.send(cancel=1)
    while "error" not in (message := wire.read()):
        assert "result" not in message
    assert message["error"]["kind"] == "cancelled"
    assert time.monotonic() - began < 10
    assert procs.alive(old["pid"], old["start"])
    assert lock_set(host.context()).listing() == []
