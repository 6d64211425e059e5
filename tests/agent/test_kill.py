"""Clean kills of real process trees, proved on /proc."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError
from stoker.agent.gpus import gpu
from stoker.agent.killing import claim, clean, look, orders, scope, signals
from stoker.agent.launches import state
from stoker.agent.launches.locks import lock_set, slot_lock
from stoker.agent.processes import procs
from stoker.agent.starting import life
from tests.agent.conftest import (
    ENGINE,
    ENGINES,
    PLAIN,
    ZOO,
    Host,
    eventually,
    free_port,
    lives,
    start_of,
)

SLEEP = "import signal; print('up', flush=True); signal.pause()"


def kill(host: Host, **params: Any) -> dict[str, Any]:
    return life.kill(host.context(), {"engines": ENGINES, **params})


def refused(host: Host, **params: Any) -> AgentError:
    with pytest.raises(AgentError) as caught:
        kill(host, **params)
    return caught.value


def fails(host: Host, patience: orders.Patience, agreed: Any = None, **params: Any) -> AgentError:
    """What a kill ends with that is less patient than an operator's."""
    ctx = host.context()
    driver = gpu.query(ctx.facts, ctx.login_env)
    wanted = claim.of(ctx, params, driver)
    sight = look.take(ctx, look.recogniser_of({"engines": ENGINES, **params}), wanted.slots, (), driver)
    order = orders.Order(sight, scope.decide(sight.view, wanted.target), wanted.target, agreed=agreed)
    with pytest.raises(AgentError) as caught:
        clean.carry_out(ctx, orders.only_agreed(replace(order, patience=patience)))
    return caught.value


# Stops each process at its exit: SIGKILL has been delivered then, and the process still holds everything.
KEEP = """
import ctypes, signal, sys
SEIZE, AT_EXIT = 0x4206, 0x40
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
for pid in map(int, sys.argv[1:]):
    if ptrace(SEIZE, pid, 0, AT_EXIT):
        sys.exit("ptrace is not allowed here: %d" % ctypes.get_errno())
print("kept", flush=True)
signal.pause()
"""


def keep(host: Host, pids: Iterable[int]) -> None:
    """Make processes that no signal can end, as those are that hang in a driver, until the test is over."""
    child = host.spawn([sys.executable, "-c", KEEP, *map(str, pids)])
    assert child.stdout is not None
    if child.stdout.readline() != "kept\n":
        pytest.skip("this machine allows no tracing")


def launch(host: Host, plan: dict[str, Any]) -> dict[str, Any]:
    done = life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]
    eventually(lambda: b"ready" in Path(done["log"]).read_bytes(), "ready")
    return dict(done)


def pids(report: dict[str, Any], where: str = "ended") -> set[int]:
    return {process["pid"] for process in report[where]}


def test_a_server_of_ours_ends_politely_and_lets_go(host: Host) -> None:
    plan = host.plan("--workers", "3")
    done = launch(host, plan)
    workers = set(host.workers())
    report = kill(host, slot="stable")
    assert pids(report) == {done["pid"], *workers}
    assert not any(map(lives, (*pids(report), done["shim_pid"])))
    assert procs.listeners(plan["port"]) == []
    assert report["containment"].split("+")[0] == "shim"
    assert report["released"] == {"processes": True, "port": True, "gpus": [], "shm": []}
    assert [step["name"] for step in report["steps"]] == ["terminate", "kill", "release"]
    assert state.exit_of(host.context().home, done) == {"code": 0}, (
        "the launcher was killed, not asked to end"
    )
    assert {process["reason"] for process in report["ended"]} == {"launched here by Stoker"}


def test_who_is_deaf_to_sigterm_is_killed_after_the_grace(host: Host) -> None:
    done = launch(host, host.plan("--deaf"))
    began = time.monotonic()
    report = kill(host, slot="stable")
    assert [step["name"] for step in report["steps"]] == [
        "terminate",
        "terminate the rest",
        "kill",
        "release",
    ]
    assert time.monotonic() - began > ENGINE.grace_s, "the grace was not kept"
    assert state.exit_of(host.context().home, done) == {"signal": 9}
    assert not host.mine()


def test_the_grace_of_its_own_launch_is_kept_by_whoever_ends_it(host: Host) -> None:
    for act, asked in ((life.stop, {"slot": "stable"}), (life.kill, {})):
        launch(host, host.plan("--deaf", kill={"protect": [], "grace_s": 0.9}))
        began = time.monotonic()
        act(host.context(), {**asked, "engines": ENGINES})
        assert time.monotonic() - began > 0.9 > ENGINE.grace_s


