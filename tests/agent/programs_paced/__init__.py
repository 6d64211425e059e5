"""A server with a known pace, started as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from stoker.agent.generators.stream import Target

PROGRAM = Path(__file__).parent / "paced.py"
# What the program's metrics are called.
METRICS = {
    "path": "/metrics",
    "running": ["t:running"],
    "waiting": ["t:waiting"],
    "finished": ["t:finished_total"],
    "generation_tokens": ["t:tokens_total"],
}


class Paced:
    """The server while it runs.

    Args:
        options: Of the program.
        env: Environment; None: ours.
    """

    def __init__(self, *options: str, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", PROGRAM, *options], stdout=subprocess.PIPE, text=True, env=env
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split()[1])

    def target(self, model: str, **fields: Any) -> Target:
        """The target that asks it for a mode."""
        path = fields.pop("path", "/v1/completions")
        return Target("127.0.0.1", self.port, {}, path, model, {"ignore_eos": True}, **fields)

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> Paced:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
