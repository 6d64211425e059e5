"""Real OpenSSH servers, and the way to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.reach.client import Agent
from stoker.reach.reach import Reach
from stoker.reach.target import ReachSettings, Target
from tests.sshd import SshServer


def settings(**changes: Any) -> ReachSettings:
    """No ssh_config of this machine, and short patience."""
    return ReachSettings(**{"ssh_config": "none", "login_timeout_s": 20.0, **changes})


def target_of(server: SshServer, name: str = "h1", **variables: Any) -> Target:
    """A host of an inventory that is this server."""
    return Target.of(name, {**server.variables(), **variables})


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with quiet start-up files."""
    folder = tmp_path_factory.mktemp("home")
    (folder / ".bashrc").write_text("")
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Iterator[SshServer]:
    """A server that nobody stops or breaks."""
    with SshServer(tmp_path_factory.mktemp("sshd"), env={"HOME": str(home)}) as running:
        yield running


@pytest.fixture
def agent(server: SshServer) -> Iterator[Agent]:
    """An agent on that server."""
    with Reach(settings()).connect(target_of(server)) as running:
        yield running
