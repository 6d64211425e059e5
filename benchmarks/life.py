"""What Stoker adds to the life of a server: the end of a kill, readiness, the live environment, status.

    .venv/bin/python -m benchmarks.life [--rounds 5]

All on this machine, with real processes. Printed are medians and the worst, beside the target:

- kill: a tree of 20 processes that obey SIGTERM, from the exit of the last one to the end of the kill, proof
  of the release included;
- ready: from the moment at which a server says that it listens to the moment at which Stoker has had
  its completion;
- environment: of 64 workers that renamed themselves, read from their memory;
- status: one host over a real OpenSSH server, connected already, with one server up: seconds, and how many
  requests went to the host (one is one round trip).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.agent import facts
from stoker.agent.processes import liveenv, procs
from stoker.agent.starting import life, ready
from stoker.config import settings
from stoker.fleet import look
from stoker.fleet.job import Job
from stoker.fleet.project import Project
from stoker.fleet.session import Session, target_of
from stoker.reach.reach import Reach
from stoker.reach.target import ReachSettings
from tests.agent.conftest import ENGINES, MARK, PLAIN, Host
from tests.agent.launched import Launched, free_port, plan, serving
from tests.e2e.conftest import end_all_of
from tests.e2e.project import ProjectFolder
from tests.sshd import SshServer

PROGRAMS = Path(__file__).parent.parent / "tests/agent/programs"
# A launcher and 19 children; each ends at SIGTERM, and writes down when.
TREE = """
import os, signal, sys, time
def end(*_):
    os.write(at, b"%f\\n" % time.monotonic())
    os._exit(0)
at = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
pids = []
for _ in range(19):
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGTERM, end)
        while True:
            signal.pause()
    pids.append(pid)
def end_all(*_):
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    for pid in pids:
        os.waitpid(pid, 0)
    end()
signal.signal(signal.SIGTERM, end_all)
print("ready", flush=True)
while True:
    signal.pause()
