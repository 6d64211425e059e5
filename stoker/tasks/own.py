"""Commands for developers of Stoker, in its own repository only: what CI runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.errors import EXIT_DONE, EXIT_FAULT
from stoker.fleet.flags import Flag
from stoker.tasks.command import command

if TYPE_CHECKING:
    from stoker.tasks.run import Run

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-cache"),
)

_KINDS = 9  # of files in the fuzz test
_FAILED = 1
_NOTHING_CHOSEN = 5  # pytest's code where -k leaves a phase without tests


@command()
def check(run: Run) -> int:
    """Lint, formatting, types, import contract: what CI checks."""
    failed = [argv for argv in CHECKS if _call(run, *argv)]
    for argv in failed:
        run.screen.say(("failed: ", "bold red"), " ".join(argv))
    return EXIT_FAULT if failed else EXIT_DONE


@command(
    Flag("only", "Pytest's -k expression."),
    Flag("coverage", "Measure coverage too.", "flag"),
    Flag("long", "Those instead that take long and are like others that CI runs.", "flag"),
)
def test(run: Run) -> int:
    """The tests, as CI runs them."""
    argv = ["pytest", "-q"]
    if run.args["long"]:
        return EXIT_FAULT if _call(run, *argv, "-m", "long") else EXIT_DONE
    if run.args["only"]:
        argv += ["-k", run.args["only"]]
    if run.args["coverage"]:
        argv += ["--cov=stoker", "--cov-append", "--cov-report=term:skip-covered"]
    # Most tests wait for processes, so that several at once pay; those that measure need the machine alone.
    side_by_side = ("-n", str(5 * _cpus() // 2), "--dist", "worksteal", "-m", "not alone and not long")
    codes = []
    for part in (side_by_side, ("-m", "alone and not long", *_with("mark.alone", run.settings.root))):
        code = _call(run, *argv, *part)
        if code == _FAILED:
            # They take ports of one machine, end processes on it and measure: what fails beside others, or
            # on a machine that was busy for a moment, may pass by itself. Only what fails again is wrong.
            run.screen.say(("what failed, once more one by one", "bold yellow"))
            code = _call(run, *argv, "--last-failed", *part[part.index("-m") :])
        codes.append(code)
    return EXIT_DONE if set(codes) <= {0, _NOTHING_CHOSEN} and 0 in codes else EXIT_FAULT


def _with(words: str, root: Path) -> list[str]:
    """The test files that hold these words: reading all of them takes Python longer than a few tests do."""
    files = sorted((root / "tests").rglob("test_*.py"))
    return [str(path.relative_to(root)) for path in files if words in path.read_text(encoding="utf-8")]


@command(Flag("documents", "How many files are generated (10000).", "whole", least=16))
def fuzz(run: Run) -> int:
    """Many generated and broken configuration files of every kind, of which CI tries a few."""
    each = -(-(run.args["documents"] or 10_000) // _KINDS)
    argv = ["pytest", "-q", "tests/config/test_fuzz.py", "tests/config/test_schemas.py", "--timeout", "3600"]
    argv += ["-n", str(_cpus())]
    return EXIT_FAULT if _call(run, *argv, environ={"STOKER_FUZZ": str(each)}) else EXIT_DONE


@command()
def docs(run: Run) -> int:
    """Write the pages of docs/ and what else is made out of the code; tests hold them current."""
    from stoker.tasks import reference, schemas
    from stoker.tuning import compiled

    compiled.FILE.write_text(compiled.dumps(), encoding="utf-8")
    for name, text in schemas.texts().items():
        (schemas.FOLDER / name).write_text(text, encoding="utf-8")
        run.screen.say(("wrote ", "green"), run.project.shown(schemas.FOLDER / name))
    for name, text in reference.pages().items():
        path = run.settings.root / "docs" / name
        path.write_text(text, encoding="utf-8")
        run.screen.say(("wrote ", "green"), run.project.shown(path))
    return EXIT_DONE


@command(Flag("columns", "Width of the terminal (100).", "whole", least=60))
def picture(run: Run) -> int:
    """Draw docs/demo.svg out of a real run of the demo."""
    from stoker.tasks import picture as drawing

    path = run.settings.root / "docs" / "demo.svg"
    drawing.draw(run.settings.root, path, run.args["columns"] or 100)
    run.screen.say(("wrote ", "green"), run.project.shown(path))
    return EXIT_DONE


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _call(run: Run, *argv: str, environ: Mapping[str, str] | None = None) -> int:
    """A tool of this interpreter's environment, in the repository."""
    tool = Path(sys.executable).with_name(argv[0])
    run.screen.say(("$ ", "dim"), " ".join(argv))
    path = f"{tool.parent}{os.pathsep}{os.environ.get('PATH', '')}"
    whole = {**os.environ, "PATH": path, **(environ or {})}
    whole.pop("PYTHONDONTWRITEBYTECODE", None)  # a test run starts Stoker a thousand times
    return subprocess.run([str(tool), *argv[1:]], cwd=run.settings.root, env=whole, check=False).returncode


COMMANDS = (check, test, fuzz, docs, picture)
