"""group_vars/ and host_vars/: variables in files of their own beside the inventory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stoker.config.files import yamlfile
from stoker.config.files.yamlfile import Document, Vault
from stoker.config.inventories import vars as inventory_vars
from stoker.config.inventories.model import Vars
from stoker.config.inventories.read import is_folder, listing, shown
from stoker.config.inventories.vars import Holder
from stoker.config.secrecy import vault
from stoker.errors import ConfigError, InputError, Problem

_ENDINGS = ("", ".yml", ".yaml", ".json")


@dataclass
class VarsFiles:
    """The variable files of one kind beside one inventory.

    Args:
        folder: ``group_vars`` or ``host_vars``; need not exist.
        root: Paths are shown relative to it.
        holder: Whose variables they hold.
        problems: Mistakes in files that were read.
        open_vault: Opens files that Ansible Vault encrypted; None: they are refused.
    """

    folder: Path
    root: Path
    holder: Holder
    problems: list[Problem]
    open_vault: vault.Open | None = None
    _found: dict[str, list[Path]] = field(init=False)

    def __post_init__(self) -> None:
        # One listing in place of a look for each name and ending: there may be 10,000 hosts.
        self._found = {}
        try:
            entries = listing(self.folder, shown(self.folder, self.root)) if is_folder(self.folder) else []
        except ConfigError as error:
            self.problems.extend(error.problems)
            return
        for ending in _ENDINGS:
            for path in entries:
                if path.name.endswith(ending) and len(path.name) > len(ending):
                    self._found.setdefault(path.name.removesuffix(ending), []).append(path)

    def of(self, name: str) -> Vars:
        """The variables of a group or host: of the first that exists of NAME, NAME.yml, .yaml, .json."""
        if name not in self._found:
            return {}
        first, *hidden = self._found[name]
        for path in hidden:
            what = f"is never read: {shown(first, self.root)} comes first"
            self.problems.append(Problem(shown(path, self.root), 0, what, f"move it into a folder {name}/"))
        variables: Vars = {}
        try:
            for path in self._files(first) if is_folder(first) else [first]:
                variables.update(self._read(path))
        except ConfigError as error:
            self.problems.extend(error.problems)
        return variables

    def _files(self, folder: Path) -> Iterator[Path]:
        """The files of a folder of variables in sorted order, as Ansible finds them."""
        for path in listing(folder, shown(folder, self.root)):
            if path.name.startswith(".") or path.name.endswith("~"):
                continue
            if is_folder(path):
                if not path.suffix:
                    yield from self._files(path)
            elif path.suffix in _ENDINGS:
                yield path

    def _read(self, path: Path) -> Vars:
        try:
            document = yamlfile.load(path, shown=shown(path, self.root))
        except ConfigError as error:
            self.problems.extend(error.problems)
            return {}
        data = document.data
        if data is None:
            return {}
        if vault.is_vault(data) and self.open_vault is not None:
            return self._open(Vault(data), document, self.open_vault)
        if not isinstance(data, dict):
            self.problems.append(document.problem((), *_not_variables(data)))
            return {}
        self.problems.extend(inventory_vars.mistakes(document, (), self.holder))
        return data

    def _open(self, sealed: Vault, document: Document, open_vault: vault.Open) -> Vars:
        """The variables of a file that is a vault, each of them a vault of its own."""
        try:
            data = vault.variables(open_vault(sealed, document.file), document.file)
        except InputError as error:
            self.problems.append(Problem(document.file, 1, error.what, error.next_step))
            return {}
        found = {name: vault.sealed(Vault(sealed.text, (name,)), value) for name, value in data.items()}
        self.problems.extend(inventory_vars.mistakes(Document(document.file, found), (), self.holder))
        return found


def _not_variables(data: object) -> tuple[str, str]:
    if vault.is_vault(data):
        return "the file is encrypted by Ansible Vault, and there is no password", "see vault_password_file"
    kind = "a list" if isinstance(data, list) else "a single value"
    return f"a mapping of variables is expected, here stands {kind}", "write NAME: VALUE"
