"""A reboot brings the same server back: unit, entry point, and who starts and ends what.

No systemd is the init where tests run: ``programs/systemctl.py`` stands in for it, with real processes; what
the unit file says is held against the real ``systemd-analyze verify`` where that is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.agent.context import AgentError
from stoker.agent.launches import state
from stoker.agent.processes import keeper, procs
from stoker.agent.starting import life, persist
from stoker.fleet import persist as verbs
from stoker.plan import LaunchPlan
from stoker.reach import parcel
from tests.agent.conftest import ENGINES, MARK, Host, eventually, lives
from tests.agent.launched import PROGRAMS

UNIT = "stoker-stable.service"


class Boots:
    """A host whose services systemd keeps.

    Args:
        host: The host.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.folder = host.root / "systemd"
        (self.folder / "units").mkdir(parents=True)
        tool = host.bin / "systemctl"
        tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S {PROGRAMS}/systemctl.py {self.folder} "$@"\n')
        tool.chmod(0o755)
        self.declare()

    def declare(self, **facts: Any) -> None:
        booted, units = str(self.folder), str(self.folder / "units")
        mark = {MARK: self.host.mark}
        self.host.declare(systemd_dir=booted, unit_dir=units, process_env=mark, **facts)

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def journal(self) -> str:
        return (self.folder / "journal").read_text()

    def systemctl(self, *words: str) -> int:
        return subprocess.run(
            [self.host.bin / "systemctl", *words], env=self.host.env, check=False
        ).returncode

    def is_active(self) -> bool:
        return self.systemctl("is-active", UNIT) == 0

    def main_pid(self) -> int:
        return int((self.folder / "state" / UNIT).read_text().split()[0])


@pytest.fixture
def boots(host: Host) -> Boots:
    return Boots(host)


def op(host: Host, do: str, plan: dict[str, Any], **more: Any) -> dict[str, Any]:
    return persist.persist(host.context(), {"do": do, "plan": plan, "engines": ENGINES, **more})


def texts(there: dict[str, Any], plan: dict[str, Any]) -> tuple[str, str]:
    named = json.loads(json.dumps(plan), object_hook=lambda found: SimpleNamespace(**found))
    return verbs.texts(cast("LaunchPlan", named), there)


def put(host: Host, plan: dict[str, Any]) -> dict[str, Any]:
    unit, entry = texts(op(host, "look", plan), plan)
    return op(host, "put", plan, unit=unit or None, entry=entry, modules=parcel.modules())


def restart(host: Host, plan: dict[str, Any], **params: Any) -> dict[str, Any]:
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES, **params})
    eventually(lambda: b"ready" in Path(done["launch"]["log"]).read_bytes(), "ready")
    return done


def current(host: Host) -> dict[str, Any]:
    found = state.current(host.context().home, "stable")
    assert found is not None
    return found


def environment(pid: int) -> dict[str, str]:
    env = dict(procs.environ_of(pid) or {})
    env.pop("STOKER_LAUNCH")
    return env


def is_ready(host: Host) -> bool:
    return b"ready" in Path(current(host)["log"]).read_bytes()


def test_the_same_server_comes_back_as_it_was(boots: Boots) -> None:
    host = boots.host
    host.env["HF_HOME"] = "/models with blank"
    plan = host.plan("--workers", "2", inherit=("HF_HOME",), secrets={"HF_TOKEN": "a 'b'\nc"})
    plan["script"] = plan["script"].replace("exec", '. "$(dirname "$0")/secrets.env"; exec', 1)
    by_hand = restart(host, plan)["launch"]
    env, command = environment(by_hand["pid"]), Path(f"/proc/{by_hand['pid']}/cmdline").read_bytes()
    assert env["HF_TOKEN"] == "a 'b'\nc"
    done = put(host, plan)
    assert (done["manager"], done["unit"], done["enabled"]) == (
        "system" if os.getuid() == 0 else "user",
        UNIT,
        True,
    )
    assert lives(by_hand["pid"]), "what runs is left alone"
    assert "start" not in " ".join(boots.calls)
    life.kill(host.context(), {"engines": ENGINES, "slot": "stable"})
    shutil.rmtree(Path(host.context().home) / "slots" / "stable" / "launches")  # nothing of it is needed
    assert boots.systemctl("start", UNIT) == 0, boots.journal()
    eventually(lambda: is_ready(host), "ready")
    back = current(host)
    assert (back["unit"], back["profile_hash"]) == (UNIT, plan["profile_hash"])
    assert environment(back["pid"]) == env
    assert Path(f"/proc/{back['pid']}/cmdline").read_bytes() == command
    members, how = state.members(procs.snapshot(host.context().facts), back)
    assert "shim" in how
    assert {member.pid for member in members} == {back["pid"], *host.workers()}


