"""Processes as /proc tells them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from stoker.agent.processes import procs
from stoker.agent.processes.descriptors import addresses, overlap
from tests.agent.conftest import MARK, Host, eventually, free_port, lives, start_of

SLEEP = "import signal; print('up', flush=True); signal.pause()"


def renamed(title: str) -> str:
    return f"from setproctitle import setproctitle; setproctitle({title!r}); {SLEEP}"


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields(host: Host) -> None:
    pid = host.python(renamed("a) R (1 2 3"))
    found = procs.look(pid)
    assert found is not None
    assert found.comm == "a) R (1 2 3"
    assert (found.ppid, found.sid, found.pgid) == (os.getpid(), pid, pid)


def test_a_title_comes_without_the_padding_and_the_rest_of_the_arguments(host: Host) -> None:
    pid = host.python(renamed("zoo::short"), "some", "long", "arguments", "that", "were", "there")
    found = procs.look(pid)
    assert found is not None
    assert found.title == "zoo::short"


def test_a_zombie_is_gone(host: Host) -> None:
    child = host.spawn([sys.executable, "-c", ""])
    start = start_of(child.pid)
    eventually(lambda: procs.look(child.pid).state == "Z", "a zombie")  # type: ignore[union-attr]
    assert not procs.alive(child.pid, start)
    assert not procs.snapshot(host.context().facts).alive(child.pid, start)


def test_a_process_whose_main_thread_ended_is_not_gone_while_others_run(host: Host) -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print('up', flush=True)\n"
        "ctypes.CDLL(None).syscall(60, 0)"  # exit of this thread alone
    )
    pid = host.python(code)
    start = start_of(pid)
    eventually(lambda: procs.look(pid).state == "Z", "an ended main thread")  # type: ignore[union-attr]
    assert procs.alive(pid, start)


def test_another_process_with_the_same_pid_is_another_process(host: Host) -> None:
    pid = host.python(SLEEP)
    assert procs.alive(pid, start_of(pid))
    assert not procs.alive(pid, start_of(pid) + 1)


def test_what_is_read_late_is_not_another_processs(host: Host) -> None:
    pid = host.python(SLEEP)
    stat = procs.read_file(f"/proc/{pid}/stat").replace(b" %d " % start_of(pid), b" 1 ")
    former = procs.Process(pid, stat)
    assert (former.argv, former.uid) == ([], -1)


def test_descendants_are_found_with_parents_first(host: Host) -> None:
    pid = host.serve("--workers", "2", "--escape")
    snapshot = procs.snapshot(host.context().facts)
    below = [process.pid for process in snapshot.descendants(pid)]
    assert set(host.workers()) <= set(below)
    assert [p.pid for p in snapshot.ancestors(below[0])][:2] == [pid, os.getpid()]


def test_every_listener_of_a_port_is_found_also_when_two_share_it(host: Host) -> None:
    port = free_port()
    one, two = (host.serve("--port", str(port)) for _ in range(2))
    found = [row for row in procs.listeners(port) if row.address == "127.0.0.1"]
    assert {one, two} <= {row.pid for row in found}
    assert len({row.inode for row in found}) == 2
    assert all(row.uid == os.getuid() for row in found)


def test_listeners_of_both_families_and_of_wildcards_are_told_apart() -> None:
    with socket.socket() as four, socket.socket(socket.AF_INET6) as six:
        four.bind(("0.0.0.0", 0))
        four.listen()
        six.bind(("::1", 0))
        six.listen()
        assert [(r.address, r.pid) for r in procs.listeners(four.getsockname()[1])] == [
            ("0.0.0.0", os.getpid())
        ]
        assert [(r.address, r.pid) for r in procs.listeners(six.getsockname()[1])] == [("::1", os.getpid())]


def test_a_listener_that_only_a_closed_process_holds_has_no_pid_but_a_user(host: Host) -> None:
    snapshot = procs.snapshot(host.context().facts)
    del snapshot.by_pid[os.getpid()]
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        (row,) = procs.listeners(server.getsockname()[1], snapshot)
    assert (row.pid, row.uid) == (None, os.getuid())


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("0.0.0.0", "127.0.0.2", True),
        ("::", "127.0.0.2", True),
        ("::", "::1", True),
        ("0.0.0.0", "::1", False),
        ("::1", "127.0.0.1", False),
    ],
)
def test_addresses_meet_when_equal_or_covered(one: str, other: str, meet: bool) -> None:
    assert overlap(one, other) is meet
    assert overlap(other, one) is meet


@pytest.mark.parametrize(
    ("bind", "found"),
    [
        ("127.0.0.1", {"127.0.0.1"}),
        ("0.0.0.0", {"0.0.0.0"}),
        ("[::1]", {"::1"}),
        ("::1", {"::1"}),
        ("", {"0.0.0.0", "::"}),
        ("*", {"0.0.0.0", "::"}),
        ("no such name", set()),
    ],
)
def test_a_bind_means_numeric_addresses(bind: str, found: set[str]) -> None:
    assert set(addresses(bind)) | {"::"} == found | {"::"}, "(there may be no IPv6 here)"
    if found:
        assert "127.0.0.1" in addresses("localhost")


def test_holders_of_a_gpu_are_those_that_have_it_open_or_mapped(host: Host) -> None:
    host.gpus(3)
    (host.devices / "nvidia2").write_bytes(b"x" * 4096)
    opened = host.python(f"file = open({host.device(0)!r}); {SLEEP}")
    mapping = f"import mmap, os; fd = os.open({host.device(2)!r}, 2); m = mmap.mmap(fd, 4096); os.close(fd)"
    mapped = host.python(f"{mapping}; {SLEEP}")
    host.python(f"file = open({str(host.root / 'facts.json')!r}); {SLEEP}")
    facts = host.context().facts
    assert procs.holders(procs.snapshot(facts)) == {0: {opened}, 2: {mapped}}


def test_a_process_belongs_to_a_host_by_its_environment_even_when_renamed(host: Host) -> None:
    mine = host.python(renamed("zoo::worker_0"), "x" * 4000)
    other = host.python(SLEEP, env={**host.env, MARK: "another"})
    snapshot = procs.snapshot(host.context().facts)
    assert set(procs.read_file(f"/proc/{mine}/environ")) == {0}, "the title did not cover the environment"
    assert snapshot.is_ours(snapshot.by_pid[mine])
    assert not snapshot.is_ours(snapshot.by_pid[other])
    assert not snapshot.is_ours(snapshot.by_pid[1])


def test_a_title_that_runs_into_the_environment_does_not_stand_for_it(host: Host) -> None:
    longer = f"from setproctitle import setproctitle; setproctitle('and a long title ' * 200); {SLEEP}"
    mine = host.python(longer, env={**host.env, "LARGE": "x" * 9000})
    raw = procs.read_file(f"/proc/{mine}/environ")
    assert b"long title" in raw and host.mark.encode() not in raw, "the title did not run into it"
    env = procs.environ_of(mine) or {}
    assert env[MARK] == host.mark
    assert env["LARGE"] == "x" * 9000
    snapshot = procs.snapshot(host.context().facts)
    assert snapshot.is_ours(snapshot.by_pid[mine])


def test_an_empty_environment_is_empty_not_unreadable(host: Host) -> None:
    pid = host.python("import os; os.execve('/bin/sh', ['sh', '-c', 'echo up; exec /bin/sleep 60'], {})")
    try:
        eventually(lambda: procs.look(pid).comm == "sleep", "the sleep")  # type: ignore[union-attr]
        assert procs.environ_of(pid) is not None
        assert MARK not in (procs.environ_of(pid) or {})
    finally:
        subprocess.run(["/bin/kill", str(pid)], check=True)
        eventually(lambda: not lives(pid), "its end")


def test_cpu_time_rises_with_work(host: Host) -> None:
    pid = host.python("print('up', flush=True)\nwhile True: pass")
    eventually(lambda: procs.look(pid).utime > 2, "CPU ticks")  # type: ignore[union-attr]
