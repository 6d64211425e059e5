"""Locks of the host: exclusive, across users, never longer than their holder."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.agent.context import AgentError
from stoker.agent.facts import Facts
from stoker.agent.killing import claim
from stoker.agent.launches import locks
from stoker.agent.launches.locks import LockSet
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, Host, eventually, lives

HOLD = """
import sys, time
from stoker.agent.facts import Facts
from stoker.agent.launches.locks import LockSet
mine = LockSet(Facts(lock_dir=sys.argv[1]), "/home/zoo/.stoker")
with mine.hold(sys.argv[2:], {"user": "zoe", "host": "desk"}):
    print("held", flush=True)
    time.sleep(60)
"""


def lockset(host: Host) -> LockSet:
    return LockSet(Facts(lock_dir=str(host.root / "locks")), str(host.home))


def elsewhere(host: Host, *names: str) -> int:
    """Another process that holds locks."""
    return host.python(HOLD, str(host.root / "locks"), *names, cwd=Path(__file__).parents[2])


def as_nobody(act: Callable[[], None]) -> int:
    """Do something as another user; returns the exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            act()
            os._exit(0)
        except AgentError as error:
            os._exit(9 if error.kind == "lock-held" else 8)
        finally:
            os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_lock_that_another_process_holds_names_it(host: Host) -> None:
    pid = elsewhere(host, "gpu-a", "slot-x")
    with pytest.raises(AgentError) as caught, lockset(host).hold(["gpu-b", "slot-x"], {}):
        pass
    assert caught.value.kind == "lock-held"
    assert (caught.value.detail["owner"], caught.value.detail["pid"]) == ("zoe", pid)
    assert "zoe from desk" in caught.value.what
    assert caught.value.detail["age_s"] < 30


def test_locks_are_held_all_or_none(host: Host) -> None:
    elsewhere(host, "b")
    mine = lockset(host)
    with pytest.raises(AgentError), mine.hold(["a", "b", "c"], {}):
        pass
    assert [lock["name"] for lock in mine.listing()] == ["b"]


def test_a_lock_ends_with_its_holder_however_that_ends(host: Host) -> None:
    pid = elsewhere(host, "a")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not lives(pid), "the holder's end")
    with lockset(host).hold(["a"], {}):
        assert [lock["pid"] for lock in lockset(host).listing()] == [os.getpid()]
    assert lockset(host).listing() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_other_users_find_and_take_the_same_lock(host: Host) -> None:
    for folder in (host.root, *host.root.parents):
        if folder == Path("/tmp"):
            break
        folder.chmod(0o755)
    (host.root / "locks").mkdir(mode=0o1777)
    (host.root / "locks").chmod(0o1777)
    mine = lockset(host)

    def take() -> None:
        with mine.hold(["a"], {"user": "nobody"}):
            pass

    with mine.hold(["a"], {"user": "root"}):
        assert as_nobody(take) == 9
    assert as_nobody(take) == 0, "a file of root's cannot be locked by another user"


def test_a_symbolic_link_or_a_pipe_in_place_of_a_lock_is_refused(host: Host) -> None:
    folder = host.root / "locks"
    folder.mkdir()
    victim = host.root / "victim"
    victim.write_text("precious")
    (folder / "stoker-a.lock").symlink_to(victim)
    os.mkfifo(folder / "stoker-b.lock")
    for name in ("a", "b"):
        with pytest.raises(AgentError) as caught, lockset(host).hold([name], {}):
            pass
        assert caught.value.kind == "io"
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("text", ["", "no json", "[1]", '{"pid": "x", "start": {}, "user": 7, "time": true}'])
def test_rubbish_inside_a_lock_is_no_reason_to_fail(host: Host, text: str) -> None:
    pid = elsewhere(host, "a")
    (host.root / "locks" / "stoker-a.lock").write_text(text)
    with pytest.raises(AgentError) as caught, lockset(host).hold(["a"], {}):
        pass
    assert caught.value.kind == "lock-held"
    assert caught.value.detail["alive"] is True, f"{pid} holds it, whatever is written there"


def test_unlock_leaves_a_living_holder_alone(host: Host) -> None:
    pid = elsewhere(host, "a")
    shown = locks.unlock(host.context(), {"check": True})["locks"]
    assert [(lock["name"], lock["owner"], lock["pid"], lock["alive"]) for lock in shown] == [
        ("a", "zoe", pid, True)
    ]
    with pytest.raises(AgentError) as caught:
        locks.unlock(host.context(), {})
    assert (caught.value.kind, lives(pid)) == ("lock-held", True)