def test_no_secret_stands_in_the_unit_or_in_the_plan_and_files_are_the_accounts_own(boots: Boots) -> None:
    host = boots.host
    done = put(host, host.plan(secrets={"HF_TOKEN": "hush"}))
    folder = Path(done["folder"])
    holding = [path.name for path in folder.iterdir() if b"hush" in path.read_bytes()]
    assert holding == ["secrets.env"]
    assert b"hush" not in Path(done["path"]).read_bytes()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert (modes["secrets.env"], modes["boot.json"], modes["start.sh"]) == (0o600, 0o600, 0o700)


def test_a_restart_runs_in_the_unit_and_ends_the_old_server_through_it(boots: Boots) -> None:
    host = boots.host
    plan = host.plan()
    put(host, plan)
    first = restart(host, plan)["launch"]
    assert first["unit"] == UNIT
    assert boots.is_active()
    again = restart(host, plan)
    second = again["launch"]
    assert not lives(first["pid"])
    assert lives(second["pid"])
    assert state.exit_of(host.context().home, first) == {"code": 0}, "it was ended politely"
    assert first["pid"] in {process["pid"] for process in again["kill"]["ended"]}
    assert [call.split()[0] for call in boots.calls if call.split()[0] in ("start", "stop")] == [
        "start",
        "stop",
        "start",
    ]
    names = [step["name"] for step in again["steps"]]
    assert names.index(f"systemctl stop {UNIT}") < names.index(f"systemctl start {UNIT}")
    assert second == current(host)
    assert "".join(step["detail"] for step in again["steps"] if "systemctl start" in step["name"]) == ""
    other = restart(host, {**plan, "profile": "zorse", "profile_hash": "fedcba987654"})
    (told,) = [step["detail"] for step in other["steps"] if "systemctl start" in step["name"]]
    assert "a reboot brings zebra back" in told


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_stop_and_kill_go_through_systemctl_and_leave_the_unit_inactive(boots: Boots, how: str) -> None:
    host = boots.host
    plan = host.plan()
    put(host, plan)
    done = restart(host, plan)["launch"]
    main = boots.main_pid()
    report = getattr(life, how)(host.context(), {"engines": ENGINES, "slot": "stable"})
    assert report["released"]["processes"]
    assert report["released"]["port"]
    assert not any(map(lives, (done["pid"], done["shim_pid"], main, *host.workers())))
    assert f"stop {UNIT}" in boots.calls
    assert not boots.is_active()


def test_systemctl_stop_by_hand_is_a_clean_kill_with_the_hooks(boots: Boots) -> None:
    host = boots.host
    note = host.root / "hooked"
    hooks = {"before_stop": [f"echo out >>{note}"], "after_ready": [], "drain_s": 0.0}
    plan = host.plan("--workers", "2", resolved={"hooks": hooks})
    plan["hooks"] = hooks
    put(host, plan)
    assert boots.systemctl("start", UNIT) == 0, boots.journal()
    eventually(lambda: is_ready(host), "ready")
    done = current(host)
    assert boots.systemctl("stop", UNIT) == 0
    assert not any(map(lives, (done["pid"], done["shim_pid"], *host.workers())))
    assert note.read_text() == "out\n"
    restart(host, plan)
    life.stop(host.context(), {"engines": ENGINES, "slot": "stable"})
    assert note.read_text() == "out\nout\n", "the agent ran them, and the unit not once more"


def test_a_unit_that_cannot_be_started_does_not_keep_the_server_down(boots: Boots) -> None:
    host = boots.host
    plan = host.plan()
    put(host, plan)
    (boots.folder / "refuse").write_text("start stop")
    done = restart(host, plan)
    assert done["launch"]["unit"] == ""
    assert lives(done["launch"]["pid"])
    (step,) = [step for step in done["steps"] if step["name"] == f"systemctl start {UNIT}"]
    assert "Access denied" in step["detail"]


def test_a_unit_whose_stop_fails_does_not_keep_the_server_up(boots: Boots) -> None:
    host = boots.host
    plan = host.plan()
    put(host, plan)
    done = restart(host, plan)["launch"]
    (boots.folder / "refuse").write_text("stop")
    life.kill(host.context(), {"engines": ENGINES, "slot": "stable"})
    assert not any(map(lives, (done["pid"], done["shim_pid"])))


