"""Real servers under the real shim, with the state on the host that a launch leaves."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import stoker.agent.starting.shim
from stoker import engines
from stoker.agent import facts
from stoker.agent.context import Context
from stoker.agent.processes import procs
from stoker.agent.session import Session
from stoker.agent.variables import TUNING_PREFIXES
from stoker.engines.base import Engine
from stoker.plan import KillPolicy, LaunchPlan, ReadyPolicy

SHIM = Path(stoker.agent.starting.shim.__file__)
PROGRAMS = Path(__file__).parent / "programs"
SERVER = PROGRAMS / "server.py"
SLOT = "main"


def free_port(address: str = "127.0.0.1") -> int:
    """A port that is free now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def plan(
    argv: Sequence[str | Path],
    port: int,
    *,
    engine: str | Engine = "openai",
    bind: str = "127.0.0.1",
    served: Sequence[str] = ("tiny",),
    env: Mapping[str, str] | None = None,
    expect: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    timeout_s: float = 20.0,
    stall_s: float = 20.0,
) -> dict[str, Any]:
    """A launch plan as the agent gets it: through JSON."""
    made = LaunchPlan(
        host="here",
        profile="test",
        profile_hash="0" * 12,
        slot=SLOT,
        engine=engines.get(engine) if isinstance(engine, str) else engine,
        model=served[0],
        model_path="",
        served_names=tuple(served),
        bind=bind,
        port=port,
        gpus=(),
        python=sys.executable,
        path="/usr/bin:/bin",
        setup=(),
        env=dict(env or {}),
        inherit=(),
        expect=dict(expect or {}),
        argv=tuple(map(str, argv)),
        script="",
        kill=KillPolicy(),
        ready=ReadyPolicy(timeout_s, stall_s),
        bench={},
        resolved={},
        secrets=dict(secrets or {}),
    )
    return dict(json.loads(json.dumps(made.to_wire())))


class Launched:
    """One server, from construction to :meth:`end`.

    Args:
        home: Becomes the account's home: the state lies in ``.stoker`` below it.
        plan: Of :func:`plan`.

    Attributes:
        ctx: A context for operations on that home.
        events: What the operations emitted.
    """

    def __init__(self, home: Path, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.events: list[dict[str, Any]] = []
        session = Session({**os.environ, "HOME": str(home)})
        self.ctx = Context(self.events.append, session)
        self.folder = home / ".stoker" / "slots" / SLOT / "launches" / "L1"
        self.folder.mkdir(parents=True)
        usual = {name: value for name, value in os.environ.items() if not name.startswith(TUNING_PREFIXES)}
        env = {**usual, **plan["env"], **plan["secrets"], "STOKER_LAUNCH": f"{home}-L1"}
        started = time.time()
        self._starter = subprocess.run(
            [sys.executable, SHIM, self.folder, "--", *plan["argv"]],
            env=env,
            stdout=subprocess.PIPE,
            check=True,
            start_new_session=True,
        )
        self.shim_pid, shim_start, self.pid, self.start = map(int, self._starter.stdout.split())
        self.launch = self._record(home, started, shim_start)

    def _record(self, home: Path, started: float, shim_start: int) -> dict[str, Any]:
        here = facts.real()
        launch = {
            "launch_id": "L1",
            "slot": SLOT,
            "pid": self.pid,
            "start": self.start,
            "engine": self.plan["engine"]["name"],
            "bind": self.plan["bind"],
            "port": self.plan["port"],
            "shim_pid": self.shim_pid,
            "shim_start": shim_start,
            "log": str(self.folder / "server.log"),
            "marker": f"{home}-L1",
            "boot_id": here.boot_id,
            "init_start": here.init_start,
            "started_at": started,
        }
        (self.folder / "launch.json").write_text(json.dumps(launch))
        (self.folder.parent.parent / "current").write_text("L1")
        return launch

    def params(self) -> dict[str, Any]:
        """Of ``wait`` and ``prove``."""
        return {"plan": self.plan, "engines": [], "launch_id": None}

    def stages(self) -> list[str]:
        """Names of the stage events, each once, in order."""
        return list(dict.fromkeys(e["name"] for e in self.events if e["type"] == "stage"))

    def end(self) -> None:
        """SIGKILL to everything below the shim, until it says that nothing is left."""
        while not (self.folder / "empty").exists():
            for process in procs.snapshot(facts.real()).descendants(self.shim_pid):
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.01)

    def __enter__(self) -> Launched:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def serving(*options: str | float) -> list[str]:
    """Command of the small server whose behaviour is its options."""
    return [sys.executable, "-S", str(SERVER), *map(str, options)]


def until(condition: Any, seconds: float = 10.0) -> None:
    """Wait for something that must happen soon."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def listening(port: int) -> bool:
    """Whether somebody listens on that port."""
    return bool(procs.listeners(port))


def children(*commands: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """The processes, ended afterwards."""
    try:
        yield from commands
    finally:
        for command in commands:
            command.kill()
            command.wait()