def test_what_its_profile_protects_is_not_ended_by_a_stop_or_a_kill(host: Host) -> None:
    launch(host, host.plan("--hold-on", kill={"protect": ["cmd:zoo::worker_1"], "grace_s": 0.2}))
    (spared,) = (p.pid for p in host.mine() if p.title == "zoo::worker_1")
    for act, asked in ((life.stop, {"slot": "stable"}), (life.kill, {"slot": "stable"}), (life.kill, {})):
        act(host.context(), {**asked, "engines": ENGINES})
        assert lives(spared)


def test_a_stopped_server_is_ended_too(host: Host) -> None:
    done = launch(host, host.plan())
    for pid in (done["pid"], *host.workers()):
        os.kill(pid, signal.SIGSTOP)
    kill(host, slot="stable")
    assert not host.mine()
    assert state.exit_of(host.context().home, done) == {"code": 0}, "it could not hear SIGTERM"


def test_workers_that_outlive_a_killed_launcher_are_ended(host: Host) -> None:
    host.gpus()
    done = launch(host, host.plan("--hold-on", "--gpu", host.device(0), gpus=(0,)))
    workers = set(host.workers())
    os.kill(done["pid"], signal.SIGKILL)
    eventually(lambda: not lives(done["pid"]), "the launcher's end")
    report = kill(host, slot="stable")
    assert pids(report) == workers
    assert report["released"]["gpus"] == [{"index": 0, "before_mib": 2000, "after_mib": 0}]


def test_renamed_orphans_of_a_server_started_by_hand_are_ended(host: Host) -> None:
    host.gpus()
    launcher = host.serve("--hold-on", "--gpu", host.device(0))
    workers = set(host.workers())
    os.kill(launcher, signal.SIGKILL)
    eventually(lambda: not lives(launcher), "the launcher's end")
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert pids(report) == workers
    assert all("launcher is gone" in process["reason"] for process in report["ended"])
    assert not any(map(lives, workers))


def test_a_detached_grandchild_goes_with_its_server(host: Host) -> None:
    launch(host, host.plan("--escape"))
    (escaped,) = [process for process in host.mine() if process.title == "nothing to see here"]
    report = kill(host, slot="stable")
    assert escaped.pid in pids(report)
    assert not host.mine()


@pytest.mark.parametrize("shim", [True, False])
def test_who_forks_while_being_killed_does_not_get_away(host: Host, shim: bool) -> None:
    done = launch(host, host.plan("--breed", "--deaf", kill={"protect": (), "grace_s": 0.1}))
    if not shim:
        os.kill(done["shim_pid"], signal.SIGKILL)
        eventually(lambda: not lives(done["shim_pid"]), "the shim's end")
    report = life.stop(host.context(), {"slot": "stable", "engines": ENGINES})
    assert not host.mine()
    assert report["released"]["processes"]
    holds = report["containment"].replace("cgroup+", "").replace("+cgroup", "")
    assert holds == ("shim" if shim else "session+marker")


def test_without_its_shim_a_server_is_ended_and_the_proof_is_written(host: Host) -> None:
    done = launch(host, host.plan("--escape", "--hold-on"))
    os.kill(done["shim_pid"], signal.SIGKILL)
    os.kill(done["pid"], signal.SIGKILL)
    eventually(lambda: not lives(done["pid"]), "the launcher's end")
    kill(host, slot="stable")
    assert not host.mine()
    ctx = host.context()
    assert state.leftovers(ctx.home, "stable", ctx.facts) == []


def test_a_stopped_supervisor_is_ended_last(host: Host) -> None:
    done = launch(host, host.plan())
    os.kill(done["shim_pid"], signal.SIGSTOP)
    kill(host, slot="stable")
    assert not host.mine()
    ctx = host.context()
    assert state.leftovers(ctx.home, "stable", ctx.facts) == []


def test_what_belongs_to_no_launcher_is_not_kept_waiting_for_one(host: Host) -> None:
    """Orphans of a dead server get SIGTERM with the launcher, not seconds after its end."""
    host.gpus()
    orphan = host.orphan(f"f = open({host.device(0)!r}); {SLEEP}")
    server = host.serve("--gpu", host.device(0))
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert {server, orphan} < pids(report)
    (polite,) = [step for step in report["steps"] if step["name"] == "terminate"]
    assert "1 that belong to none of them" in polite["detail"]
    assert polite["seconds"] < 1.5, "two seconds is what a launcher's own have"
    assert [step["name"] for step in report["steps"]] == ["terminate", "kill", "release"]


