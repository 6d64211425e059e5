"""What the lab's tests share: a client as a user has it, and a server started by hand on a lab host."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.lab import procfs
from stoker.lab.state import LabHost, LabState

PORT = 30000
SIX = {
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_NTHREADS": "512",
}


def eventually(condition: Callable[[], bool], within_s: float = 10.0) -> bool:
    """Whether it becomes true in time."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def listening(address: str, port: int) -> Iterator[None]:
    """Somebody else has that port."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((address, port))
        taken.listen()
        yield


def ssh_argv(lab: LabState, host: LabHost, *options: str, key: str = "", user: str = "") -> list[str]:
    """OpenSSH's client with the lab's key and known hosts, and nothing of the user's."""
    return [
        "ssh",
        *("-F", "/dev/null", "-i", key or lab.key_file, "-p", str(host.port)),
        *("-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={lab.known_hosts}"),
        *("-o", "StrictHostKeyChecking=yes", "-o", "GlobalKnownHostsFile=/dev/null", *options),
        f"{user or lab.user}@{host.address}",
    ]


def ssh(lab: LabState, host: LabHost, command: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command on a host."""
    return subprocess.run([*ssh_argv(lab, host), command], input=data, capture_output=True, timeout=30)


def detach(lab: LabState, host: LabHost, command: str) -> int:
    """Start a command that outlives the connection; its pid."""
    done = ssh(lab, host, f"setsid {command} >server.log 2>&1 </dev/null & echo $!")
    return int(done.stdout)


def session(sid: int) -> list[procfs.Process]:
    """Who lives in a session."""
    return [process for process in procfs.table().values() if process.sid == sid and not process.gone]


def title(pid: int) -> str:
    """What a process calls itself; empty where it has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode()
    except OSError:
        return ""


@dataclass(frozen=True)
class Server:
    """A stand-in that was started by hand on a lab host.

    Args:
        lab, host: Where it runs.
        pid: Of its launcher, which leads a session.
    """

    lab: LabState
    host: LabHost
    pid: int

    @property
    def log(self) -> str:
        """What it has said."""
        return (Path(self.host.home) / "server.log").read_bytes().decode()

    @property
    def processes(self) -> dict[str, int]:
        """Titles of its living processes to their pids."""
        named = {title(process.pid): process.pid for process in session(self.pid)}
        return {name: pid for name, pid in named.items() if name}

    @property
    def alive(self) -> bool:
        """Whether its launcher lives."""
        process = procfs.look(self.pid)
        return process is not None and not process.gone

    def get(self, path: str, port: int = PORT) -> tuple[int, str]:
        """GET; status 0 where nobody answers."""
        return self._ask("GET", path, None, port)

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """POST JSON."""
        status, text = self._ask("POST", path, body if isinstance(body, str) else json.dumps(body), PORT)
        return status, json.loads(text) if text.startswith(("{", "[")) else text

    def stream(self, path: str, body: Mapping[str, object]) -> Iterator[tuple[float, dict[str, Any]]]:
        """The events of a streamed completion, each with the moment it came."""
        connection = http.client.HTTPConnection(self.host.address, PORT, timeout=30)
        asked = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}})
        connection.request("POST", path, asked, {"content-type": "application/json"})
        try:
            for line in connection.getresponse():
                if line.startswith(b"data: {"):
                    yield time.perf_counter(), json.loads(line[6:])
        finally:
            connection.close()

    def wait_ready(self) -> Server:
        """Wait until health is 200."""
        assert eventually(lambda: self.get("/health")[0] == 200, 20), self.log
        return self

    def wait_ended(self) -> str:
        """Wait until the launcher is gone; its log."""
        assert eventually(lambda: not self.alive, 20), self.log
        return self.log

    def _ask(self, method: str, path: str, body: str | None, port: int) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.host.address, port, timeout=30)
        try:
            connection.request(method, path, body, {"content-type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()


def completion(tokens: int, **more: object) -> dict[str, object]:
    """The body of a completion of exactly so many tokens."""
    return {"prompt": "Say something about rivers.", "max_tokens": tokens, "ignore_eos": True, **more}


@dataclass(frozen=True)
class Timing:
    """What a streamed completion took."""

    tokens: int
    chunks: int
    ttft_s: float
    rate: float


def measure(server: Server, tokens: int, **more: object) -> Timing:
    """Stream a completion and time it; ``rate`` is in tokens a second after the first."""
    begin = time.perf_counter()
    moments: list[float] = []
    made = 0
    for moment, event in server.stream("/v1/completions", completion(tokens, **more)):
        if event["choices"] and event["choices"][0]["text"]:
            moments.append(moment)
        if event.get("usage"):
            made = event["usage"]["completion_tokens"]
    rate = (made - 1) / (moments[-1] - moments[0])
    return Timing(made, len(moments), moments[0] - begin, rate)
