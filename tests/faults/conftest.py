"""Hosts that can be broken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.box import Box
from tests.faults.cable import Cable, Namespace, Stopped, namespaces_refused
from tests.sshd import SshServer


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A host that is all right."""
    one = Box(tmp_path, lambda folder, env: SshServer(folder, env=env))
    yield one
    one.end()


@pytest.fixture
def cable() -> Iterator[Cable]:
    """A cable of its own where the machine lets us, else an sshd that can be stopped."""
    one: Cable = Stopped() if namespaces_refused() else Namespace()
    yield one
    one.remove()


@pytest.fixture
def far(tmp_path: Path, cable: Cable) -> Iterator[Box]:
    """A host at the end of the cable."""
    one = Box(tmp_path, cable.serve)
    yield one
    cable.mend()
    one.end()
