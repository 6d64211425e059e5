"""The README's picture: what a real run of the demo printed, drawn as a terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from stoker.errors import StokerError

_BEGIN = "The host restarts"


def draw(root: Path, path: Path, columns: int) -> None:
    """Run ``inv demo`` in colour and draw its second half: lost, found, explained, restored.

    Args:
        root: The project to run it in.
        path: The SVG file.
        columns: Width of the terminal.

    Raises:
        StokerError: The demo did not end well.
    """
    # In colour, but without the bars that move: a picture holds still.
    environ = {**os.environ, "FORCE_COLOR": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(columns)}
    argv = [sys.executable, "-m", "invoke", "demo"]
    done = subprocess.run(argv, cwd=root, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()
        raise StokerError("the demo did not end well", evidence=said[-12:])
    lines = done.stdout.splitlines()
    begin = next(number for number, line in enumerate(lines) if _BEGIN in line)
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True)
    for line in lines[begin:]:
        console.print(Text.from_ansi(_without_folder(line, root)), overflow="ellipsis", no_wrap=True)
    path.write_text(console.export_svg(title="inv demo"), encoding="utf-8")


def _without_folder(line: str, root: Path) -> str:
    """Paths as they would be on a host: where this project lies is nobody's business."""
    return line.replace(f"{root}/", "")
