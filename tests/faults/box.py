"""One real host for the faults: an sshd, a home, locks of its own, a small real server, a project."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.agent.launched import SERVER
from tests.e2e.project import Ended, ProjectFolder
from tests.sshd import SshServer, free_port

# Long enough for a machine that is busy, short enough for a test.
SILENCE_S = 2.0
SLOT = "plain"

_PLAIN = """\
engine: openai
server:
  name: {slot}
  model: tiny
  bind: 127.0.0.1
  port: {port}
  command: [{python}, {server}, --port, "{port}"]
  args: {{model: tiny, load: 0}}
ready: {{timeout_s: 60, stall_s: 60}}
kill: {{grace_s: 5}}
bench: {{runs: 1, tokens: 4, concurrency: 1}}
"""
_OTHERS = {
    "slow": "extends: plain\nserver: {args: {load: 60}}\n",
    "paced": "extends: plain\nserver: {args: {tokens: 2000, pace: 0.02}}\n",
    # Its launcher does not end by SIGTERM: the kill takes as long as its grace.
    "deaf": "extends: plain\nkill: {grace_s: 1.5}\n"
    'server: {wrap: [/bin/sh, -c, \'trap "" TERM; "$@"; sleep 0.01\', sh]}\n',
}


def eventually(holds: Callable[[], Any], what: str, within_s: float = 20.0) -> Any:
    """Wait for something that has to come true."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"{what}: not within {within_s} s")


class Box:
    """The host.

    Args:
        root: A folder for all of it.
        serve: Makes its SSH server: (folder, environment of logins) → server.
        home: Where logins have their home; None: in ``root``.
    """

    def __init__(
        self, root: Path, serve: Callable[[Path, dict[str, str]], SshServer], home: Path | None = None
    ) -> None:
        self.root = root
        self.home = home or root / "home"
        self.home.mkdir(exist_ok=True)
        self.facts = root / "facts.json"
        self.env = {"HOME": str(self.home), "STOKER_HOST_FACTS": str(self.facts)}
        locks = str(root / "locks")
        self.facts.write_text(json.dumps({"lock_dir": locks, "process_env": {"HOME": str(self.home)}}))
        self.server = serve(root / "sshd", self.env)
        self.port = free_port()
        self.project = self.operator("project")

    def operator(self, name: str) -> ProjectFolder:
        """Somebody's project that knows this host."""
        project = ProjectFolder(self.root / name)
        project.hosts({"box": self.server.variables()})
        words = {"slot": SLOT, "port": self.port, "python": sys.executable, "server": SERVER}
        project.write("profiles/plain.yml", _PLAIN.format(**words))
        for profile, text in _OTHERS.items():
            project.write(f"profiles/{profile}.yml", text)
        limits = {"silence_s": SILENCE_S, "connect_timeout_s": 2, "login_timeout_s": 10}
        project.write("invoke.yaml", json.dumps({"stoker": limits}))
        return project

    def inv(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """``inv WORDS --host box``, to its end."""
        return self.project.inv(*words, "--host", "box", env=env)

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """``inv WORDS --host box``, begun."""
        return self.project.start(*words, "--host", "box")

    def result(self, *words: str) -> dict[str, Any]:
        """What a command that ends well says of this host."""
        ended = self.inv(*words, "--json")
        assert ended.code == 0, ended.text
        found: dict[str, Any] = ended.json["hosts"]["box"]["results"][0]
        return found

    def restart(self, profile: str) -> dict[str, Any]:
        """The launch that a restart gives."""
        found: dict[str, Any] = self.result("restart", "--profile", profile)["launch"]
        return found

    def ours(self) -> dict[str, Any]:
        """The one server that ``inv status`` tells of."""
        (server,) = self.result("status")["servers"]
        return dict(server)

    # What lies on the host, looked at without asking it.

    @property
    def state(self) -> Path:
        """``~/.stoker``."""
        return self.home / ".stoker"

    def launchers(self) -> dict[str, int]:
        """Launch id → pid of the launcher, of every launch that began."""
        found = {}
        for path in self.state.glob("slots/*/launches/*/launcher"):
            found[path.parent.name] = int(path.read_text().split()[0])
        return found

    def current(self) -> str:
        """The launch that counts as the latest."""
        path = self.state / "slots" / SLOT / "current"
        return path.read_text().strip() if path.exists() else ""

    def agents(self) -> list[int]:
        """Agents that live."""
        return [pid for pid, words in self._mine() if b"-ISuc" in words]

    def serving(self) -> list[int]:
        """Servers that live, whoever knows of them."""
        return [pid for pid, words in self._mine() if str(SERVER).encode() in words and lives(pid)]

    def locked(self) -> list[str]:
        """Names of the locks that somebody holds."""
        held = []
        for path in (self.root / "locks").glob("*"):
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    held.append(path.name)
        return held

    def halves(self) -> list[str]:
        """Records that are no JSON: written by halves."""
        bad = []
        for path in self.state.rglob("*.json"):
            try:
                json.loads(path.read_text())
            except ValueError:
                bad.append(str(path))
        return bad

    def _mine(self) -> Iterator[tuple[int, list[bytes]]]:
        marker = f"HOME={self.home}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name), (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue

    def end(self) -> None:
        """End the server and whatever runs in its home."""
        self.server.stop()
        for pid, _ in self._mine():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
