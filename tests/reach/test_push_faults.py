"""What goes wrong while files are put: two at once, and a host that reads for long."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.errors import HostFailed
from stoker.reach.client import Agent
from stoker.reach.push import load, push
from stoker.reach.reach import Reach
from tests.reach.conftest import settings, target_of
from tests.sshd import SshServer

SIZE = 6 << 20


@pytest.mark.parametrize("part", [0, 1 << 20])
def test_two_that_put_the_same_file_at_once_both_put_it_whole(
    server: SshServer, agent: Agent, tmp_path: Path, part: int
) -> None:
    source, there = tmp_path / "source", tmp_path / "there/f"
    source.write_bytes(os.urandom(SIZE))
    what = load(source)

    def stop(name: str, done: int, total: int) -> None:
        if done >= part:
            raise HostFailed("interrupted", host="h1", kind="cancelled")

    if part:
        with pytest.raises(HostFailed):
            push(agent, what, str(there), on_progress=stop)
    failed: list[BaseException] = []

    def second() -> None:
        try:
            with Reach(settings()).connect(target_of(server)) as other:
                push(other, what, str(there))
        except BaseException as error:
            failed.append(error)

    begun: list[threading.Thread] = []

    def progress(name: str, done: int, total: int) -> None:
        if not begun and list(there.parent.glob(".stoker-*.part")):
            begun.append(threading.Thread(target=second))
            begun[0].start()
            begun[0].join(20)

    push(agent, what, str(there), rate=20 << 20, on_progress=progress)
    begun[0].join()
    assert failed == []
    assert there.read_bytes() == source.read_bytes()
    assert [path.name for path in there.parent.iterdir()] == ["f"]


@pytest.mark.parametrize("kind", ["link", "folder", "long", "pipe"])
def test_odd_part_on_the_host_is_no_obstacle(agent: Agent, tmp_path: Path, kind: str) -> None:
    source, there, outside = tmp_path / "source", tmp_path / "there/f", tmp_path / "outside"
    source.write_bytes(os.urandom(SIZE))
    outside.write_bytes(b"precious")
    what = load(source)

    def stop(name: str, done: int, total: int) -> None:
        if list(there.parent.glob(".stoker-*.part")):
            raise HostFailed("interrupted", host="h1", kind="cancelled")

    with pytest.raises(HostFailed):
        push(agent, what, str(there), rate=8 << 20, on_progress=stop)
    (part,) = there.parent.glob(".stoker-*.part")
    part.unlink()
    acts: dict[str, Callable[[], object]] = {
        "link": lambda: part.symlink_to(outside),
        "folder": part.mkdir,
        "long": lambda: part.write_bytes(bytes(SIZE + 1)),
        "pipe": lambda: os.mkfifo(part),
    }
    acts[kind]()
    push(agent, what, str(there))
    assert there.read_bytes() == source.read_bytes()
    assert outside.read_bytes() == b"precious"


@pytest.mark.long
def test_we_wait_while_the_host_reads_what_it_has(server: SshServer, tmp_path: Path) -> None:
    source, there = tmp_path / "source", tmp_path / "there"
    for file in (source, there):
        file.touch(0o644)
        os.truncate(file, 1 << 30)
    with Reach(settings(silence_s=1.0)).connect(target_of(server)) as agent:
        assert push(agent, load(source), str(there)).sent == 0
