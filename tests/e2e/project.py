"""A project in a folder of its own, and ``inv`` run in it as a user would."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TASKS = "from stoker.tasks import mount\n\nns = mount(__file__)\n"


@dataclass(frozen=True)
class Ended:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON document."""
        document: dict[str, Any] = json.loads(self.out)
        return document

    @property
    def text(self) -> str:
        """Everything, as a failing test should show it."""
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class ProjectFolder:
    """A user's project.

    Args:
        root: Its folder; made.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.write("tasks.py", TASKS)

    @classmethod
    def on_lab(cls, root: Path, lab: Path, *folders: str) -> ProjectFolder:
        """The repository's own folders of these names, over the hosts of a lab."""
        made = cls(root)
        for name in folders:
            shutil.copytree(ROOT / name, root / name)
        shutil.copytree(lab / "inventory", root / "inventory")
        return made

    def write(self, name: str, text: str) -> Path:
        """Write a file of the project."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def hosts(self, hosts: Mapping[str, Mapping[str, object]]) -> None:
        """Write the inventory."""
        whole = {"all": {"hosts": {name: dict(variables) for name, variables in hosts.items()}}}
        self.write("inventory/hosts.yml", json.dumps(whole, indent=1, default=str))

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Begin ``inv ARGV`` in a process group of its own, so that a Ctrl-C can be sent to it alone."""
        return subprocess.Popen(
            [sys.executable, "-m", "invoke", *argv],
            cwd=self.root,
            env={**os.environ, "COLUMNS": "200", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def inv(self, *argv: str, env: Mapping[str, str] | None = None, timeout_s: float = 90) -> Ended:
        """Run ``inv ARGV`` to its end."""
        process = self.start(*argv, env=env)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"inv {argv} hung\n{out}\n{err}") from None
        return Ended(process.returncode, out, err)

    def done(self, *argv: str, code: int = 0) -> Ended:
        """Run what may restart servers for minutes, with ``inv`` on the PATH; it ends with this code."""
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        ended = self.inv(*argv, env=env, timeout_s=200)
        assert ended.code == code, ended.text
        return ended
