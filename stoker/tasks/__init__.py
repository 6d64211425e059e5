"""The commands: ``tasks.py`` of a project mounts them for ``inv``.

Only Invoke and the flags are imported here: ``inv --list`` must stay quick, so each command imports what it
works with when it runs.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from invoke.collection import Collection
from invoke.exceptions import Exit

from stoker.config.settings import Settings
from stoker.errors import EXIT_INPUT


def mount(file: str) -> Collection:
    """Every command, for the project that a ``tasks.py`` lies in.

    Args:
        file: ``__file__`` of that ``tasks.py``.

    Returns:
        A collection to name ``ns``; a project may add tasks of its own to it.
    """
    root = Path(file).resolve().parent
    _check_settings_file(root)
    return _collection(root)


def bundled() -> Collection:
    """Every command, where there is no project: paths are relative to the current folder."""
    return _collection(Path.cwd())


def _collection(root: Path) -> Collection:
    from stoker.tasks import doctor, lab, life, look, measure, own, persist, play, project

    ns = Collection()
    for module in (project, doctor, life, persist, look, measure, play):
        for task in module.COMMANDS:
            ns.add_task(task)
    ns.add_task(lab.demo)
    ns.add_collection(Collection("lab", *lab.COMMANDS))
    if own.is_own_repository(root):
        ns.add_collection(Collection("dev", *own.COMMANDS))
    # Invoke reads INVOKE_STOKER_X only for keys that exist; None is "not set", and keeps text as it is.
    unset = {field.name: None for field in fields(Settings) if field.name != "root"}
    ns.configure({"stoker_root": str(root), "stoker": unset, "tasks": {"dedupe": False}})
    return ns


def _check_settings_file(root: Path) -> None:
    """Say plainly what is wrong in ``invoke.yaml`` before Invoke reads it, whose own message is a traceback.

    Raises:
        Exit: It is no YAML mapping.
    """
    path = root / "invoke.yaml"
    if not path.is_file():
        return
    from invoke.vendor import yaml  # the parser that Invoke itself is about to use; ours is not loaded yet

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))  # type: ignore[no-untyped-call]  # vendored
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"invoke.yaml:{mark.line + 1}" if mark else "invoke.yaml"
        raise Exit(f"error {place}: {getattr(error, 'problem', None) or error}", code=EXIT_INPUT) from error
    if data is not None and not isinstance(data, dict):
        raise Exit("error invoke.yaml:1: a mapping is expected", code=EXIT_INPUT)
    if data and not isinstance(data.get("stoker") or {}, dict):
        raise Exit("error invoke.yaml: stoker: must hold a mapping of settings", code=EXIT_INPUT)
