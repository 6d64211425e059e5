"""What ``inv restart`` costs over the engine's own stop and start, on loopback over a real OpenSSH server.

    .venv/bin/python -m benchmarks.restart [--rounds 5]

For each engine (a real llama-server with a tiny model, and the lab's stand-in for SGLang with 8 ranks) it
takes in turn: the engine's own restart (SIGTERM to its launcher, wait for the exit, run the very launch
script that Stoker wrote, ask until a completion of two tokens arrives) and ``inv restart``, the whole
process. Printed are medians and the difference. Also printed: ``inv --list``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.lab import lab, realengine
from tests.e2e.conftest import PLAIN, end_all_of
from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer, free_port


@dataclass(frozen=True)
class Case:
    """An engine on a host.

    Args:
        name: For the table.
        project: Where ``inv`` is run.
        argv: The restart as typed.
        home: The host's home, where the launch script lies.
        slot: The server's slot.
        address: Where it listens.
        port: TCP port.
    """

    name: str
    project: ProjectFolder
    argv: tuple[str, ...]
    home: Path
    slot: str
    address: str
    port: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    # Where a developer's shell forbids bytecode, only we would lack it: an installed program has its own.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
        for make in (_llamacpp, _standin):
            with make(Path(name)) as case:
                _compare(case, rounds)
        listing = [_timed(lambda: ProjectFolder(Path(name) / "list").inv("--list")) for _ in range(rounds)]
        print(f"\ninv --list: {statistics.median(listing):.2f} s (median of {rounds})")


def _compare(case: Case, rounds: int) -> None:
    _restart(case)
    own, ours = [], []
    for _ in range(rounds):
        own.append(_timed(lambda: _own_restart(case)))
        ours.append(_timed(lambda: _restart(case)))
    more = statistics.median(b - a for a, b in zip(own, ours, strict=True))
    print(f"\n{case.name}, medians of {rounds}")
    print(f"  the engine's own stop and start {statistics.median(own):6.2f} s")
    print(f"  inv restart                     {statistics.median(ours):6.2f} s")
    print(f"  overhead                        {more:6.2f} s", flush=True)


def _own_restart(case: Case) -> None:
    """Stop and start the server as its engine does, without Stoker."""
    slot = case.home / ".stoker/slots" / case.slot
    current = (slot / "current").read_text().strip()
    launch = json.loads((slot / "launches" / current / "launch.json").read_text())
    _end(launch["pid"])
    environ = {
        "HOME": str(case.home),
        "USER": "root",
        "LOGNAME": "root",
        "SHELL": "/bin/sh",
        "PATH": os.environ["PATH"],
    }
    subprocess.Popen(
        ["/bin/sh", str(slot / "launch.sh")],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _until(lambda: _answers(case))  # it is left to the restart that follows, which is to find and end it


def _end(pid: int) -> None:
    """SIGTERM, and wait until it is gone or a zombie."""
    try:
        os.kill(pid, 15)
    except (ProcessLookupError, ValueError):
        return
    _until(lambda: _gone(pid))


def _gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def _answers(case: Case) -> bool:
    """Whether a completion of two tokens comes."""
    link = http.client.HTTPConnection(case.address, case.port, timeout=5)
    try:
        body = json.dumps({"model": "any", "prompt": "hello", "max_tokens": 2})
        link.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = link.getresponse()
        return answer.status == 200 and b"completion_tokens" in answer.read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        link.close()


@contextmanager
def _llamacpp(folder: Path) -> Iterator[Case]:
    home = folder / "home"
    home.mkdir()
    server, model = realengine.prepare(folder)
    port = free_port("127.0.0.1")
    with SshServer(folder / "sshd", env={"HOME": str(home)}) as box:
        project = ProjectFolder(folder / "llamacpp")
        project.hosts({"box": box.variables()})
        project.write("profiles/plain.yml", PLAIN.format(model=model, server=server, port=port))
        argv = ("restart", "--host", "box", "--profile", "plain")
        try:
            yield Case("llama-server", project, argv, home, "tiny", "127.0.0.1", port)
        finally:
            end_all_of(home)


@contextmanager
def _standin(folder: Path) -> Iterator[Case]:
    from stoker.config import scaffold

    scaffold.lay(folder / "lab-project")
    project = ProjectFolder(folder / "lab-project")
    state = lab.up(folder / "lab", 1)
    host = state.hosts[0]
    argv = ("restart", "--inventory", str(state.inventory), "--host", host.name, "--profile", "nccl-tuned")
    try:
        yield Case(
            "stand-in for SGLang, 8 ranks (simulated)",
            project,
            argv,
            Path(host.home),
            "kimi",
            host.address,
            30000,
        )
    finally:
        lab.down(folder / "lab")


def _timed(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        if time.monotonic() > end:
            sys.exit("a server did not come up (or down) in a minute")
        time.sleep(0.01)


def _restart(case: Case) -> None:
    ended = case.project.inv(*case.argv)
    if ended.code:
        sys.exit(f"a restart failed\n{ended.text}")


if __name__ == "__main__":
    main()
