"""Inventories → definitions: which files count, and which kind each of them is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stoker.config.files import yamlfile
from stoker.config.inventories import inventory_yaml
from stoker.config.inventories import kind as inventory_kind
from stoker.config.inventories.model import Definitions
from stoker.errors import ConfigError, Problem

_YAML_ENDINGS = ("", ".yml", ".yaml", ".json")
_IGNORED_NAMES = ("group_vars", "host_vars", "vars_plugins")
_IGNORED_ENDINGS = (
    ".pyc",
    ".pyo",
    ".swp",
    ".bak",
    "~",
    ".rpm",
    ".md",
    ".txt",
    ".rst",
    ".orig",
    ".cfg",
    ".retry",
)  # fmt: skip  (Ansible's own list)


def shown(path: Path, root: Path) -> str:
    """A path as people should see it: relative to the project where it lies inside."""
    full, base = os.path.abspath(path), os.path.abspath(root)  # noqa: PTH100  (resolve() would follow links)
    return os.path.relpath(full, base) if Path(full).is_relative_to(base) else full


def read(path: Path, root: Path, definitions: Definitions) -> None:
    """Add what one inventory (a file, or a folder of files) defines; mistakes go to its problems.

    Args:
        path: The inventory.
        root: Paths are shown relative to it.
        definitions: What is known so far; grows.
    """
    try:
        files = list(_files(path, root)) if is_folder(path) else [path]
    except ConfigError as error:
        definitions.problems.extend(error.problems)
        return
    if not files:
        hint = "an inventory folder holds at least one file, e.g. hosts.yml"
        definitions.problems.append(Problem(shown(path, root), 0, "holds no inventory file", hint))
    for file in files:
        try:
            _read_file(file, shown(file, root), definitions)
        except ConfigError as error:
            definitions.problems.extend(error.problems)


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; False where that cannot be told, so that reading it says why."""
    try:
        return path.is_dir()
    except OSError:
        return False


def listing(folder: Path, name: str) -> list[Path]:
    """What is in a folder, sorted by name.

    Args:
        folder: An existing folder.
        name: The folder as shown to people.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return sorted(folder.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        raise ConfigError([Problem(name, 0, f"cannot be read: {error.strerror}")]) from error


def _files(folder: Path, root: Path) -> Iterator[Path]:
    """The inventory files of a folder and those below it, in sorted order."""
    for path in listing(folder, shown(folder, root)):
        if path.name.startswith(".") or path.name in _IGNORED_NAMES or path.name.endswith(_IGNORED_ENDINGS):
            continue
        if is_folder(path):
            yield from _files(path, root)
        else:
            yield path


def _read_file(path: Path, name: str, definitions: Definitions) -> None:
    """Read one file as the kind that it is: a program, YAML, or INI."""
    if inventory_kind.is_program(path):
        from stoker.config.inventories import program as inventory_program

        inventory_program.read(path, name, definitions)
    elif inventory_kind.is_unmarked(path):
        raise ConfigError([Problem(name, 1, "is a program, and not executable", f"chmod +x {name}")])
    elif path.suffix == ".toml":
        what = "TOML inventories are not read; write it as YAML"
        raise ConfigError([Problem(name, 0, what, "or as INI, in a file that ends in .ini")])
    elif path.suffix not in _YAML_ENDINGS:  # as Ansible takes whatever else there is
        _read_ini(path, name, definitions)
    else:
        _read_yaml(path, name, definitions)


def _read_yaml(path: Path, name: str, definitions: Definitions) -> None:
    """Read a file as YAML, or as INI where it is none and looks like that."""
    try:
        document = yamlfile.load(path, shown=name)
    except ConfigError:
        if not inventory_kind.is_like_ini(path):
            raise
        _read_ini(path, name, definitions)
        return
    if not isinstance(document.data, dict) and inventory_kind.is_like_ini(path):
        _read_ini(path, name, definitions)
    else:
        inventory_yaml.read(document, path, definitions)


def _read_ini(path: Path, name: str, definitions: Definitions) -> None:
    from stoker.config.inventories import ini as inventory_ini

    inventory_ini.read(path, name, definitions)