def test_unlock_takes_away_what_an_heir_of_a_dead_holder_keeps(host: Host) -> None:
    heir = """
import fcntl, json, os, signal, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
fcntl.flock(fd, fcntl.LOCK_EX)
os.write(fd, json.dumps({"pid": 2**22 - 1, "start": 5, "user": "late", "time": time.time() - 100}).encode())
print("held", flush=True)
signal.pause()
"""
    (host.root / "locks").mkdir()
    host.python(heir, str(host.root / "locks" / "stoker-a.lock"))
    (lock,) = locks.unlock(host.context(), {})["locks"]
    assert (lock["owner"], lock["alive"]) == ("late", False)
    assert lock["age_s"] >= 99
    with lockset(host).hold(["a"], {}):
        pass


def test_a_lock_that_was_removed_while_waiting_is_taken_anew(host: Host) -> None:
    mine = lockset(host)
    with mine.hold(["a"], {}):
        (host.root / "locks" / "stoker-a.lock").unlink()
        with mine.hold(["a"], {}):
            assert [lock["name"] for lock in mine.listing()] == ["a"]


def test_looking_at_locks_does_not_make_others_fail(host: Host) -> None:
    looker = (
        "import sys\nfrom stoker.agent.facts import Facts\nfrom stoker.agent.launches.locks import LockSet\n"
        "mine = LockSet(Facts(lock_dir=sys.argv[1]), '/h')\nprint('up', flush=True)\n"
        "while True: mine.listing()"
    )
    with lockset(host).hold(["a"], {}):
        pass
    host.python(looker, str(host.root / "locks"), cwd=Path(__file__).parents[2])
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        with lockset(host).hold(["a"], {}):
            pass


def test_nothing_of_a_lock_is_left_when_it_is_given_back(host: Host) -> None:
    with lockset(host).hold(["a"], {"user": "zoe"}):
        written = json.loads((host.root / "locks" / "stoker-a.lock").read_text())
        assert (written["user"], written["pid"]) == ("zoe", os.getpid())
    assert list((host.root / "locks").iterdir()) == []


def test_what_is_reserved_is_held_over_many_operations_until_it_is_given_up(host: Host) -> None:
    plan = host.plan()
    mine, other = host.context(), host.context()
    asked = {"plan": plan, "engines": ENGINES, "owner": "one@desk"}
    claim.reserve(mine, {**asked, "what": "experiment a~sweep"})
    assert life.restart(mine, asked)["launch"]["slot"] == "stable"
    locks.lock_set(mine).release()  # as the wait for a launch does
    for act in (life.restart, life.stop):
        with pytest.raises(AgentError) as caught:
            act(other, {**asked, "slot": "stable"})
        assert caught.value.kind == "lock-held"
        assert "from one@desk" in caught.value.what
        assert "(experiment a~sweep)" in caught.value.what
    claim.reserve(mine, {"plan": None})
    life.stop(other, {**asked, "slot": "stable"})


def test_where_one_is_held_nothing_is_reserved(host: Host) -> None:
    mine, other = lockset(host), lockset(host)
    with other.hold(["gpu-1"], {}):
        with pytest.raises(AgentError):
            mine.reserve(["gpu-0", "gpu-1"], {})
        other.reserve(["gpu-0"], {})
    other.give_up()
    assert other.listing() == []


def test_slots_of_two_homes_are_two_slots(tmp_path: Path) -> None:
    assert locks.slot_lock(str(tmp_path / "a"), "x") != locks.slot_lock(str(tmp_path / "b"), "x")


def test_a_home_need_not_be_utf_8() -> None:
    assert locks.slot_lock("/home/\udcff", "x") != locks.slot_lock("/home/\udcfe", "x")


def test_the_folder_for_locks_is_the_same_for_every_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = LockSet(Facts(), "/home/zoo")
    shared, closed, fallback = tmp_path / "shared", tmp_path / "closed", tmp_path / "fallback"
    shared.mkdir()
    shared.chmod(0o1777)
    closed.mkdir(mode=0o755)
    monkeypatch.setattr(locks, "FALLBACK_DIR", str(fallback))
    monkeypatch.setattr(locks, "SYSTEM_DIR", str(shared))
    with mine.hold(["a"], {}):
        assert [path.name for path in shared.iterdir()] == ["stoker-a.lock"]
    monkeypatch.setattr(locks, "SYSTEM_DIR", str(closed))
    with mine.hold(["a"], {}):
        assert [path.name for path in fallback.iterdir()] == ["stoker-a.lock"]
    assert fallback.stat().st_mode & 0o7777 == 0o1777


def test_a_fallback_folder_that_somebody_prepared_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "SYSTEM_DIR", str(tmp_path / "missing"))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere").chmod(0o1777)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "closed").mkdir(mode=0o755)
    for name in ("link", "closed"):
        monkeypatch.setattr(locks, "FALLBACK_DIR", str(tmp_path / name))
        with pytest.raises(AgentError) as caught, LockSet(Facts(), "/home/zoo").hold(["a"], {}):
            pass
        assert caught.value.kind == "io"
        assert name in caught.value.what
