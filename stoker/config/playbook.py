"""Playbooks: plays and tasks in Ansible's shape, every mistake in them found before anything is connected."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stoker.config import playbookwords as words
from stoker.config import template, yamlfile
from stoker.config.playbooktree import Argument, Conditions, Module, Play, Playbook, Task
from stoker.config.playbookvalues import Path as At
from stoker.config.playbookvalues import Values, kind
from stoker.config.yamlfile import Document
from stoker.errors import ConfigError, InputError, nearest

__all__ = ["Argument", "Conditions", "Module", "Play", "Playbook", "Task", "find", "load"]

_BUILTIN = "ansible.builtin."
_SHORTHAND = re.compile(r"(?:^|\s)([A-Za-z_]\w*)=")


def load(path: Path, modules: Mapping[str, Module], *, shown: str | None = None) -> Playbook:
    """Read a playbook and check all of it.

    Args:
        path: The file.
        modules: What a task may do, by name.
        shown: The file as shown to people; ``path`` itself where not given.

    Raises:
        ConfigError: Every mistake of the file, and of the files with variables that it names.
    """
    name = str(path) if shown is None else shown
    reader = _Reader(yamlfile.load(path, shown=name), modules, path.parent)
    plays = reader.plays()
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


class _Reader(Values):
    """Turns a document into plays, and collects what is wrong in it.

    Args:
        document: The file.
        modules: What a task may do, by name.
        folder: Where files with variables are relative to.
    """

    def __init__(self, document: Document, modules: Mapping[str, Module], folder: Path) -> None:
        super().__init__(document)
        self.modules = modules
        self.folder = folder

    def plays(self) -> tuple[Play, ...]:
        """Every play; incomplete where there are problems."""
        data = self.document.data
        if data is None or data == []:
            self.note((), "the playbook holds no play", "write a list of plays: - hosts: …")
            return ()
        if not isinstance(data, list):
            self.note((), f"a playbook is a list of plays, here is {kind(data)}", "begin each play with '- '")
            return ()
        return tuple(self._play((index,), value) for index, value in enumerate(data))

    def _play(self, path: At, value: Any) -> Play:
        play = self._entry(path, value, "play", words.PLAY)
        if isinstance(value, dict) and not play.get("hosts") and "import_playbook" not in play:
            self.note((*path, "hosts"), "the play names no hosts", "add hosts: PATTERN")
        hosts = self.texts((*path, "hosts"), play["hosts"]) if play.get("hosts") else ()
        tags = self.tags((*path, "tags"), play["tags"]) if "tags" in play else ()
        if play.get("gather_facts"):
            self.note((*path, "gather_facts"), "Stoker gathers no facts", "write gather_facts: false")
        return Play(
            name=self.text((*path, "name"), play.get("name")) or ",".join(hosts),
            hosts=hosts,
            tasks=self._tasks((*path, "tasks"), play.get("tasks"), tags),
            vars={
                **self.variables((*path, "vars"), play.get("vars"), "vars"),
                **self._vars_files((*path, "vars_files"), play.get("vars_files")),
            },
            file=self.document.file,
            line=self.document.line(path),
        )

    def _tasks(self, path: At, value: Any, tags: Iterable[str]) -> tuple[Task, ...]:
        if value is not None and not isinstance(value, list):
            self.note(path, f"tasks is a list, here is {kind(value)}", "begin each task with '- '")
            return ()
        read = [self._task((*path, index), task, tags) for index, task in enumerate(value or ())]
        return tuple(task for task in read if task is not None)

    def _task(self, path: At, value: Any, tags: Iterable[str]) -> Task | None:
        """One task; None where it has no module."""
        task = self._entry(path, value, "task", words.TASK)
        key = self._module_key(path, task)
        if key is None:
            return None
        name = key.removeprefix(_BUILTIN)
        own = self.tags((*path, "tags"), task["tags"]) if "tags" in task else ()
        return Task(
            name=self.text((*path, "name"), task.get("name")) or name,
            module=name,
            args=self._args(path, task, key, self.modules[name]),
            file=self.document.file,
            line=self.document.line(path),
            tags=frozenset((*tags, *own)),
            vars=self.variables((*path, "vars"), task.get("vars"), "vars"),
            **self._flow(path, task),
        )

    def _flow(self, path: At, task: Mapping[Any, Any]) -> dict[str, Any]:
        """Whether, how often and with what consequences a task runs."""
        flow: dict[str, Any] = {
            name: self.conditions((*path, name), task[name])
            for name in ("when", "failed_when", "changed_when")
            if name in task
        }
        if "loop" in task:
            flow["loop"] = self._loop((*path, "loop"), task["loop"])
        if "register" in task:
            flow["register"] = self.variable((*path, "register"), task["register"])
        for name in ("ignore_errors", "no_log"):
            if name in task:
                flow[name] = self.truth((*path, name), task[name])
        return {**flow, "timeout": self.seconds((*path, "timeout"), task.get("timeout"))}

    def _loop(self, at: At, value: Any) -> Any:
        if not isinstance(value, list) and not (isinstance(value, str) and template.has_template(value)):
            self.note(at, f"loop takes a list, here is {kind(value)}", "write [one, two], or a template")
            return []
        return self.value(at, value)

    # Keys: keywords and modules.

    def _entry(self, path: At, value: Any, of: str, known: frozenset[str]) -> dict[Any, Any]:
        """A play or a task as a mapping whose keys are checked."""
        if not isinstance(value, dict):
            self.note(path, f"a {of} is a mapping, here is {kind(value)}", "write NAME: VALUE")
            return {}
        self.odd_keys(path)
        modules = self.modules if of == "task" else {}
        for name in value:
            if isinstance(name, str) and name not in known and name.removeprefix(_BUILTIN) not in modules:
                self._unknown((*path, name), name, of, (*known, *modules))
        return value

    def _unknown(self, at: At, name: str, of: str, known: Iterable[str]) -> None:
        """Note a key that is neither keyword nor module."""
        advice = words.later(name.removeprefix(_BUILTIN), of)
        if advice is not None:
            self.note(at, f"{name} is not supported yet", advice, key=True)
            return
        what = "neither a keyword of a task nor a module" if of == "task" else "no keyword of a play"
        self.note(at, f"{name!r} is {what}", nearest(name, known), key=True)

    def _module_key(self, path: At, task: Mapping[Any, Any]) -> str | None:
        """The one key that is a module, as written."""
        texts = [name for name in task if isinstance(name, str)]
        named = [name for name in texts if name.removeprefix(_BUILTIN) in self.modules]
        if len(named) > 1:
            self.note(path, f"one task with {len(named)} modules: {', '.join(named)}", "make a task of each")
        elif task and not named and all(name in words.TASK for name in texts):
            self.note(path, "the task names no module", "known: " + ", ".join(sorted(self.modules)))
        return named[0] if len(named) == 1 else None

    # Arguments of a module.

    def _args(self, path: At, task: Mapping[Any, Any], key: str, module: Module) -> dict[str, Any]:
        """The arguments as written, those under ``args`` included."""
        before = len(self.problems)
        given = self._given((*path, key), task[key], key, module)
        at = (*path, "args")
        under = self._named(at, key, self.mapping(at, task.get("args"), "args"), module)
        for name in sorted(given.keys() & under.keys()):
            self.note((*at, name), f"{name} is given twice", key=True)
        args = {**given, **under}
        for group in module.needs if len(self.problems) == before else ():
            if all(args.get(name) is None for name in group):
                self.note((*path, key), f"{key} needs {' or '.join(group)}", key=True)
        return args

    def _given(self, at: At, value: Any, key: str, module: Module) -> dict[str, Any]:
        """What stands under the module's name: a mapping, or a bare value where the module takes one."""
        if value is None or isinstance(value, dict):
            return self._named(at, key, value or {}, module)
        if not module.free or isinstance(value, list):
            hint = f"write {key}: {{NAME: VALUE}}"
            self.note(at, f"{key} takes a mapping of arguments, here is {kind(value)}", hint)
            return {}
        for name in _SHORTHAND.findall(value) if isinstance(value, str) else ():
            # To pass it on as text would be another meaning than Ansible's.
            if name in module.pairs:
                self.note(
                    at, f"{name}=… inside a text is not read as an argument", f"write args: {{{name}: …}}"
                )
        return {module.free: self._argument(at, value, module.arguments[module.free])}

    def _named(self, at: At, key: str, given: Mapping[Any, Any], module: Module) -> dict[str, Any]:
        """The arguments of a mapping that are known; others are noted."""
        self.odd_keys(at)
        args: dict[str, Any] = {}
        for written, value in given.items():
            name, place = str(written).replace("-", "_"), (*at, written)
            if name in module.arguments:
                args[name] = self._argument(place, value, module.arguments[name])
            elif name in module.later:
                self.note(place, f"{written} of {key} is not supported yet", "take it out", key=True)
            elif module.any_name:
                args[self.variable(place, written, key=True)] = self.value(place, value)
            else:
                hint = nearest(str(written), module.arguments)
                self.note(place, f"{key} has no argument {written!r}", hint, key=True)
        return args

    def _argument(self, at: At, value: Any, argument: Argument) -> Any:
        """An argument's value as written, tried on its kind where it is no template."""
        if argument.expressions:
            self.conditions(at, value)
            return value
        if argument.exact:
            value = self.exact(at, value)
        self.value(at, value)
        if not template.has_template(value):
            try:
                argument.parse(value)
            except InputError as error:
                self.note(at, error.what, error.next_step)
        return value

    # Files with variables.

    def _vars_files(self, at: At, value: Any) -> dict[str, Any]:
        """The variables of the files that a play names; of equal names the last file's."""
        found: dict[str, Any] = {}
        for index, name in enumerate(self.texts(at, value) if value else ()):
            place = (*at, index) if isinstance(value, list) else at
            if template.has_template(name):
                self.note(place, "a template in vars_files is not supported yet", "name the file")
            elif not (self.folder / name).is_file():
                beside = (self.folder / name).parent.glob("*.y*ml")
                known = [posixpath.join(posixpath.dirname(name), path.name) for path in beside]
                self.note(place, f"there is no file {name!r} beside the playbook", nearest(name, known))
            else:
                found.update(self._vars_file(name))
        return found

    def _vars_file(self, name: str) -> dict[str, Any]:
        shown = posixpath.normpath(posixpath.join(posixpath.dirname(self.document.file), name))
        try:
            values = Values(yamlfile.load(self.folder / name, shown=shown))
        except ConfigError as error:
            self.problems += error.problems
            return {}
        found = values.variables((), values.document.data, "a file of variables")
        self.problems += values.problems
        return found
