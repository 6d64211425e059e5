"""Connections are made side by side without getting into each other's way."""

from __future__ import annotations

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


def test_only_a_name_is_asked_for() -> None:
    assert sockets._literal(hop(7))[0][4] == ("127.0.0.7", 22)
    assert sockets._literal(replace(hop(7), address="localhost")) == []
