"""The commands: ``tasks.py`` of a project mounts them for ``inv``.

Only Invoke and the flags are imported here: ``inv --list`` must stay quick, so each command imports what it
works with when it runs, and those that the command line does not name are not loaded at all.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from invoke.collection import Collection
from invoke.config import Config
from invoke.exceptions import Exit

from stoker.config import invokefile
from stoker.config.settings import Settings
from stoker.errors import EXIT_INTERRUPTED, ConfigError, Problem
from stoker.tasks import typed

_GARBAGE = (20_000, 20, 50)  # objects, and generations; Python's own are 700, 10 and 10


def mount(file: str) -> Collection:
    """Every command, for the project that a ``tasks.py`` lies in.

    Args:
        file: ``__file__`` of that ``tasks.py``.

    Returns:
        A collection to name ``ns``; a project may add tasks of its own to it.

    Raises:
        Exit: A configuration file of Invoke's is wrong, or Ctrl-C.
    """
    _collect_seldom()
    typed.serve_running_program()
    root = Path(file).resolve().parent
    try:
        check_settings_files(root)
        return _collection(root)
    except KeyboardInterrupt as error:
        raise Exit(code=EXIT_INTERRUPTED) from error


def bundled() -> Collection:
    """Every command, where there is no project: paths are relative to the current folder."""
    _collect_seldom()
    return _collection(Path.cwd())


def _collect_seldom() -> None:
    """Look for garbage less often: a start makes many objects that stay, and a tenth of it was looking."""
    gc.set_threshold(*_GARBAGE)


def _collection(root: Path) -> Collection:
    from stoker.tasks import names, shelf

    ns = Collection(*shelf.commands(names.SHELF))
    ns.add_collection(Collection("lab", *shelf.commands(names.LAB, "lab.")))
    if _is_own_repository(root):
        ns.add_collection(Collection("dev", *shelf.commands(names.OWN, "dev.")))
    ns.configure(_defaults(root))
    return ns


def _is_own_repository(root: Path) -> bool:
    """Whether a project's folder is Stoker's own repository, where the tests lie beside the package."""
    return (root / "stoker" / "tasks" / "own.py").is_file() and (root / "tests").is_dir()


def _defaults(root: Path) -> dict[str, Any]:
    """Our part of Invoke's configuration.

    Invoke reads ``INVOKE_STOKER_X`` only for keys that exist; None is "not set", and keeps text as it is.
    """
    unset: dict[str, Any] = {field.name: None for field in fields(Settings) if field.name != "root"}
    unset["secrets"] = {}  # Invoke merges a mapping into nothing but a mapping
    return {"stoker_root": str(root), "stoker": unset, "tasks": {"dedupe": False}}


def check_settings_files(root: Path | None) -> None:
    """Say plainly what Invoke could not merge of its configuration files and environment.

    Args:
        root: The project's folder; None where there is none.

    Raises:
        Exit: Something is wrong.
    """
    files = {
        Path("/etc/invoke"): "/etc/invoke",
        Path(os.path.expanduser("~/.invoke")): "~/.invoke",  # noqa: PTH111  (it never fails)
    }
    files |= {} if root is None else {root / "invoke": "invoke"}
    own = _defaults(root or Path())
    theirs: dict[str, Any] = Config.global_defaults()
    defaults = {**theirs, **own, "tasks": {**theirs["tasks"], **own["tasks"]}}
    found = invokefile.problems(files, defaults, os.environ)
    if found:
        refuse(found)


def refuse(problems: Sequence[Problem]) -> None:
    """End before any command has begun, as a command would that was given wrong input.

    Raises:
        Exit: Always.
    """
    typed.refuse(ConfigError(problems), "\n".join(f"error {problem}" for problem in problems))
