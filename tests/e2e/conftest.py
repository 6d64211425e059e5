"""A real sshd with a home of its own, a real llama-server with a tiny model, a project that knows both."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.lab import realengine, tinymodel
from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer, free_port

PLAIN = """\
engine: llamacpp
server:
  name: tiny
  model: "{model}"
  bind: 127.0.0.1
  port: {port}
  command: ["{server}"]
  args: {{threads: 1, device: none, n-gpu-layers: 0, ctx-size: 16384, metrics: true}}
ready: {{timeout_s: 30, stall_s: 20}}
bench: {{runs: 4, tokens: 128}}
"""

TUNED = """\
extends: plain
env:
  LLAMA_ARG_SPEC_TYPE: ngram-simple
"""


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model large enough that a pass over its weights is felt."""
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    tinymodel.write(path, hidden=512, layers=8)
    return path


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real engine's program."""
    return realengine.program()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The home that logins have; whatever was launched from it is ended at the end."""
    folder = tmp_path / "home"
    folder.mkdir()
    yield folder
    end_all_of(folder)


@pytest.fixture
def box(tmp_path: Path, home: Path) -> Iterator[SshServer]:
    """A host: a real OpenSSH server."""
    server = SshServer(tmp_path / "sshd", env={"HOME": str(home)})
    yield server
    server.stop()


@pytest.fixture
def project(tmp_path: Path, box: SshServer, tiny_model: Path, llama_server: Path) -> ProjectFolder:
    """A project with the host ``box`` and the profiles ``plain`` and ``tuned``."""
    folder = ProjectFolder(tmp_path / "project")
    folder.hosts({"box": box.variables()})
    port = free_port("127.0.0.1")
    folder.write("profiles/plain.yml", PLAIN.format(model=tiny_model, server=llama_server, port=port))
    folder.write("profiles/tuned.yml", TUNED)
    return folder


def end_all_of(home: Path) -> None:
    """SIGKILL to every process whose environment says that this is its home."""
    marker = f"HOME={home}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