"""
PROFILE = """\
engine: openai
server: {{name: tiny, model: tiny, bind: 127.0.0.1, port: {port}, command: [{command}]}}
"""


@dataclass(frozen=True)
class Figure:
    """What was measured of one thing.

    Args:
        name: For the table.
        seconds: One a round.
        target_s: At most so long.
        note: More to say.
    """

    name: str
    seconds: Sequence[float]
    target_s: float | None
    note: str = ""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"{'':<44} {'median':>9} {'worst':>9} {'target':>9}   (of {rounds})")
    for measure in (_kill, _ready, _environment, _status):
        with tempfile.TemporaryDirectory(prefix="stoker-bench-") as name:
            _show(measure(Path(name), rounds))


def _show(figure: Figure) -> None:
    middle, worst = statistics.median(figure.seconds), max(figure.seconds)
    target = "-" if figure.target_s is None else f"{figure.target_s:.2f} s"
    print(f"{figure.name:<44} {middle:7.3f} s {worst:7.3f} s {target:>9}   {figure.note}", flush=True)


def _kill(folder: Path, rounds: int) -> Figure:
    """From the last exit to the end of the kill."""
    took = []
    for number in range(rounds):
        with _host(folder / str(number)) as host:
            program, at = host.root / "tree.py", host.root / "ends"
            program.write_text(TREE)
            script = f"#!/bin/sh\nexec {sys.executable} -I -S {program} {at}\n"
            wanted = host.plan(engine=PLAIN, script=script)
            done = life.restart(host.context(), {"plan": wanted, "engines": ENGINES})["launch"]
            log = Path(done["log"])
            while "ready" not in log.read_text():
                time.sleep(0.01)
            report = life.kill(host.context(), {"plan": wanted, "engines": ENGINES})
            end = time.monotonic()
            _expect(len(report["ended"]) == 20, f"{len(report['ended'])} processes were ended, not 20")
            took.append(end - max(map(float, at.read_text().split())))
    return Figure("kill of 20 processes, after the last exit", took, 0.5)


def _ready(folder: Path, rounds: int) -> Figure:
    """From the moment at which the server listens, by its own word, to the end of the wait."""
    took = []
    for number in range(rounds):
        home = folder / str(number)
        home.mkdir()
        port = free_port()
        with Launched(home, plan(serving("--port", port, "--load", 1.0), port)) as launched:
            ready.wait(launched.ctx, launched.params())
            end = time.time()
            said = re.search(r"listening at ([\d.]+)", Path(launched.launch["log"]).read_text())
            took.append(end - float(said.group(1)) if said else float("inf"))
    return Figure("readiness seen, after the server is ready", took, 0.3, "with a completion and the proof")


def _environment(_: Path, rounds: int) -> Figure:
    """Of 64 workers."""
    argv = [sys.executable, str(PROGRAMS / "tree.py"), "--workers", "64", "--title", "sglang::scheduler_TP"]
    tree = subprocess.Popen([*argv, "--set", "NCCL_ALGO=Ring"], stdout=subprocess.PIPE, text=True)
    try:
        assert tree.stdout is not None
        tree.stdout.readline()
        pids = [one.pid for one in _below(tree.pid) if one.title.startswith("sglang::")]
        _expect(len(pids) == 64, f"{len(pids)} workers")
        took = [_timed(lambda: liveenv.read_all(pids)) for _ in range(rounds)]
        found = liveenv.read_all(pids).values()
        _expect(all(one.env.get("NCCL_ALGO") == "Ring" for one in found), "an environment was not read")
    finally:
        for one in _below(tree.pid):
            os.kill(one.pid, signal.SIGKILL)
        tree.kill()
        tree.communicate()
    return Figure("live environment of 64 workers", took, 0.5)


def _below(pid: int) -> list[procs.Process]:
    return procs.snapshot(facts.real()).descendants(pid)


class _Counting(Session):
    """A session that counts what it asks the host."""

    asked = 0

    def call(self, op: str, params: dict[str, Any], *, timeout_s: float | None = None) -> dict[str, Any]:
        """Run one operation on the host."""
        self.asked += 1
        return super().call(op, params, timeout_s=timeout_s)


def _status(folder: Path, rounds: int) -> Figure:
    """Of one host with one server, connected already."""
    home = folder / "home"
    home.mkdir()
    port = free_port()
    # What else serves on this machine is no part of the host.
    declared = folder / "facts.json"
    declared.write_text(json.dumps({"process_env": {"HOME": str(home)}}))
    env = {"HOME": str(home), "STOKER_HOST_FACTS": str(declared)}
    with SshServer(folder / "sshd", env=env) as box:
        folder_of_project = ProjectFolder(folder / "project")
        folder_of_project.hosts({"box": {**box.variables(), "stoker_profiles": ["plain"]}})
        command = ", ".join(f'"{word}"' for word in serving("--port", port))
        folder_of_project.write("profiles/plain.yml", PROFILE.format(port=port, command=command))
        try:
            started = folder_of_project.inv("start", "--host", "box")
            _expect(started.code == 0, started.text)
            took, asked = _looks(folder_of_project.root, rounds)
        finally:
            end_all_of(home)
    return Figure("status of one host, connected", took, None, f"{asked} request a look: one round trip")


def _looks(root: Path, rounds: int) -> tuple[list[float], int]:
    loaded = settings.load(root, {})
    project = Project(loaded, os.environ)
    (host,) = project.hosts(["box"])
    reach = Reach(ReachSettings.of(loaded))
    session = _Counting(host, lambda host: reach.connect(target_of(host)), lambda *_: None)
    job = Job(project, session, {"slot": None})
    try:
        look.status(job)  # connects
        session.asked = 0
        took = [_timed(lambda: look.status(job)) for _ in range(rounds)]
        return took, session.asked // rounds
    finally:
        session.close()


@contextmanager
def _host(root: Path) -> Iterator[Host]:
    root.mkdir()
    host = Host(root)
    host.declare(process_env={MARK: host.mark})
    try:
        yield host
    finally:
        host.end()


def _timed(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def _expect(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(what)


if __name__ == "__main__":
    main()