def test_a_second_slot_survives(host: Host) -> None:
    launch(host, host.plan())
    other = launch(host, host.plan(slot="meadow"))
    kill(host, slot="stable")
    assert procs.alive(other["pid"], other["start"])
    assert len(host.workers()) == 2


def test_a_second_slot_that_holds_our_gpu_is_in_the_way(host: Host) -> None:
    host.gpus()
    other = launch(host, host.plan("--gpu", host.device(1), slot="meadow", gpus=(1,)))
    error = refused(host, plan=host.plan(gpus=(1,)))
    assert error.kind == "blocked"
    assert "slot meadow" in error.what
    assert procs.alive(other["pid"], other["start"])
    assert set(pids(error.detail["kill"], "blockers")) == set(host.workers())


def test_a_stranger_on_the_port_is_in_the_way(host: Host) -> None:
    port = free_port()
    code = f"import socket; s = socket.socket(); s.bind(('127.0.0.1', {port})); s.listen(); {SLEEP}"
    stranger = host.python(code)
    error = refused(host, plan=host.plan(port=port))
    assert error.kind == "blocked"
    assert pids(error.detail["kill"], "blockers") == {stranger}
    assert f"port {port}" in error.evidence[0]
    assert lives(stranger)


def test_force_ends_the_stranger(host: Host) -> None:
    port = free_port()
    stranger = host.python(f"import socket; s = socket.socket(); s.bind(('', {port})); s.listen(); {SLEEP}")
    report = kill(host, plan=host.plan(port=port), force=True)
    assert pids(report) == {stranger}
    assert not lives(stranger)


def test_a_stranger_on_another_address_is_left_alone(host: Host) -> None:
    port = free_port("127.0.0.9")
    code = f"import socket; s = socket.socket(); s.bind(('127.0.0.9', {port})); s.listen(); {SLEEP}"
    stranger = host.python(code)
    assert kill(host, plan=host.plan(port=port))["ended"] == []
    assert lives(stranger)


def test_every_server_that_shares_the_port_is_ended(host: Host) -> None:
    port = free_port()
    one, two = (host.serve("--port", str(port)) for _ in range(2))
    report = kill(host, plan=host.plan(port=port))
    assert {one, two} <= pids(report)
    assert procs.listeners(port) == []


def test_a_tmux_whose_command_line_holds_an_engines_command_is_left(host: Host) -> None:
    port = free_port()
    code = (
        "import os, socket, sys\ns = socket.socket(); s.bind(('127.0.0.1', int(sys.argv[1]))); s.listen()\n"
        "os.set_inheritable(s.fileno(), True)\nprint('up', flush=True)\n"
        "os.execv(sys.executable, ['tmux', '-c', 'import signal; signal.pause()', 'new', '-d',"
        " 'zooserve serve --port ' + sys.argv[1], 'zooserve', 'serve'])"
    )
    terminal = host.python(code, str(port))
    eventually(lambda: "tmux" in procs.look(terminal).title, "the new command line")  # type: ignore[union-attr]
    for force in (False, True):
        error = refused(host, plan=host.plan(port=port), force=force)
        assert error.kind == "blocked"
    assert lives(terminal)


def test_a_path_that_contains_an_engines_name_is_no_engine(host: Host) -> None:
    host.declare(process_env={})
    host.gpus()
    folder = host.root / "zooserve"
    folder.mkdir()
    (folder / "train.py").write_text(f"file = open({host.device(0)!r}); {SLEEP}")
    trainer = host.spawn([sys.executable, str(folder / "train.py"), "zooserve", "serve"])
    assert trainer.stdout is not None
    trainer.stdout.readline()
    error = refused(host, plan=host.plan(gpus=(0,)))
    assert pids(error.detail["kill"], "blockers") == {trainer.pid}
    assert lives(trainer.pid)


def test_a_protected_process_is_left_even_when_forced(host: Host) -> None:
    host.gpus()
    title = "from setproctitle import setproctitle; setproctitle('keeper')"
    kept = host.orphan(f"{title}; f = open({host.device(0)!r}); {SLEEP}")
    for force in (False, True):
        error = refused(host, plan=host.plan(gpus=(0,)), protect=["keeper"], force=force)
        assert error.kind == "blocked"
    assert lives(kept)
    assert pids(kill(host, plan=host.plan(gpus=(0,)))) == {kept}, "unprotected it is stale"


