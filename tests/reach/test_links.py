"""Connections are made side by side without getting into each other's way."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.reach import sockets
from stoker.reach.keys import Keyring
from stoker.reach.known_hosts import KnownHosts
from stoker.reach.links import Links
from stoker.reach.route import Hop
from stoker.reach.sockets import Alarms

THREADS = 8
EACH = 25


@pytest.fixture
def hurry() -> Iterator[None]:
    """Threads take turns as often as they can: what they share wrongly is found."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def hop(number: int) -> Hop:
    return Hop(
        address=f"127.0.0.{number}",
        port=22,
        user="nobody",
        key_name="",
        identities=(),
        identities_only=True,
        strict=True,
        known_hosts=(Path("/nonexistent"),),
        hash_known_hosts=False,
        connect_timeout_s=1.0,
        via=None,
        proxy_command="",
    )


def test_many_threads_make_connections_at_once(hurry: None) -> None:
    links = Links(KnownHosts(), Keyring())
    begin = threading.Barrier(THREADS)

    def make(thread: int) -> list[str]:
        begin.wait()
        made = [links._connection(hop(thread + 1), None, 5.0) for _ in range(EACH)]
        return [f"{one.user}@{one.host}:{one.port}" for one in made]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(make, range(THREADS)))
    assert found == [[f"nobody@127.0.0.{thread + 1}:22"] * EACH for thread in range(THREADS)]


def test_alarms_call_in_order_and_never_what_was_cancelled() -> None:
    alarms, called = Alarms(), queue.SimpleQueue[str]()
    alarms.set(0.10, lambda: called.put("later"))
    cancelled = alarms.set(0.01, lambda: called.put("cancelled"))
    alarms.set(0.05, lambda: called.put("sooner"))
    alarms.cancel(cancelled)
    alarms.cancel(cancelled)
    assert [called.get(timeout=10), called.get(timeout=10)] == ["sooner", "later"]
    assert called.empty()


def test_alarms_of_many_threads_all_come_and_their_thread_ends(hurry: None) -> None:
    alarms, called = Alarms(), queue.SimpleQueue[int]()
    begin = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        begin.wait()
        for number in range(EACH):
            kept = alarms.set(0.001 * (number % 3), lambda: called.put(thread))
            if number % 2:
                alarms.cancel(kept)
            alarms.cancel(alarms.set(60, lambda: called.put(-1)))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    for _ in range(THREADS * (EACH // 2 + 1)):
        assert called.get(timeout=10) >= 0
    watching = [one for one in threading.enumerate() if one.name == "alarms"]
    for one in watching:
        one.join(10)
    assert not any(one.is_alive() for one in watching)


def test_only_a_name_is_asked_for() -> None:
    assert sockets._literal(hop(7))[0][4] == ("127.0.0.7", 22)
    assert sockets._literal(replace(hop(7), address="localhost")) == []
