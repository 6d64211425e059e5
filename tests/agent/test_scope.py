"""The decision of a clean kill, case by case, over hosts that are written down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stoker import engines
from stoker.agent.facts import Facts
from stoker.agent.gpus import owners
from stoker.agent.gpus.gpu import GpuState
from stoker.agent.gpus.gpurows import Gpu, GpuProcess
from stoker.agent.killing import scope
from stoker.agent.killing.scope import Scope, Target, View
from stoker.agent.processes import families
from stoker.agent.processes.procs import Listener, Process, Snapshot
from stoker.agent.processes.recognise import Protected, Recogniser

RECOGNISER = Recogniser(engine.to_wire() for engine in engines.all_engines())
PYTHON = "/usr/bin/python3.11"
ME, BOB = 1000, 1001
TRACKER = ["python3", "-c", "from multiprocessing.resource_tracker import main;main(32)"]
# An agent that came in by ssh.
LOGIN = {90: ("sshd", 1), 91: ("bash", 90), 92: ("python3", 91)}


class World:
    """A machine, written down."""

    def __init__(self) -> None:
        self.by_pid: dict[int, Process] = {}
        self.devices: dict[int, set[int]] = {}
        self.listed: list[GpuProcess] = []
        self.used: dict[int, int] = {0: 0, 1: 0}
        self.listeners: list[Listener] = []
        self.add(1, ["/sbin/init"], ppid=0, comm="systemd", exe="/usr/lib/systemd/systemd", uid=0)
        for pid, (name, ppid) in LOGIN.items():
            exe = PYTHON if name == "python3" else f"/usr/bin/{name}"
            self.add(pid, [name], ppid=ppid, comm=name, exe=exe, sid=91)

    def add(
        self,
        pid: int,
        argv: list[str],
        ppid: int = 1,
        sid: int | None = None,
        pgid: int | None = None,
        comm: str = "python3",
        exe: str = PYTHON,
        uid: int = ME,
        gpus: Mapping[int, int] | None = None,
        port: int = 0,
        address: str = "127.0.0.1",
        state: str = "S",
    ) -> None:
        """A process; ``gpus``: index to MiB of what it holds; it leads a session unless told otherwise."""
        sid = pid if sid is None else sid
        pgid = sid if pgid is None else pgid
        stat = f"{pid} ({comm}) {state} {ppid} {pgid} {sid} 0 0 0 {'0 ' * 10}1 0 500 0 0"
        process = Process(pid, stat.encode())
        process._argv, process._exe, process._uid = list(argv), exe, uid
        self.by_pid[pid] = process
        for index, mib in (gpus or {}).items():
            self.devices.setdefault(index, set()).add(pid)
            self.listed.append(GpuProcess(f"GPU-{index}", pid, argv[0], mib))
            self.used[index] += mib
        if port:
            self.listeners.append(Listener(address, port, pid, pid, uid))

    def owners(self) -> owners.Owners:
        gpus = [Gpu(index=i, uuid=f"GPU-{i}", memory_used_mib=used) for i, used in self.used.items()]
        facts = Facts(simulated=True)
        state = GpuState("ok", "", gpus, self.listed)
        return owners.find(Snapshot(facts, self.by_pid), self.devices, state, facts, ME)

    def decide(self, target: Target, protect: tuple[str, ...] = (), **changes: Any) -> Scope:
        return scope.decide(self.view(protect, **changes), target)

    def view(self, protect: tuple[str, ...] = (), **changes: Any) -> View:
        snapshot = Snapshot(Facts(), self.by_pid)
        own = [self.by_pid[pid] for pid in changes.pop("own", ())]
        view: dict[str, Any] = {
            "snapshot": snapshot,
            "listeners": tuple(self.listeners),
            "owners": self.owners(),
            "families": tuple(families.find(snapshot, RECOGNISER)),
            "own": tuple(own),
            "slots": {},
            "uid": ME,
            "agent": frozenset({92, 91, 90, 1}),
            "protected": Protected(protect),
        }
        return View(**{**view, **changes})

    def vllm(self, pid: int, gpu: int = 0, port: int = 8000, sid: int | None = None, **how: Any) -> None:
        """A vLLM server: launcher, tracker, engine core, two workers."""
        sid = pid if sid is None else sid
        mib = {gpu: 9000}
        family = {"sid": sid, "pgid": how.pop("pgid", pid), "uid": how.pop("uid", ME)}
        self.add(pid, ["python3", "/v/bin/vllm", "serve", "m"], comm="vllm", port=port, **family, **how)
        self.add(pid + 1, TRACKER, ppid=pid, **family)
        self.add(pid + 2, ["VLLM::EngineCore"], ppid=pid, comm="VLLM::EngineCor", **family)
        for worker in (3, 4):
            self.add(pid + worker, [f"VLLM::Worker_TP{worker}"], ppid=pid + 2, gpus=mib, **family)

    def launcher_dies(self, pid: int) -> None:
        """As init sees it: the children are taken in."""
        del self.by_pid[pid]
        self.listeners = [one for one in self.listeners if one.pid != pid]
        for child in [p for p in self.by_pid.values() if p.ppid == pid]:
            child.ppid = 1


def pids(findings: Any) -> set[int]:
    return {finding.process.pid for finding in findings if finding.process}


GPU0 = Target(gpus=frozenset({0}))
GPU1 = Target(gpus=frozenset({1}))


def test_an_engine_on_our_gpus_goes_with_its_whole_family() -> None:
    world = World()
    world.vllm(200)
    found = world.decide(GPU0)
    assert pids(found.ended) == {200, 201, 202, 203, 204}
    assert not found.blockers


def test_an_engine_on_our_port_goes_too() -> None:
    world = World()
    world.vllm(200, gpu=1, port=8000)
    found = world.decide(Target(addresses=("127.0.0.1",), port=8000))
    assert pids(found.ended) == {200, 201, 202, 203, 204}
    assert [finding.ports for finding in found.ended] == [(8000,), (), (), (), ()]


def test_an_engine_is_not_in_our_way_because_somebody_listens_on_our_port() -> None:
    world = World()
    world.vllm(200, gpu=1, port=8000)
    world.vllm(300, gpu=1, port=8001)
    found = world.decide(Target(addresses=("127.0.0.1",), port=8000))
    assert (pids(found.ended), pids(found.listed)) == (set(range(200, 205)), set(range(300, 305)))


def test_an_engine_elsewhere_is_listed() -> None:
    world = World()
    world.vllm(200, gpu=1, port=8001)
    found = world.decide(Target(gpus=frozenset({0}), addresses=("127.0.0.1",), port=8000))
    assert (pids(found.ended), pids(found.listed)) == (set(), {200, 201, 202, 203, 204})
    assert not found.blockers


@pytest.mark.parametrize("groups", [(200, 300), (150, 150)], ids=["a group each", "of one script"])
def test_two_servers_started_from_one_shell_that_is_gone_are_two(groups: tuple[int, int]) -> None:
    world = World()
    world.vllm(200, gpu=0, sid=150, pgid=groups[0])
    world.vllm(300, gpu=1, sid=150, pgid=groups[1], port=8001)
    assert pids(world.decide(GPU0).ended) == {200, 201, 202, 203, 204}


def test_orphans_of_a_dead_launcher_go_with_their_helpers() -> None:
    world = World()
    world.vllm(200, sid=150)
    world.vllm(300, sid=150, gpu=1, port=8001)
    world.launcher_dies(200)
    found = world.decide(GPU0)
    assert pids(found.ended) == {201, 202, 203, 204}
    assert pids(found.listed) == {300, 301, 302, 303, 304}
    assert all("launcher is gone" in finding.reason for finding in found.ended)


def test_a_helper_of_somebody_elses_is_not_taken_along() -> None:
    world = World()
    world.vllm(200)
    world.launcher_dies(200)
    world.add(400, TRACKER, ppid=1, sid=399, pgid=399)
    assert 400 not in pids(world.decide(GPU0).ended)


def test_our_own_launch_goes_whatever_it_looks_like() -> None:
    world = World()
    world.add(200, ["sh", "-c", "sleep 9"], comm="sh", exe="/bin/dash", ppid=90)
    world.add(201, ["sleep", "9"], ppid=200, comm="sleep", exe="/bin/sleep", sid=200)
    assert pids(world.decide(Target(), own=(200, 201)).ended) == {200, 201}


def test_another_slot_that_holds_our_gpus_is_in_the_way() -> None:
    world = World()
    world.vllm(200)
    found = world.decide(GPU0, slots=dict.fromkeys(range(200, 205), "other"))
    assert (pids(found.ended), pids(found.blockers)) == (set(), {203, 204})
    assert "slot other" in found.blockers[0].reason


def test_another_slot_elsewhere_is_listed_under_its_name() -> None:
    world = World()
    world.vllm(200, gpu=1)
    found = world.decide(GPU0, slots=dict.fromkeys(range(200, 205), "other"))
    assert pids(found.listed) == set(range(200, 205))
    assert not found.ended
    assert "slot other" in found.listed[0].reason


def test_a_stale_python_process_goes_whatever_it_is_called() -> None:
    world = World()
    world.add(200, ["mystery"], comm="mystery", sid=150, pgid=150, gpus={0: 500})
    world.add(201, ["mystery child"], comm="mystery", ppid=200, sid=150, pgid=150)
    assert pids(world.decide(GPU0).ended) == {200, 201}


@pytest.mark.parametrize(
    ("uid", "changes", "reason"),
    [
        (BOB, {}, "another user's"),
        (ME, {"slots": {200: "other"}}, "belongs to slot other"),
        (ME, {"protected": Protected(("mystery",))}, "protected by the profile"),
        (ME, {"agent": frozenset({200})}, "never ended"),
        (ME, {"keeper": lambda process: "unit v.service would bring it back"}, "unit v.service"),
    ],
    ids=["another user", "another slot", "protected", "the agent's", "kept"],
)
def test_a_stale_python_process_that_is_not_ours_to_end_is_in_the_way(
    uid: int, changes: dict[str, Any], reason: str
) -> None:
    world = World()
    world.add(200, ["mystery"], comm="mystery", sid=150, pgid=150, gpus={0: 500}, uid=uid)
    found = world.decide(GPU0, **changes)
    assert (pids(found.ended), pids(found.blockers)) == (set(), {200})
    assert reason in found.blockers[0].reason


@pytest.mark.parametrize(
    ("comm", "sid"), [("watcher", 140), ("systemd", 199)], ids=["never led a session", "a reaper"]
)
def test_a_python_process_is_stale_below_whoever_was_never_in_its_session(comm: str, sid: int) -> None:
    world = World()
    world.add(199, [comm], ppid=90, sid=sid, pgid=sid, comm=comm, exe=f"/usr/bin/{comm}")
    world.add(200, ["mystery"], ppid=199, comm="mystery", sid=150, pgid=150, gpus={0: 500})
    assert pids(world.decide(GPU0).ended) == {200}


def test_a_stale_python_process_that_holds_only_our_port_is_in_the_way() -> None:
    world = World()
    world.add(200, ["mystery"], comm="mystery", sid=150, pgid=150, port=8000)
    found = world.decide(Target(addresses=("127.0.0.1",), port=8000))
    assert (pids(found.ended), pids(found.blockers)) == (set(), {200})


def test_a_stale_process_of_another_program_is_in_the_way() -> None:
    world = World()
    world.add(200, ["./train"], comm="train", exe="/home/me/train", sid=150, pgid=150, gpus={0: 500})
    found = world.decide(GPU0)
    assert (pids(found.ended), pids(found.blockers)) == (set(), {200})


@pytest.mark.parametrize("parent_of_notebook", [1, 90])
def test_a_notebooks_kernel_is_in_the_way_however_the_notebook_was_started(parent_of_notebook: int) -> None:
    world = World()
    notebook = ["python3", "/usr/bin/jupyter-lab"]
    world.add(200, notebook, comm="jupyter-lab", ppid=parent_of_notebook, sid=150, pgid=150)
    world.add(201, ["python3", "-m", "ipykernel_launcher"], ppid=200, gpus={0: 500})
    found = world.decide(GPU0)
    assert (pids(found.ended), pids(found.blockers)) == (set(), {201})
    assert "process 200 (jupyter-lab)" in found.blockers[0].reason


def test_a_python_process_that_began_outside_of_our_container_is_in_the_way() -> None:
    world = World()
    world.add(200, ["python3", "notebook.py"], ppid=0, sid=0, pgid=0, gpus={0: 500})
    assert pids(world.decide(GPU0).blockers) == {200}


def test_orphans_without_a_visible_group_are_not_one_family() -> None:
    world = World()
    for pid in (200, 300):
        world.add(pid, ["VLLM::EngineCore"], ppid=1, sid=0, pgid=0, gpus={0 if pid == 200 else 1: 500})
    assert pids(world.decide(GPU0).ended) == {200}


def test_another_users_process_is_in_the_way_even_of_a_forced_kill() -> None:
    world = World()
    world.vllm(200, uid=BOB)
    for force in (False, True):
        found = world.decide(Target(gpus=frozenset({0}), force=force))
        assert (pids(found.ended), pids(found.blockers)) == (set(), {203, 204})
        assert found.blockers[0].reason == "another user's"


def test_root_may_force_another_users_process() -> None:
    world = World()
    world.add(200, ["python3", "x.py"], ppid=90, uid=BOB, gpus={0: 500})
    assert pids(world.decide(GPU0, uid=0).blockers) == {200}
    found = world.decide(Target(gpus=frozenset({0}), force=True), uid=0)
    assert (pids(found.ended), pids(found.blockers)) == ({200}, set())
    assert "another user's" in found.ended[0].reason


def test_force_ends_a_program_of_ours_with_a_living_owner_but_never_the_owner() -> None:
    world = World()
    world.add(200, ["python3", "/usr/bin/jupyter-lab"], ppid=90)
    world.add(201, ["python3", "-m", "ipykernel_launcher"], ppid=200, gpus={0: 500})
    assert pids(world.decide(Target(gpus=frozenset({0}), force=True)).ended) == {201}


@pytest.mark.parametrize("force", [False, True])
def test_what_is_protected_is_in_the_way_and_never_ended(force: bool) -> None:
    world = World()
    world.add(200, ["keeper"], comm="keeper", sid=150, pgid=150, gpus={0: 500})
    found = world.decide(Target(gpus=frozenset({0}), force=force), protect=("keeper",))
    assert (pids(found.ended), pids(found.blockers)) == (set(), {200})
    assert found.blockers[0].reason == "protected by the profile"


def test_a_protected_process_of_our_own_launch_is_left() -> None:
    world = World()
    world.add(200, ["server"], comm="server", ppid=90)
    world.add(201, ["sidecar"], comm="sidecar", ppid=200)
    assert pids(world.decide(Target(), own=(200, 201), protect=("sidecar",)).ended) == {200}


@pytest.mark.parametrize("force", [False, True])
def test_a_tmux_server_on_our_port_is_in_the_way_and_never_ended(force: bool) -> None:
    world = World()
    argv = ["tmux", "new", "-d", "python3 -m sglang.launch_server --port 8000"]
    world.add(200, argv, comm="tmux: server", exe="/usr/bin/tmux", port=8000)
    found = world.decide(Target(addresses=("127.0.0.1",), port=8000, force=force))
    assert (pids(found.ended), pids(found.blockers)) == (set(), {200})


def test_the_mps_server_is_listed() -> None:
    world = World()
    exe = "/usr/bin/nvidia-cuda-mps-server"
    world.add(200, [exe], comm="nvidia-cuda-mps", exe=exe, gpus={0: 30})
    found = world.decide(GPU0)
    assert (pids(found.listed), found.ended, found.blockers) == ({200}, (), ())


def test_a_shell_that_an_engine_started_is_left_to_end_by_itself() -> None:
    world = World()
    world.vllm(200)
    world.add(210, ["sh", "-c", "nvcc"], ppid=203, comm="sh", exe="/bin/dash", sid=200)
    assert 210 not in pids(world.decide(GPU0).ended)


def test_the_agents_own_ancestors_are_never_ended() -> None:
    world = World()
    world.vllm(200)
    found = world.decide(GPU0, agent=frozenset({92, 91, 90, 1, 204}))
    assert 204 not in pids(found.ended)
    assert 204 in pids(found.blockers)


def test_a_listener_that_nobody_can_see_is_in_the_way() -> None:
    world = World()
    world.listeners.append(Listener("0.0.0.0", 8000, 7, None, 0))
    found = world.decide(Target(addresses=("127.0.0.1",), port=8000))
    assert [(finding.process, finding.ports) for finding in found.blockers] == [(None, (8000,))]
    assert "uid 0" in found.blockers[0].reason


def test_the_same_port_on_another_address_is_nobodys_business() -> None:
    world = World()
    world.vllm(200, gpu=1, port=8000, address="127.0.0.2")
    found = world.decide(Target(addresses=("127.0.0.1",), port=8000))
    assert (found.ended, found.blockers) == ((), ())


def test_who_would_be_brought_back_is_in_the_way_unless_forced() -> None:
    world = World()
    world.vllm(200)
    found = world.decide(GPU0, keeper=lambda process: "systemd unit v.service would bring it back")
    assert (found.ended, pids(found.blockers)) == ((), {200, 201, 202, 203, 204})
    assert "v.service" in found.blockers[0].reason
    forced = Target(gpus=frozenset({0}), force=True)
    assert pids(world.decide(forced, keeper=lambda process: "x").ended) == {200, 201, 202, 203, 204}


def test_a_stop_ends_what_is_ours_and_looks_at_nothing_else() -> None:
    world = World()
    world.vllm(200)
    world.add(300, ["python3", "x"], ppid=90, gpus={0: 5})
    world.add(400, ["server"], ppid=90)
    found = world.decide(Target(own_only=True), own=(400,))
    assert (pids(found.ended), found.blockers, found.listed) == ({400}, (), ())


def test_a_pattern_ends_what_it_finds_of_ours_and_nothing_sacred() -> None:
    world = World()
    world.add(200, ["python3", "train.py"], ppid=90)
    world.add(201, ["bash", "-c", "python3 train.py"], comm="bash", exe="/usr/bin/bash", ppid=90)
    world.add(202, ["python3", "train.py"], ppid=90, uid=BOB)
    world.add(203, ["python3", "trainer"], ppid=90, state="Z")
    world.by_pid[92]._argv = ["python3", "-c", "agent of: kill --match train"]
    found = world.decide(Target(match=re.compile("train"), gpus=None))
    assert (pids(found.ended), found.blockers) == ({200}, ())


def test_a_whole_host_is_cleaned_of_every_engine_that_holds_any_gpu() -> None:
    world = World()
    world.vllm(200, gpu=0)
    world.vllm(300, gpu=1, port=8001)
    world.add(400, ["llama-server"], comm="llama-server", exe="/opt/llama-server", ppid=90, port=8080)
    world.add(500, ["old"], sid=150, pgid=150, gpus={1: 5})
    found = world.decide(Target(gpus=None))
    assert pids(found.ended) == {*range(200, 205), *range(300, 305), 500}
    assert pids(found.listed) == {400}


def test_without_a_gpu_a_whole_host_is_cleaned_of_every_engine() -> None:
    world = World()
    world.used = {}
    world.add(400, ["llama-server"], comm="llama-server", exe="/opt/llama-server", ppid=90, port=8080)
    assert pids(world.decide(Target(gpus=None)).ended) == {400}


def test_a_number_of_the_driver_that_is_another_here_ends_nobody() -> None:
    world = World()
    world.add(200, ["python3", "innocent.py"], sid=150, pgid=150)
    world.add(300, ["VLLM::EngineCore"], sid=150, pgid=151)
    world.devices = {0: {300}}
    world.listed = [GpuProcess("GPU-0", 200, "python3", 9000)]
    world.used[0] = 9000
    found = world.decide(GPU0)
    assert (pids(found.ended), found.blockers, found.unknown) == ({300}, (), {})


def test_another_users_process_counts_by_its_name_where_we_may_not_look() -> None:
    world = World()
    world.add(200, ["python3", "bobs.py"], uid=BOB, ppid=90, gpus={0: 900})
    world.devices = {}
    assert pids(world.decide(GPU0).blockers) == {200}
    world.listed = [GpuProcess("GPU-0", 200, "somebody-else", 900)]
    assert set(world.decide(GPU0).unknown) == {0}


def test_memory_that_nobody_here_holds_stops_everything() -> None:
    world = World()
    world.used[0] = 11637
    found = world.decide(GPU0)
    assert (found.ended, set(found.unknown)) == ((), {0})
    assert "11637 MiB" in found.unknown[0]
    assert world.decide(GPU1).unknown == {}


def test_an_idle_gpu_that_engines_elsewhere_have_open_is_free() -> None:
    world = World()
    world.vllm(200, gpu=1, port=8001)
    world.devices[0] = {200, 202, 203, 204}  # cuInit opens every device
    found = world.decide(GPU0)
    assert (found.ended, found.blockers) == ((), ())


def test_memory_that_the_driver_does_not_tell_is_not_zero_but_no_proof_either() -> None:
    world = World()
    world.vllm(200)
    gpus = [Gpu(index=0, uuid="GPU-0", memory_used_mib=None)]
    found = owners.find(
        Snapshot(Facts(), world.by_pid), {0: {203}}, GpuState("ok", "", gpus, []), Facts(), ME
    )
    assert (found.users, found.unknown) == ({0: {203: None}}, {})


def test_what_is_left_over_is_what_a_cleaning_would_end_and_no_living_server_has() -> None:
    world = World()
    world.vllm(200)
    world.vllm(300, gpu=1)
    world.launcher_dies(300)
    world.vllm(400, gpu=1)
    world.launcher_dies(400)
    for pid in (402, 403, 404):  # bob's
        world.by_pid[pid]._uid = BOB
    world.add(500, ["python3", "train.py"], gpus={0: 5})
    world.add(510, ["python3", "kept.py"], gpus={0: 5})
    world.add(600, ["python3", "-m", "own"], sid=600)
    world.add(601, ["python3", "left.py"], ppid=1, sid=600)
    kept = lambda process: "a unit" if process.pid == 510 else ""  # noqa: E731 - as the view has it
    view = world.view(own=(600, 601), keeper=kept)
    found = {f.process.pid: f.reason for f in scope.strays(view, {601: "stable"}) if f.process}
    assert found.keys() == {301, 302, 303, 304, 500, 601}
    assert found[303] == "vllm, its launcher is gone"
    assert "parent is gone" in found[500]
    assert found[601] == "left by slot stable, whose launcher is gone"


def test_watchers_hold_a_device_without_using_it() -> None:
    world = World()
    exe = "/usr/bin/nvidia-persistenced"
    world.add(200, [exe], comm="nvidia-persiste", exe=exe, uid=0)
    world.vllm(300)
    world.devices[0].add(200)
    world.listed = []  # as in a container
    found = world.decide(GPU0)
    assert (pids(found.ended), found.blockers) == (set(range(300, 305)), ())


def test_wanted_gpus_are_found_by_index_uuid_and_all() -> None:
    gpus = [Gpu(index=i, uuid=f"GPU-{i}a") for i in range(3)]
    state = GpuState("ok", "", gpus, [])
    assert owners.resolve([2, "GPU-0a"], state) == ([gpus[2], gpus[0]], [])
    assert owners.resolve(["all"], state) == (gpus, [])
    assert owners.resolve([7, "GPU-", "MIG-1"], state) == ([], ["7", "GPU-", "MIG-1"])
    assert owners.resolve(["all"], GpuState("none", "", [], [])) == ([], ["all"])


def test_a_gpus_device_file_is_found_where_a_container_sees_only_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bus, minor in (("0000:1b:00.0", 2), ("0000:5D:00.0", 3)):
        (tmp_path / bus).mkdir()
        (tmp_path / bus / "information").write_text(f"Model: \t NVIDIA H200\nDevice Minor: \t {minor}\n")
    monkeypatch.setattr(owners, "_DRIVER_DIR", str(tmp_path))
    gpus = [Gpu(index=0, pci_bus_id="00000000:1B:00.0"), Gpu(index=1, pci_bus_id="00000000:5D:00.0")]
    assert owners.device_numbers(gpus, Facts()) == {0: 2, 1: 3}
    assert owners.device_numbers([Gpu(index=4)], Facts()) == {4: 4}
    assert owners.device_numbers(gpus, Facts(simulated=True)) == {0: 0, 1: 1}