def test_a_stale_python_process_on_our_gpu_is_ended_one_elsewhere_is_not(host: Host) -> None:
    host.gpus()
    ours = host.orphan(f"f = open({host.device(0)!r}); {SLEEP}")
    elsewhere = host.orphan(f"f = open({host.device(1)!r}); {SLEEP}")
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert pids(report) == {ours}
    assert not lives(ours)
    assert lives(elsewhere)


def test_an_engine_elsewhere_is_listed_and_left(host: Host) -> None:
    host.gpus()
    elsewhere = host.serve("--gpu", host.device(1), "--port", str(free_port()))
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert report["ended"] == []
    assert {elsewhere, *host.workers()} <= pids(report, "listed")
    assert lives(elsewhere)


def test_a_program_with_a_living_owner_is_in_the_way(host: Host) -> None:
    host.gpus()
    kernel = f"f = open({host.device(0)!r}); {SLEEP}"
    owner = host.python(
        "import subprocess, sys\n"
        "k = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=-1, start_new_session=True)\n"
        "k.stdout.readline(); print('up', flush=True); k.wait()",
        kernel,
    )
    error = refused(host, plan=host.plan(gpus=(0,)))
    assert f"owned by process {owner}" in error.what


def test_a_number_of_the_driver_that_names_somebody_else_here_ends_nobody(host: Host) -> None:
    innocent = host.orphan(SLEEP)
    host.gpus(mode="container", impostor=innocent)
    server = host.serve("--gpu", host.device(0))
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert server in pids(report)
    assert lives(innocent)
    assert report["released"]["gpus"] == [{"index": 0, "before_mib": 2000, "after_mib": 0}]


def test_memory_that_nobody_here_holds_stops_everything(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "SETTLE_S", 0.2)
    host.gpus(charged={"0": 17619})
    port = free_port()
    server = host.serve("--port", str(port))
    error = refused(host, plan=host.plan(gpus=(0,), port=port), force=True)
    assert error.kind == "blocked"
    assert "17619 MiB" in error.what
    assert lives(server)


def test_memory_that_a_dead_server_is_just_giving_back_is_waited_for(host: Host) -> None:
    host.gpus(charged={"0": 17619}, until=time.time() + 1.0)
    assert kill(host, plan=host.plan(gpus=(0,)))["ended"] == []


def test_force_ends_another_slot_as_a_whole(host: Host) -> None:
    host.gpus()
    other = launch(host, host.plan("--gpu", host.device(1), slot="meadow", gpus=(1,)))
    report = kill(host, plan=host.plan(gpus=(1,)), force=True)
    assert pids(report) >= {other["pid"], *host.workers()}
    assert not host.mine()
    assert state.exit_of(host.context().home, other) == {"code": 0}, "its launcher was not asked first"


def test_a_driver_that_does_not_match_its_library_stops_everything(host: Host) -> None:
    host.gpus(mode="mismatch")
    port = free_port()
    server = host.serve("--port", str(port))
    for wanted in ({"plan": host.plan(gpus=(0,), port=port)}, {}):
        error = refused(host, **wanted)
        assert error.kind == "blocked"
        assert "mismatch" in error.what
    assert lives(server)


def test_a_kill_waits_until_the_memory_is_back(host: Host) -> None:
    server = ["--gpu", host.device(0)]
    host.gpus(charged={"0": 5000}, until=time.time() + 1.5)
    host.serve(*server)
    report = kill(host, plan=host.plan(gpus=(0,)))
    assert report["released"]["gpus"] == [{"index": 0, "before_mib": 7000, "after_mib": 0}]


def test_memory_that_does_not_come_back_is_told(host: Host) -> None:
    host.gpus(charged={"0": 5000})
    host.serve("--gpu", host.device(0))
    error = fails(host, orders.Patience(gpu_s=0.1), plan=host.plan(gpus=(0,)))
    assert error.kind == "not-released"
    assert "GPU 0 still has 5000 MiB" in error.what
    assert error.detail["kill"]["released"]["processes"] is True