def test_a_crash_of_the_server_is_a_failed_unit_and_nobody_brings_it_back(boots: Boots) -> None:
    host = boots.host
    plan = host.plan()
    put(host, plan)
    done = restart(host, plan)["launch"]
    main = boots.main_pid()
    for pid in (done["pid"], *host.workers()):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lives(main), "the main process's end")
    assert not boots.is_active()
    assert not host.workers()


def test_the_unit_does_not_start_over_a_server_that_runs_outside_of_it(boots: Boots) -> None:
    host = boots.host
    plan = host.plan()
    done = restart(host, plan)["launch"]
    put(host, plan)
    assert boots.systemctl("start", UNIT) == 1
    assert "already-running" in boots.journal()
    assert lives(done["pid"])


def test_to_persist_twice_changes_nothing_and_another_profile_is_a_change(boots: Boots) -> None:
    host = boots.host
    plan = host.plan()
    assert put(host, plan)["changed"]
    calls = len(boots.calls)
    assert not put(host, plan)["changed"]
    assert "daemon-reload" not in boots.calls[calls:]
    other = {**plan, "profile": "zorse", "profile_hash": "fedcba987654"}
    there = op(host, "look", other)
    assert there["installed"] == {"profile": "zebra", "profile_hash": "0123456789ab"}
    assert "zorse" in texts(there, other)[0]
    assert put(host, other)["changed"]


def test_looking_touches_nothing(boots: Boots) -> None:
    host = boots.host
    before = sorted(path for path in host.home.rglob("*"))
    op(host, "look", host.plan())
    assert sorted(path for path in host.home.rglob("*")) == before
    assert not list((boots.folder / "units").iterdir())


def test_removing_takes_unit_and_files_away_and_leaves_the_server_alone(boots: Boots) -> None:
    host = boots.host
    plan = host.plan()
    put(host, plan)
    done = restart(host, plan)["launch"]
    removed = persist.persist(host.context(), {"do": "remove", "slot": "stable"})
    assert removed["changed"]
    assert lives(done["pid"])
    assert not list((boots.folder / "units").iterdir())
    assert not Path(removed["folder"]).exists()
    assert f"disable {UNIT}" in boots.calls
    (boots.folder / "units" / UNIT).write_text(
        "TimeoutStopSec=60\n"
    )  # the real one remembers what it started
    life.stop(host.context(), {"engines": ENGINES, "slot": "stable"})
    assert not lives(done["pid"])
    (boots.folder / "units" / UNIT).unlink()
    assert not persist.persist(host.context(), {"do": "remove", "slot": "stable"})["changed"]


def test_a_unit_of_that_name_that_is_not_ours_is_not_overwritten(boots: Boots) -> None:
    host = boots.host
    theirs = boots.folder / "units" / UNIT
    theirs.write_text("[Service]\nExecStart=/bin/true\n")
    with pytest.raises(AgentError) as caught:
        put(host, host.plan())
    assert "somebody else's" in caught.value.what
    assert theirs.read_text() == "[Service]\nExecStart=/bin/true\n"
    assert restart(host, host.plan())["launch"]["unit"] == "", "and nothing is started through it"


def test_systemctl_that_refuses_is_told(boots: Boots) -> None:
    (boots.folder / "refuse").write_text("enable")
    with pytest.raises(AgentError) as caught:
        put(boots.host, boots.host.plan())
    assert (caught.value.kind, "Access denied" in caught.value.what) == ("io", True)


def test_our_unit_brings_nothing_back_and_any_other_does() -> None:
    assert keeper.unit_of(f"/system.slice/{UNIT}") is None
    assert keeper.unit_of(f"/system.slice/{UNIT}/stoker-stable-0123456789ab") is None
    assert keeper.unit_of("/system.slice/vllm.service") is not None


# Without systemd.


def without_systemd(host: Host) -> None:
    """Whatever the machine's own init is."""
    host.declare(systemd_dir=str(host.root / "absent"), process_env={MARK: host.mark})


def entry_point(host: Host, **options: Any) -> subprocess.Popen[str]:
    """Run the entry point as a container or cron does: with next to no environment."""
    script = Path(host.context().home) / "slots" / "stable" / "persist" / "start.sh"
    return host.spawn([str(script)], env={"PATH": "/usr/bin:/bin", MARK: host.mark}, cwd="/", **options)


