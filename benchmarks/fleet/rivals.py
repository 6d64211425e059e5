"""The rivals' own virtual environment: made on the first run from ``rivals.txt``, kept out of ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LISTED = HERE / "rivals.txt"
# The programs that a distribution brings, and what they are part of.
SYSTEM = {"ssh": "openssh-client", "scp": "openssh-client", "rsync": "rsync"}


class Rivals:
    """What there is to compare with.

    Args:
        folder: The virtual environment; made where it is missing and there is a package index.
    """

    def __init__(self, folder: Path) -> None:
        self._bin = folder.resolve() / "bin"
        if not (self._bin / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            pip = [str(self._bin / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, "-r", str(LISTED)], check=False)  # what is missing is told, row by row
        self.versions = self._listed()

    @property
    def python(self) -> str:
        """The environment's interpreter."""
        return str(self._bin / "python")

    @property
    def mitogen(self) -> str:
        """The folder of mitogen's strategies for Ansible; empty where there is none."""
        found = sorted(self._bin.parent.glob("lib/python3.*/site-packages/ansible_mitogen/plugins/strategy"))
        return str(found[0]) if found else ""

    def program(self, name: str) -> str:
        """A program of the environment."""
        return str(self._bin / name)

    def missing(self, needs: str) -> str:
        """Why a rival cannot be run; empty where it can.

        Args:
            needs: A distribution of ``rivals.txt``, or a program.
        """
        if needs in SYSTEM:
            return "" if shutil.which(needs) else f"not installed (package {SYSTEM[needs]})"
        return "" if not needs or needs in self.versions else "not installed"

    def _listed(self) -> dict[str, str]:
        found = subprocess.run(
            [self.python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
            capture_output=True,
            text=True,
        )
        return dict(line.split("==", 1) for line in found.stdout.splitlines() if "==" in line)