def test_shared_memory_of_the_dead_server_is_removed_and_no_other(host: Host) -> None:
    old = host.shm / "zoo_old"
    old.write_bytes(b"x")
    os.utime(old, (time.time() - 9999,) * 2)
    left, used = host.shm / "zoo_left", host.shm / "zoo_used"
    launch(host, host.plan("--shm", str(left), "--hold-on"))
    (host.shm / "precious").write_bytes(b"x")
    (host.shm / "psm_link").symlink_to(host.root / "facts.json")
    used.write_bytes(b"x" * 4096)
    mapping = f"import mmap, os; m = mmap.mmap(os.open({str(used)!r}, 2), 4096)"
    host.python(f"{mapping}; {SLEEP}")
    report = kill(host, slot="stable")
    assert report["released"]["shm"] == [str(left)]
    assert sorted(path.name for path in host.shm.iterdir()) == ["precious", "psm_link", "zoo_old", "zoo_used"]


# What sem_open does: the name is a link, and the file stays mapped under one that is deleted. Between this
# and the opening by vLLM's worker, half a minute passes.
SEMAPHORE = """
import mmap, os, sys
first, name = sys.argv[1] + ".first", sys.argv[1]
file = os.open(first, os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 32)
mapped = mmap.mmap(file, 32)
os.close(file)
os.link(first, name)
os.unlink(first)
"""


def test_a_semaphore_of_a_neighbour_that_starts_meanwhile_is_left(host: Host) -> None:
    launch(host, host.plan("--hold-on"))
    semaphore = host.shm / "sem.mp-1a2b3c4d"
    made = SEMAPHORE.replace("sys.argv[1]", repr(str(semaphore)))
    host.python(f"exec({made!r}); {SLEEP}")
    assert kill(host, slot="stable")["released"]["shm"] == []
    assert semaphore.exists()


def test_shared_memory_of_a_server_that_died_by_itself_is_removed_too(host: Host) -> None:
    left = host.shm / "psm_left"
    done = launch(host, host.plan("--shm", str(left)))
    os.kill(done["pid"], signal.SIGTERM)
    eventually(lambda: not lives(done["shim_pid"]), "the end of all")
    assert kill(host, slot="stable")["released"]["shm"] == [str(left)]


def test_only_what_was_agreed_to_is_ended(host: Host) -> None:
    port = free_port()
    one = host.serve("--port", str(port))
    shown = kill(host, plan=host.plan(port=port), check=True)
    two = host.serve("--port", str(port))
    agreed = frozenset((process["pid"], process["start"]) for process in shown["ended"])
    error = fails(host, orders.Patience(port_s=0.1), agreed, plan=host.plan(port=port))
    assert error.kind == "not-released", "the port is still listened on"
    assert not lives(one)
    assert lives(two)
    assert two in pids(error.detail["kill"], "listed")


def test_a_pid_that_became_another_process_is_not_ended(host: Host) -> None:
    port = free_port()
    server = host.serve("--port", str(port))
    report = kill(host, match="no such command line", expected=[[server, start_of(server) - 1]])
    assert report["ended"] == []
    former = procs.look(server)
    assert former is not None
    former.start -= 1
    assert not signals.send(former, signal.SIGKILL)
    assert lives(server)


def test_a_check_touches_nothing(host: Host) -> None:
    port = free_port()
    server = host.serve("--port", str(port))
    report = kill(host, plan=host.plan(port=port), check=True)
    assert {server, *host.workers()} == pids(report)
    assert report["released"]["processes"] is False
    assert lives(server)
    assert not (host.root / "locks").exists()


def test_a_pattern_ends_what_it_finds(host: Host) -> None:
    one = host.python(SLEEP, f"--tag={host.mark}", "one")
    two = host.python(SLEEP, f"--tag={host.mark}", "two")
    report = kill(host, match=f"--tag={host.mark} one")
    assert pids(report) == {one}
    assert not lives(one)
    assert lives(two)


def test_a_pattern_that_is_no_expression_is_a_bad_request(host: Host) -> None:
    assert refused(host, match="(").kind == "bad-request"


def test_a_whole_host_is_cleaned_of_every_slot_and_every_stale_process(host: Host) -> None:
    host.gpus()
    launch(host, host.plan(slot="one"))
    launch(host, host.plan(slot="two"))
    host.serve("--gpu", host.device(1))
    host.orphan(f"f = open({host.device(0)!r}); {SLEEP}")
    bystander = host.python(SLEEP)
    kill(host)
    assert [process.pid for process in host.mine()] == [bystander]


def test_a_shell_loop_that_would_bring_it_back_is_named_first(host: Host) -> None:
    port = free_port()
    script = host.root / "forever.sh"
    engine = f"{sys.executable} {ZOO}/zooserve serve --port {port}"
    script.write_text(f"for i in 1 2; do echo $i; done\nwhile true; do\n  {engine}\n  sleep 0.1\ndone\n")
    loop = host.spawn(["/bin/sh", str(script)])
    eventually(lambda: procs.listeners(port), "the server")
    error = refused(host, plan=host.plan(port=port))
    assert error.kind == "blocked"
    assert f"kill {loop.pid}" in error.what
    assert procs.listeners(port)


def test_a_script_that_only_loops_before_it_starts_a_server_keeps_nothing(host: Host) -> None:
    port = free_port()
    script = host.root / "once.sh"
    engine = f"{sys.executable} {ZOO}/zooserve serve --port {port}"
    script.write_text(f"# while it runs\nfor i in 1 2; do echo $i; done\n{engine}\necho done\n")
    host.spawn(["/bin/sh", str(script)])
    eventually(lambda: procs.listeners(port), "the server")
    assert kill(host, plan=host.plan(port=port))["ended"]
    assert procs.listeners(port) == []


def test_what_cannot_be_killed_is_told_in_time(host: Host) -> None:
    done = launch(host, host.plan("--deaf"))
    keep(host, (done["pid"], *host.workers()))
    error = fails(host, orders.Patience(unkillable_s=0.2), slot="stable")
    assert error.kind == "unkillable"
    assert pids(error.detail["kill"], "unkillable") == {done["pid"], *host.workers()}
    assert error.detail["kill"]["released"]["processes"] is False


def test_where_something_cannot_be_killed_nothing_is_launched(host: Host) -> None:
    done = launch(host, host.plan("--deaf"))
    keep(host, (done["pid"], *host.workers()))
    with pytest.raises(AgentError) as caught:
        life.restart(host.context(), {"plan": host.plan(), "engines": ENGINES})
    assert caught.value.kind == "unkillable"
    assert len(caught.value.detail["kill"]["unkillable"]) == 3
    assert len(state.history(host.context().home, "stable")) == 1


def test_a_stop_ends_only_its_own_slot(host: Host) -> None:
    port = free_port()
    done = launch(host, host.plan(port=port))
    hand = host.serve("--port", str(port))
    report = life.stop(host.context(), {"slot": "stable", "engines": ENGINES})
    assert done["pid"] in pids(report)
    assert hand not in pids(report)
    assert lives(hand)


def test_a_stop_of_what_does_not_run_is_done(host: Host) -> None:
    launch(host, host.plan())
    assert life.stop(host.context(), {"slot": "stable", "engines": ENGINES})["ended"]
    assert life.stop(host.context(), {"slot": "stable", "engines": ENGINES})["ended"] == []


def test_a_slot_that_nobody_knows_is_told_with_those_that_are(host: Host) -> None:
    launch(host, host.plan())
    for act in (life.stop, life.kill):
        with pytest.raises(AgentError) as caught:
            act(host.context(), {"slot": "stabel", "engines": ENGINES})
        assert caught.value.kind == "no-server"
        assert "stable" in caught.value.next_step


def test_an_engine_that_only_its_launch_knows_is_ended_with_all_below(host: Host) -> None:
    script = "#!/bin/sh\nsleep 60 &\nsetsid sleep 60 &\necho ready\nsleep 60\n"
    launch(host, host.plan(engine=PLAIN, script=script))
    eventually(lambda: len(host.mine()) >= 5, "shell, sleeps and shim")
    life.stop(host.context(), {"slot": "stable", "engines": ENGINES})
    assert not host.mine()


def test_what_looks_like_a_key_is_in_no_report(host: Host) -> None:
    port = free_port()
    host.serve("--port", str(port), "--api-key", "s3cret-value")
    report = kill(host, plan=host.plan(port=port))
    assert "s3cret" not in str(report)
    assert "--api-key ***" in str(report)


def test_another_operators_lock_stops_a_kill(host: Host) -> None:
    launch(host, host.plan())
    ctx = host.context()
    with lock_set(ctx).hold([slot_lock(ctx.home, "stable")], {"user": "bob"}):
        error = refused(host, slot="stable")
    assert error.kind == "lock-held"
    assert "bob" in error.what
    assert host.workers()