def test_without_systemd_an_entry_point_starts_the_server_stays_and_ends_it(host: Host) -> None:
    without_systemd(host)
    plan = host.plan("--workers", "2")
    done = put(host, plan)
    assert (done["manager"], done["unit"], done["enabled"]) == ("", "", False)
    assert "not the init" in done["why"]
    process = entry_point(host)
    eventually(lambda: state.current(host.context().home, "stable") and is_ready(host), "ready")
    launched = current(host)
    assert (launched["unit"], process.poll()) == ("", None)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not any(map(lives, (launched["pid"], launched["shim_pid"], *host.workers())))
    assert state.exit_of(host.context().home, launched) == {"code": 0}


def test_an_end_that_is_told_before_anything_was_begun_is_heard(host: Host) -> None:
    """As PID 1 of a container, a process is not ended by what it has no handler for."""
    without_systemd(host)
    put(host, host.plan())
    process = entry_point(host)
    status = Path("/proc", str(process.pid), "status")
    eventually(lambda: int(status.read_text().split("SigCgt:")[1].split()[0], 16) >> 14 & 1, "a handler")
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert process.stdout is not None
    assert process.stdout.read() == ""
    assert not state.current(host.context().home, "stable")


@pytest.mark.parametrize("wait_ms", [0, 20, 60])
def test_an_end_that_is_told_during_the_start_undoes_it(host: Host, wait_ms: int) -> None:
    """A container that is stopped while it starts must not leave a server behind."""
    without_systemd(host)
    put(host, host.plan("--workers", "2"))
    process = entry_point(host)
    launches = Path(host.context().home) / "slots" / "stable" / "launches"
    eventually(lambda: list(launches.glob("*/launcher")), "the launcher")
    time.sleep(wait_ms / 1000)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    launched = current(host)
    assert not any(map(lives, (launched["pid"], launched["shim_pid"], *host.workers())))


def test_an_end_that_is_told_while_it_waits_for_what_a_boot_brings_is_heard(host: Host) -> None:
    without_systemd(host)
    plan = host.plan()
    put(host, {**plan, "model": "/nowhere/model", "model_path": "/nowhere/model"})
    process = entry_point(host)
    assert process.stdout is not None
    assert any("preflight" in line for line in process.stdout)
    process.send_signal(signal.SIGTERM)
    assert process.wait(3) == 0


def test_the_entry_point_ends_with_the_servers_own_status(host: Host) -> None:
    without_systemd(host)
    put(host, host.plan(script="#!/bin/sh\nsleep 0.2\nexit 7\n"))
    assert entry_point(host).wait(20) == 7


def test_the_entry_point_says_why_it_cannot_start(host: Host) -> None:
    without_systemd(host)
    plan = host.plan()
    restart(host, plan)
    put(host, plan)
    process = entry_point(host)
    assert process.wait(20) == 3
    assert process.stdout is not None
    assert "already-running" in process.stdout.read()


def test_a_kill_by_the_agent_ends_the_entry_point_too(host: Host) -> None:
    without_systemd(host)
    put(host, host.plan())
    process = entry_point(host)
    eventually(lambda: state.current(host.context().home, "stable") and is_ready(host), "ready")
    life.kill(host.context(), {"engines": ENGINES, "slot": "stable"})
    assert process.wait(20) == 0


def test_a_simulated_host_never_touches_the_machines_own_systemd(host: Host) -> None:
    host.declare(simulated=True, process_env={MARK: host.mark})
    assert op(host, "look", host.plan())["manager"] == ""


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("kind", ["system", "user"])
def test_the_unit_is_one_for_the_real_systemd(boots: Boots, tmp_path: Path, kind: str) -> None:
    host = boots.host
    odd = tmp_path / 'mo "del" 100% $x'
    odd.mkdir()
    plan = host.plan(model_path=str(odd), profile="run:20260101-x")
    there = {**op(host, "look", plan), "manager": kind, "archive": str(odd / "agent.zip"), "folder": str(odd)}
    text, _ = texts(there, plan)
    path = tmp_path / UNIT
    path.write_text(text)
    mode = ["--user"] if kind == "user" else []
    verified = subprocess.run(
        ["systemd-analyze", *mode, "--man=no", "--recursive-errors=no", "verify", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_a_wrong_unit_would_be_found(tmp_path: Path) -> None:
    path = tmp_path / UNIT
    path.write_text("[Service]\nType=nonsense\nExecStart=relative\n")
    argv = ["systemd-analyze", "--man=no", "--recursive-errors=no", "verify", str(path)]
    verified = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert verified.returncode != 0 or verified.stderr
