"""Ansible as a judge: one process that is asked about many inventories."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Judge:
    """Runs ``ansible_says.py`` while it is entered.

    Args:
        home: A folder for what Ansible keeps.
    """

    def __init__(self, home: Path) -> None:
        script = Path(__file__).with_name("ansible_says.py")
        environ = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        (home / "ansible.cfg").touch()  # in place of the user's own
        environ |= {"ANSIBLE_HOME": str(home), "ANSIBLE_CONFIG": str(home / "ansible.cfg")}
        environ |= {"LC_ALL": "C.UTF-8", "TMPDIR": str(home)}
        self._process = subprocess.Popen(
            [sys.executable, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=environ,
            cwd=home,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(10)

    def ask(
        self, sources: Sequence[Path], patterns: Sequence[str] = (), playbooks: Path | None = None
    ) -> dict[str, Any]:
        """What Ansible makes of an inventory; see ``ansible_says.py``."""
        assert self._process.stdin is not None and self._process.stdout is not None
        question = {"sources": [str(source) for source in sources], "patterns": list(patterns)}
        asked = {**question, "basedir": None if playbooks is None else str(playbooks)}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer
