"""A new project, laid where there is none yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stoker.errors import InputError

_SOURCE = Path(__file__).parents[1] / "scaffold"
_SCHEMAS = Path(__file__).parents[1] / "schemas"


def lay(folder: Path) -> list[Path]:
    """Lay a project: tasks.py, invoke.yaml, inventory, profiles, a playbook, schemas, .gitignore, README.

    Args:
        folder: Made where it is missing. Files in it that the project does not need stay as they are.

    Returns:
        The files that were written.

    Raises:
        InputError: A file is there already, or cannot be written; nothing is left behind.
    """
    files = {folder / _target(source): source for source in _sources()}
    files |= {folder / "schemas" / source.name: source for source in sorted(_SCHEMAS.glob("*.json"))}
    taken = [path for path in files if _is_taken(path, folder)]
    if taken:
        shown = [str(path) for path in taken]
        what = f"{len(taken)} of the project's files are there already"
        hint = "choose another folder, or move them away"
        raise InputError(what, where=str(folder), evidence=shown, next_step=hint)
    made: list[Path] = []
    try:
        for path, source in files.items():
            _make_folder(path.parent, made)
            with path.open("xb") as file:
                made.append(path)
                file.write(source.read_bytes())
    except BaseException as error:
        _take_back(made)
        if isinstance(error, OSError):
            what = f"{error.filename or folder} cannot be written: {error.strerror or error}"
            raise InputError(what, where=str(folder)) from error
        raise
    return list(files)


def lay_schemas(folder: Path) -> list[Path]:
    """Lay the schemas anew, as this Stoker has them, in a project that is there.

    Args:
        folder: The project's.

    Returns:
        The files that were written.

    Raises:
        InputError: One cannot be written.
    """
    made = []
    try:
        (folder / "schemas").mkdir(exist_ok=True)
        for source in sorted(_SCHEMAS.glob("*.json")):
            path = folder / "schemas" / source.name
            path.write_bytes(source.read_bytes())
            made.append(path)
    except OSError as error:
        what = f"{error.filename or folder} cannot be written: {error.strerror or error}"
        raise InputError(what, where=str(folder)) from error
    return made


def _sources() -> Iterator[Path]:
    return (path for path in sorted(_SOURCE.rglob("*")) if path.is_file())


def _target(source: Path) -> Path:
    """A file's name in the project: kept as it is, it would be a module or hidden from packaging here."""
    name = source.name.removesuffix(".in")
    if name.startswith("dot-"):
        name = "." + name.removeprefix("dot-")
    return source.relative_to(_SOURCE).with_name(name)


def _is_taken(path: Path, folder: Path) -> bool:
    """Whether something is there, or something that is no folder stands where its folder should be."""
    above = [parent for parent in path.parents if parent == folder or folder in parent.parents]
    return path.exists() or path.is_symlink() or any(p.exists() and not p.is_dir() for p in above)


def _make_folder(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it, noting each that was made."""
    if folder.is_dir():
        return
    _make_folder(folder.parent, made)
    folder.mkdir()
    made.append(folder)


def _take_back(made: list[Path]) -> None:
    """Remove what was made; a folder that somebody else has put something into stays."""
    for path in reversed(made):
        with suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
