"""A host for each test: a home, facts of its own, and real processes that never outlive the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import Context
from stoker.agent.launches import state
from stoker.agent.processes import cgroups, procs
from stoker.agent.session import Session
from stoker.engines.base import ArgvShape, Engine
from stoker.plan import KillPolicy, LaunchPlan, ReadyPolicy

ZOO = Path(__file__).parent / "zoo"
MARK = "STOKER_ZOO"

ENGINE = Engine(
    name="zoo",
    shapes=(ArgvShape(program="zooserve", subcommand="serve"),),
    titles=(r"zoo::worker_\d+",),
    workers=(r"zoo::worker_\d+",),
    command=("zooserve", "serve"),
    grace_s=0.5,
    shm_prefixes=("zoo_",),
)
# A thin one for programs that Stoker only knows by having launched them.
PLAIN = Engine(name="plain", grace_s=0.5)
ENGINES = [ENGINE.to_wire(), PLAIN.to_wire()]


def eventually(holds: Callable[[], Any], what: str, within_s: float = 10.0) -> Any:
    """Wait for something that has to come true."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"{what}: not within {within_s} s")


def free_port(address: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as trial:
        trial.bind((address, 0))
        return int(trial.getsockname()[1])


def start_of(pid: int) -> int:
    found = procs.look(pid)
    assert found is not None, f"process {pid} is gone"
    return found.start


def lives(pid: int) -> bool:
    found = procs.look(pid)
    return found is not None and not found.gone


class Host:
    """One host: what a login sees, and the programs that the test runs there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.mark = uuid.uuid4().hex
        self.devices, self.shm, self.bin = root / "dev", root / "shm", root / "bin"
        for folder in (self.home, self.devices, self.shm, self.bin):
            folder.mkdir()
        self.env = {
            "HOME": str(self.home),
            "USER": "zoo",
            "LOGNAME": "zoo",
            "SHELL": "/bin/sh",
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "STOKER_HOST_FACTS": str(root / "facts.json"),
            MARK: self.mark,
        }
        self.events: list[dict[str, Any]] = []
        self.children: list[subprocess.Popen[str]] = []
        self.declare()

    def declare(self, **facts: Any) -> None:
        """Write the facts file: all else that runs here is shut out, but with ``process_env={}``."""
        always = {
            "process_env": {MARK: self.mark},
            "gpu_device_dir": str(self.devices),
            "shm_dir": str(self.shm),
            "lock_dir": str(self.root / "locks"),
        }
        (self.root / "facts.json").write_text(json.dumps({**always, **facts}))

    def gpus(self, count: int = 2, mode: str = "host", **state: Any) -> None:
        """Give the host GPUs, and a driver that tells who holds them."""
        for index in range(count):
            (self.devices / f"nvidia{index}").touch()
        every = {"dir": str(self.devices), "count": count, "mib": 1000, "mode": mode, "charged": {}, **state}
        (self.root / "driver.json").write_text(json.dumps(every))
        tool = self.bin / "nvidia-smi"
        tool.write_text(
            f'#!/bin/sh\nexec {sys.executable} -I -S {ZOO}/nvidia_smi.py {self.root}/driver.json "$@"\n'
        )
        tool.chmod(0o755)

    def device(self, index: int) -> str:
        return str(self.devices / f"nvidia{index}")

    def context(self) -> Context:
        return Context(self.events.append, Session(self.env))

    def spawn(self, argv: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Run a program in a session of its own, ended with the test."""
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **{"env": self.env, **options},
        )
        self.children.append(child)
        return child

    def serve(self, *options: str) -> int:
        """Start the zoo's engine by hand; returns once it is up."""
        child = self.spawn([sys.executable, str(ZOO / "zooserve"), "serve", *options])
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child.pid

    def python(self, code: str, *args: str, **options: Any) -> int:
        """Run Python code that prints a line once it is up."""
        child = self.spawn([sys.executable, "-c", code, *args], **options)
        assert child.stdout is not None
        assert child.stdout.readline()
        return child.pid

    def orphan(self, code: str, *args: str, name: str = sys.executable) -> int:
        """Run Python code whose parent is gone; it prints a line once it is up."""
        parent = (
            "import subprocess, sys\n"
            "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
            "child.stdout.readline()\nprint(child.pid, flush=True)"
        )
        one = self.spawn([sys.executable, "-c", parent, name, "-c", code, *args])
        assert one.stdout is not None
        pid = int(one.stdout.readline())
        one.wait()
        return pid

    def workers(self) -> list[int]:
        """Pids of the zoo's renamed workers that live on this host."""
        return [p.pid for p in self.mine() if p.title.startswith("zoo::worker")]

    def mine(self) -> list[procs.Process]:
        """Every living process that was started or launched on this host."""
        found = []
        for process in procs.snapshot(self.context().facts).living():
            env = procs.environ_of(process.pid) or {}
            if env.get(MARK) == self.mark or env.get("HOME") == str(self.home):
                found.append(process)
        return found

    def plan(self, *options: str, engine: Engine = ENGINE, **changes: Any) -> dict[str, Any]:
        """A plan that serves the zoo's engine, or whatever script it is given."""
        port = changes.pop("port", None) or free_port()
        argv = [sys.executable, str(ZOO / "zooserve"), "serve", "--host", "127.0.0.1", "--port", str(port)]
        plan = LaunchPlan(
            host="zoo",
            profile="zebra",
            profile_hash="0123456789ab",
            slot="stable",
            engine=replace(engine, command=(sys.executable,)),
            model="m",
            model_path="",
            served_names=("m",),
            bind="127.0.0.1",
            port=port,
            gpus=(),
            python=sys.executable,
            path=f"{self.bin}:/usr/bin:/bin",
            setup=(),
            env={},
            inherit=(),
            expect={},
            argv=(*argv, *options),
            script="#!/bin/sh\nexec " + " ".join((*argv, *options)) + "\n",
            kill=KillPolicy((), engine.grace_s),
            ready=ReadyPolicy(),
            bench={},
            resolved={},
        )
        wire: dict[str, Any] = json.loads(json.dumps(replace(plan, **changes).to_wire()))
        return wire

    def end(self) -> None:
        """End everything that carries the host's mark."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            left = self.mine()
            if not left:
                break
            for process in left:
                with contextlib.suppress(OSError):
                    os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.005)
        home = self.context().home
        for slot in state.slots(home):
            for launch_id in state.history(home, slot):
                cgroups.remove((state.recorded(home, slot, launch_id) or {}).get("cgroup", ""))
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    one = Host(tmp_path)
    try:
        yield one
    finally:
        one.end()
