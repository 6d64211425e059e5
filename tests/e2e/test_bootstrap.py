"""The virtual environment of a checkout is made again only where something is missing in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("extras", "argv", "is_made"),
    [
        ("dev", "", False),
        ("lab,engine", "", False),
        ("lab", "", False),
        ("engine", "", True),
        ("engine,lab", "--engine llamacpp", False),
        ("lab", "--engine llamacpp", True),
        ("lab", "--engine=llamacpp", True),
    ],
)
def test_the_demo_is_served_by_a_venv_with_what_it_needs(
    tmp_path: Path, extras: str, argv: str, is_made: bool
) -> None:
    """Its programs are stand-ins that say what they were called for."""
    shutil.copy(ROOT / "bootstrap", tmp_path)
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("inv", "python"):
        program = tmp_path / ".venv/bin" / name
        program.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        program.chmod(0o755)
    both = "cat pyproject.toml constraints.txt | cksum"
    made_of = subprocess.run(
        ["/bin/sh", "-c", both], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    stamp = tmp_path / ".venv/stamp"
    stamp.write_text(f"{extras} {made_of.strip()}")
    done = subprocess.run(
        ["/bin/sh", "./bootstrap", "demo", *argv.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"inv demo {argv}".strip()
    assert ("pip install" in done.stdout) == is_made, done.stdout
    kept = {"dev", "lab", "engine"} & set(stamp.read_text().split()[0].split(","))
    assert set(extras.split(",")) <= kept, "an extra was lost"
