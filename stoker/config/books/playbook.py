"""Playbooks: plays and tasks in Ansible's shape, every mistake in them found before anything is connected."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.config.books import playbookwords as words
from stoker.config.books.playbookflow import Handed
from stoker.config.books.playbooktasks import Files, Steps
from stoker.config.books.playbooktree import Argument, Conditions, Entry, Module, Play, Playbook, Task
from stoker.config.books.playbookvalues import Path as At
from stoker.config.books.playbookvalues import Values, kind
from stoker.config.files import yamlfile
from stoker.config.secrecy import vault
from stoker.config.templating import template
from stoker.errors import ConfigError, InputError, nearest

__all__ = ["Argument", "Conditions", "Module", "Play", "Playbook", "Task", "find", "load"]


def load(
    path: Path,
    modules: Mapping[str, Module],
    *,
    shown: str | None = None,
    open_vault: vault.Open | None = None,
) -> Playbook:
    """Read a playbook and check all of it.

    Args:
        path: The file.
        modules: What a task may do, by name.
        shown: The file as shown to people; ``path`` itself where not given.
        open_vault: Opens files of variables that Ansible Vault encrypted; None: they are refused.

    Raises:
        ConfigError: Every mistake of the file, and of the files that it names.
    """
    name = str(path) if shown is None else shown
    files = Files(modules, path.parent, (path.resolve(),), open_vault=open_vault)
    reader = _Plays(yamlfile.load(path, shown=name), files)
    plays = reader.plays(Handed(), "")
    if reader.problems:
        raise ConfigError(reader.problems)
    return Playbook(path, name, plays)


def find(name: str, folder: Path, root: Path) -> Path:
    """The file of a playbook.

    Args:
        name: A path relative to the project's folder, or a name in the playbooks' folder; with or without
            ``.yml``.
        folder: The playbooks' folder.
        root: The project's folder.

    Raises:
        InputError: There is none; with the nearest name.
    """
    for base in (root, folder):
        for suffix in ("", ".yml", ".yaml"):
            path = base / (name + suffix)
            if path.is_file():
                return path
    known = [path.stem for path in sorted(folder.glob("*.y*ml"))] if folder.is_dir() else []
    hint = nearest(Path(name).stem, known)
    raise InputError(f"there is no playbook {name!r}", where=folder.name, next_step=hint)


class _Plays(Steps):
    """Turns a document into plays, and collects what is wrong in it."""

    def plays(self, outer: Handed, key: str) -> tuple[Play, ...]:
        """Every play; incomplete where there are problems."""
        data = self.document.data
        if data is None or data == []:
            self.note((), "the playbook holds no play", "write a list of plays: - hosts: …")
            return ()
        if not isinstance(data, list):
            self.note((), f"a playbook is a list of plays, here is {kind(data)}", "begin each play with '- '")
            return ()
        found: list[Play] = []
        for index, value in enumerate(data):
            if isinstance(value, dict) and "import_playbook" in value:
                found += self._imported((index,), value, outer, f"{key}{index}/")
            else:
                found.append(self._play((index,), value, outer, f"{key}{index}"))
        return tuple(found)

    def _imported(self, path: At, value: dict[Any, Any], outer: Handed, key: str) -> tuple[Play, ...]:
        """The plays of another playbook; their variables give way to those of the import."""
        self._keys(path, value, "play", words.IMPORT, ())
        name = self.text((*path, "import_playbook"), value["import_playbook"])
        handed = self.handed(path, {n: v for n, v in value.items() if n in words.IMPORT}, outer)
        inner = self.other((*path, "import_playbook"), name, "plays")
        return inner.plays(handed, key) if isinstance(inner, _Plays) else ()

    def _play(self, path: At, value: Any, outer: Handed, key: str) -> Play:
        if not isinstance(value, dict):
            self.note(path, f"a play is a mapping, here is {kind(value)}", "write NAME: VALUE")
            value = {"hosts": "all"}
        if "hosts" not in value and any(str(name) in self.modules for name in value):
            hint = "put it below tasks: of a play with hosts:, or include this file there by include_tasks"
            self.note(path, "here stands a task, where a play is expected", hint)
            value = {"hosts": "all"}
        self._keys(path, value, "play", words.PLAY, ())
        if not value.get("hosts"):
            self.note((*path, "hosts"), "the play names no hosts", "add hosts: PATTERN")
        hosts = self.texts((*path, "hosts"), value["hosts"]) if value.get("hosts") else ()
        if value.get("gather_facts"):
            self.note((*path, "gather_facts"), "Stoker gathers no facts", "write gather_facts: false")
        handed = replace(self.handed(path, {n: v for n, v in value.items() if n != "vars"}, outer), vars={})
        handed = replace(handed, handlers=_topics(value.get("handlers")))
        handlers = self.handlers((*path, "handlers"), value.get("handlers"), handed, f"{key}.handlers")
        return Play(
            name=self.text((*path, "name"), value.get("name")) or ",".join(hosts),
            hosts=hosts,
            tasks=self._sections(path, value, handed, key),
            vars={
                **self.variables((*path, "vars"), value.get("vars"), "vars"),
                **self._vars_files((*path, "vars_files"), value.get("vars_files")),
                **outer.vars,
            },
            file=self.document.file,
            line=self.document.line(path),
            handlers=handlers,
            **self._batches(path, value),
        )

    def _sections(self, path: At, play: dict[Any, Any], handed: Handed, key: str) -> tuple[Entry, ...]:
        """``pre_tasks``, ``tasks`` and ``post_tasks``, with the handlers run in between."""
        found: list[Entry] = []
        for name in ("pre_tasks", "tasks", "post_tasks"):
            read = self.entries((*path, name), play.get(name), handed, f"{key}.{name}")
            if found and read:
                line = self.document.line((*path, name))
                found.append(
                    Task(
                        "handlers",
                        "meta",
                        {"action": "flush_handlers"},
                        self.document.file,
                        line,
                        tags=frozenset(("always",)),
                        key=f"{key}.{name}.flush",
                        implied=True,
                    )
                )
            found += read
        return tuple(found)

    def _batches(self, path: At, play: dict[Any, Any]) -> dict[str, Any]:
        """How many hosts go at once, and how many may fail."""
        found: dict[str, Any] = {}
        serial = play.get("serial")
        if serial is not None:
            several = isinstance(serial, list)
            found["serial"] = tuple(
                self.share((*path, "serial", index) if several else (*path, "serial"), one)
                for index, one in enumerate(serial if several else [serial])
            )
        if "max_fail_percentage" in play:
            at = (*path, "max_fail_percentage")
            found["max_fail_percentage"] = self.seconds(at, play["max_fail_percentage"], "a percentage")
        if "strategy" in play:
            found["strategy"] = self.text((*path, "strategy"), play["strategy"])
            if found["strategy"] not in words.STRATEGIES:
                hint = nearest(found["strategy"], words.STRATEGIES)
                self.note((*path, "strategy"), f"there is no strategy {found['strategy']!r}", hint)
        if "force_handlers" in play:
            found["force_handlers"] = self.truth((*path, "force_handlers"), play["force_handlers"])
        return found

    # Files with variables.

    def _vars_files(self, at: At, value: Any) -> dict[str, Any]:
        """The variables of the files that a play names; of equal names the last file's."""
        found: dict[str, Any] = {}
        for index, name in enumerate(self.texts(at, value) if value else ()):
            place = (*at, index) if isinstance(value, list) else at
            if template.has_template(name):
                self.note(place, "a template in vars_files is not supported yet", "name the file")
            elif not (self.files.chain[-1].parent / name).is_file():
                beside = (self.files.chain[-1].parent / name).parent.glob("*.y*ml")
                known = [posixpath.join(posixpath.dirname(name), path.name) for path in beside]
                self.note(place, f"there is no file {name!r} beside the playbook", nearest(name, known))
            else:
                found.update(self._vars_file(name))
        return found

    def _vars_file(self, name: str) -> dict[str, Any]:
        shown = posixpath.normpath(posixpath.join(posixpath.dirname(self.document.file), name))
        try:
            document = yamlfile.load(self.files.chain[-1].parent / name, shown=shown)
            values = Values(vault.unsealed(document, self.files.open_vault))
        except ConfigError as error:
            self.problems += error.problems
            return {}
        found = values.variables((), values.document.data, "a file of variables")
        self.problems += values.problems
        return found


def _topics(handlers: Any) -> frozenset[str] | None:
    """What can be notified; None where a handler's name is known only when the book runs."""
    written = [one for one in handlers if isinstance(one, dict)] if isinstance(handlers, list) else []
    names: set[str] = set()
    for one in written:
        listen = one.get("listen")
        names.update(
            str(name)
            for name in (one.get("name"), *(listen if isinstance(listen, list) else [listen]))
            if name
        )
    return None if any(template.has_template(name) for name in names) else frozenset(names)
