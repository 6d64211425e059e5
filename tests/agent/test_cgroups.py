"""A cgroup of its own for each server, on a host that lets us; elsewhere the shim and the marker do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.launches import state
from stoker.agent.processes import cgroups, keeper, procs
from stoker.agent.processes.cgroups import Place
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, Host, eventually, lives
from tests.agent.launched import SHIM

UNIFIED = "30 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
HYBRID = (
    "24 20 0:20 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "25 24 0:21 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    "26 24 0:22 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
    "27 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "28 24 0:24 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"
)
DOCKER = "900 899 0:30 /docker/4c5d /sys/fs/cgroup/freezer ro master:9 - cgroup cgroup rw,freezer"


@pytest.mark.parametrize(
    ("mounts", "own", "want"),
    [
        (UNIFIED, "0::/user.slice/x", [Place("/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/x")]),
        (UNIFIED, "0::/", [Place("/sys/fs/cgroup", "/sys/fs/cgroup")]),
        (
            HYBRID,
            "5:freezer:/a\n4:cpu,cpuacct:/b\n1:name=systemd:/c\n0::/d",
            [
                Place("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/d"),
                Place("/sys/fs/cgroup/freezer", "/sys/fs/cgroup/freezer/a"),
            ],
        ),
        (DOCKER, "7:freezer:/docker/4c5d", [Place("/sys/fs/cgroup/freezer", "/sys/fs/cgroup/freezer")]),
        (DOCKER, "7:freezer:/docker/other", []),  # outside of what is mounted here
        (UNIFIED.replace("/sys/fs/cgroup", "/a\\040b"), "0::/x", [Place("/a b", "/a b/x")]),
        ("", "0::/", []),
        ("no mount\n- - -", "no cgroup", []),
    ],
)
def test_our_own_cgroup_is_found_below_what_is_mounted(mounts: str, own: str, want: list[Place]) -> None:
    assert cgroups.places(mounts, own) == want


def test_where_nothing_can_be_made_there_is_none(tmp_path: Path) -> None:
    plain = Place(str(tmp_path), str(tmp_path))  # a folder in which no cgroup.procs appears
    gone = Place("/no/such/mount", "/no/such/mount")
    assert cgroups.make("x", [gone, plain]) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_cgroup_of_ours_hides_no_service_around_it() -> None:
    assert cgroups.without_ours("/system.slice/vllm.service/stoker-a-1/below") == "/system.slice/vllm.service"
    assert cgroups.without_ours("/stoker-a-1") == "/"
    assert cgroups.without_ours("/user.slice/x") == "/user.slice/x"


@pytest.fixture
def lets_us() -> None:
    """Skips, with the reason, where the host lets us make no cgroup."""
    path = cgroups.make(f"trial-{os.getpid()}")
    if not path:
        pytest.skip("this host lets us make no cgroup (no writable hierarchy below our own)")
    cgroups.remove(path)
    assert not cgroups.exists(path)


def launched(host: Host, *options: str) -> dict[str, Any]:
    done = life.restart(host.context(), {"plan": host.plan(*options), "engines": ENGINES})["launch"]
    eventually(lambda: b"ready" in Path(done["log"]).read_bytes(), "ready")
    return dict(done)


def members(host: Host, launch: dict[str, Any]) -> tuple[set[int], str]:
    ctx = host.context()
    found, how = state.members(procs.snapshot(ctx.facts), launch)
    return {process.pid for process in found}, how


@pytest.mark.usefixtures("lets_us")
def test_a_server_and_all_it_starts_are_in_its_cgroup_and_the_supervisor_is_not(host: Host) -> None:
    done = launched(host, "--escape")
    everybody = {process.pid for process in host.mine()} - {done["shim_pid"]}
    assert len(everybody) == 4
    assert cgroups.members(done["cgroup"]) == everybody
    assert members(host, done) == (everybody, "shim+cgroup")


@pytest.mark.usefixtures("lets_us")
def test_without_its_shim_a_server_that_hid_everything_is_found_and_ended(host: Host) -> None:
    done = launched(host, "--hold-on")
    # Another session, no marker, no name: only the cgroup still tells whose it is.
    code = "import time; print('up', flush=True); time.sleep(60)"
    inside = f"{done['cgroup']}/cgroup.procs"
    hidden = host.python(code, env={"HOME": str(host.home)})
    Path(inside).write_text(str(hidden))
    for pid in (done["shim_pid"], done["pid"]):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lives(done["pid"]), "the launcher's end")
    found, how = members(host, done)
    assert hidden in found
    assert how == "cgroup+session+marker"
    life.kill(host.context(), {"engines": ENGINES, "slot": "stable"})
    assert not lives(hidden)
    assert not host.mine()
    assert not cgroups.exists(done["cgroup"])


@pytest.mark.usefixtures("lets_us")
def test_after_the_end_of_the_server_its_cgroup_is_gone(host: Host) -> None:
    done = launched(host)
    assert cgroups.exists(done["cgroup"])
    os.kill(done["pid"], signal.SIGTERM)
    eventually(lambda: not lives(done["shim_pid"]), "the end of all")
    assert not cgroups.exists(done["cgroup"])


@pytest.mark.usefixtures("lets_us")
def test_a_cgroup_is_ended_at_once_but_not_where_somebody_in_it_is_spared(host: Host) -> None:
    script = (
        "from setproctitle import setproctitle; setproctitle('keeper'); import time; print('up', flush=True)"
    )
    done = launched(host, "--deaf")
    kept = host.python(f"{script}; time.sleep(60)", env={"HOME": str(host.home)})
    Path(f"{done['cgroup']}/cgroup.procs").write_text(str(kept))
    life.kill(host.context(), {"engines": ENGINES, "slot": "stable", "protect": ["keeper"]})
    assert lives(kept)
    assert not lives(done["pid"])


@pytest.mark.usefixtures("lets_us")
def test_a_failed_check_leaves_no_cgroup_behind(host: Host) -> None:
    slot = f"failed{host.mark[:8]}"  # other tests make and remove cgroups of their slots meanwhile
    life.restart(host.context(), {"plan": host.plan(slot=slot), "engines": ENGINES})
    before = {path.name for place in cgroups.found() for path in Path(place.own).iterdir()}
    assert any(name.startswith(f"stoker-{slot}-") for name in before)
    plan = {**host.plan(slot=slot), "hooks": {"before_stop": ["false"], "after_ready": [], "drain_s": 0}}
    with pytest.raises(Exception, match="hook failed"):
        life.restart(host.context(), {"plan": plan, "engines": ENGINES})
    after = {path.name for place in cgroups.found() for path in Path(place.own).iterdir()}
    assert {name for name in after - before if name.startswith(f"stoker-{slot}-")} == set()


@pytest.mark.usefixtures("lets_us")
@pytest.mark.skipif(os.getuid() != 0, reason="only root may leave its login's scope")
def test_out_of_a_logins_scope_a_server_of_root_steps_aside(host: Host) -> None:
    """Where logind ends what a login leaves, it ends a scope with all below it."""
    (mount, own) = cgroups.found()[0]
    scope = Path(own) / f"session-{os.getpid()}.scope"
    scope.mkdir()
    try:
        path = cgroups.make(host.mark, [Place(mount, str(scope))])
        assert Path(path).parent == Path(mount)
        cgroups.remove(path)
    finally:
        scope.rmdir()


def test_a_server_starts_where_its_cgroup_cannot_be_joined(host: Host) -> None:
    folder = host.root / "launch"
    folder.mkdir()
    command = [sys.executable, "-I", "-S", str(SHIM), str(folder), "/no/such/cgroup", "--", "sleep", "60"]
    done = subprocess.run(command, env=host.env, capture_output=True, text=True, timeout=20)
    pid = int(done.stdout.split()[2])
    assert lives(pid)


def test_a_server_in_a_cgroup_of_ours_is_kept_by_no_unit(host: Host) -> None:
    """Below the agent's own unit lies every server that it launched."""
    done = launched(host)
    snapshot = procs.snapshot(host.context().facts)
    assert keeper.find(snapshot, snapshot.by_pid[done["pid"]], frozenset({os.getpid()})) is None
