"""A real vLLM on the CPU behind a real sshd, where ``STOKER_VLLM_CPU`` names its folder: see ``vllm-cpu``."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import end_all_of
from tests.e2e.project import Ended, ProjectFolder
from tests.sshd import SshServer, free_port

ENGINE = os.environ.get("STOKER_VLLM_CPU", "")
# Gigabytes and minutes: no part of what CI runs.
collect_ignore_glob = [] if ENGINE else ["test_vllm*.py"]
collect_ignore_glob += [] if os.environ.get("STOKER_TORCH_CPU") else ["test_allreduce*.py"]
COMMAND_S = 1200.0

_PLAIN = """\
engine: vllm
server:
  name: tiny
  model: "{root}/tiny"
  bind: 127.0.0.1
  port: {port}
  venv: "{root}/v"
  args: {{max-model-len: 2048, dtype: bfloat16, enforce-eager: true}}
env:
  HF_HUB_OFFLINE: 1
  VLLM_NO_USAGE_STATS: 1
  VLLM_CPU_KVCACHE_SPACE: 1
ready: {{timeout_s: 900, stall_s: 600}}
bench: {{runs: 2, tokens: 32, concurrency: 4}}
"""
_TUNED = """\
extends: plain
env:
  VLLM_CPU_OMP_THREADS_BIND: "{cpu}"
"""
_TWO = """\
extends: plain
server:
  args: {tensor-parallel-size: 2}
env:
  VLLM_CPU_SIM_MULTI_NUMA: 1
"""


class Site:
    """A host with a real vLLM, and a project that knows it.

    Args:
        project: With the host ``box`` and the profiles ``plain``, ``tuned`` and ``two``.
        home: The home that logins have.
        port: What the profiles listen on.
        notes: What the commands said is appended here.
    """

    def __init__(self, project: ProjectFolder, home: Path, port: int, notes: Path) -> None:
        self.project, self.home, self.port, self.notes = project, home, port, notes
        self.root = Path(ENGINE)

    def inv(self, *argv: str) -> Ended:
        """``inv ARGV --host box --json``; what it said for people is noted."""
        begin = time.monotonic()
        ended = self.project.inv(*argv, "--host", "box", "--json", timeout_s=COMMAND_S)
        self.note(f"$ inv {' '.join(argv)} --host box\n{ended.err}exit {ended.code}, {_since(begin)}")
        return ended

    def note(self, text: str) -> None:
        """Keep text as evidence, without places of this machine."""
        for place, name in ((self.project.root.parent, "…"), (self.root, "ENGINE")):
            text = text.replace(str(place), name)
        with self.notes.open("a") as file:
            file.write(text.rstrip() + "\n\n")


def _since(begin: float) -> str:
    return f"{time.monotonic() - begin:.1f} s"


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Ends, at the end, whatever was launched from its home."""
    home = tmp_path / "home"
    home.mkdir()
    notes = Path(ENGINE) / "notes.md"
    port = free_port("127.0.0.1")
    project = ProjectFolder(tmp_path / "project")
    project.write("profiles/plain.yml", _PLAIN.format(root=ENGINE, port=port))
    project.write("profiles/tuned.yml", _TUNED.format(cpu=min(os.sched_getaffinity(0))))
    project.write("profiles/two.yml", _TWO)
    with SshServer(tmp_path / "sshd", env={"HOME": str(home)}) as server:
        project.hosts({"box": server.variables()})
        place = Site(project, home, port, notes)
        place.note(f"# {request.node.name}, {time.strftime('%Y-%m-%d %H:%M:%S %Z')}")
        yield place
        place.inv("kill", "--slot", "tiny", "--yes")  # and what it left in shared memory
        left = shared_memory(living(home))
    end_all_of(home)
    for path in left:
        Path(path).unlink(missing_ok=True)


def living(home: Path) -> list[int]:
    """Processes whose environment says that this is their home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"HOME={home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def shared_memory(pids: Iterable[int]) -> set[str]:
    """Paths of the files in /dev/shm that these processes have mapped, under whatever name."""
    inodes: set[int] = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            rows = [
                line.split(None, 5)
                for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
            ]
            inodes.update(int(row[4]) for row in rows if row[-1].startswith("/dev/shm/"))
    return {str(path) for path in Path("/dev/shm").iterdir() if path.stat().st_ino in inodes}


def kill_hard(pid: int) -> None:
    """SIGKILL, and wait until nothing of it is left but, at most, a zombie."""
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while time.monotonic() < end and lives(pid):
        time.sleep(0.02)


def lives(pid: int) -> bool:
    """Whether it is neither gone nor a zombie."""
    return _fields(pid)[0] not in ("", "Z")


def parent_of(pid: int) -> int:
    """0 when it is gone."""
    return int(_fields(pid)[1])


def _fields(pid: int) -> tuple[str, str]:
    try:
        state, parent = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
    except OSError:
        return "", "0"
    return state, parent
