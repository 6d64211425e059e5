"""Tasks and blocks of a playbook: keywords, what they hand on, and the files that they include."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stoker.config.books import playbookwords as words
from stoker.config.books.playbookflow import Flow, Handed, kept
from stoker.config.books.playbooktree import Block, Entry, Module, Task
from stoker.config.books.playbookvalues import Path as At
from stoker.config.books.playbookvalues import kind
from stoker.config.files import yamlfile
from stoker.config.files.yamlfile import Document
from stoker.config.secrecy import vault
from stoker.config.templating import template
from stoker.errors import ConfigError, Problem, nearest

_BUILTIN = "ansible.builtin."
_MAX_FILES = 200
_NOT_OF_INCLUDES = frozenset(
    (
        *("until", "retries", "delay", "failed_when", "changed_when", "notify", "delegate_to", "become"),
        *("environment", "timeout", "check_mode", "diff"),
    )
)
_NOT_OF_IMPORTS = _NOT_OF_INCLUDES - words.HANDED_ON - {"environment", "notify"} | {"loop", "register"}


@dataclass(frozen=True)
class Files:
    """The files that a book is made of.

    Args:
        modules: What a task may do, by name.
        folder: The playbook's.
        chain: Those that are open, the outermost first.
        read: How many were read, in one number that all share.
        problems: Every mistake in any of them.
        open_vault: Opens files of variables that Ansible Vault encrypted; None: they are refused.
    """

    modules: Mapping[str, Module]
    folder: Path
    chain: tuple[Path, ...] = ()
    read: list[int] = field(default_factory=lambda: [0])
    problems: list[Problem] = field(default_factory=list)
    open_vault: vault.Open | None = None


class Steps(Flow):
    """Turns lists of tasks into typed ones, and collects what is wrong in them.

    Args:
        document: The file.
        files: What it belongs to; its own path is the last of the chain.
    """

    def __init__(self, document: Document, files: Files) -> None:
        super().__init__(document)
        self.files = files
        self.problems = files.problems
        self.modules = files.modules

    def entries(self, path: At, value: Any, outer: Handed, key: str) -> tuple[Entry, ...]:
        """A list of tasks and blocks."""
        if value is not None and not isinstance(value, list):
            what = str(path[-1]) if path and isinstance(path[-1], str) else "a file of tasks"
            verb = "are" if what in ("pre_tasks", "post_tasks", "handlers") else "is"
            self.note(path, f"{what} {verb} a list, here is {kind(value)}", "begin each task with '- '")
            return ()
        read = [
            self._entry((*path, index), one, outer, f"{key}.{index}") for index, one in enumerate(value or ())
        ]
        return tuple(entry for entry in read if entry is not None)

    def handlers(self, path: At, value: Any, outer: Handed, key: str) -> tuple[Task, ...]:
        """A play's handlers: tasks that may listen to topics."""
        if value is not None and not isinstance(value, list):
            self.note(path, f"handlers are a list, here is {kind(value)}", "begin each handler with '- '")
            return ()
        read = []
        for index, one in enumerate(value or ()):
            at = (*path, index)
            if isinstance(one, dict) and any(str(name).endswith(("block", "_tasks")) for name in one):
                self.note(at, "a handler is one task", "make a handler of each, with the same listen")
                continue
            task = self._task(at, one, outer, f"{key}.{index}", words.HANDLER)
            if task is not None and not (isinstance(one, dict) and (one.get("name") or task.listen)):
                self.note(at, "a handler needs a name", "add name: NAME")
            read += [task] if task is not None else []
        return tuple(read)

    # One entry.

    def _entry(self, path: At, value: Any, outer: Handed, key: str) -> Entry | None:
        if isinstance(value, dict) and value.keys() & {"block", "rescue", "always"}:
            return self._block(path, value, outer, key)
        if isinstance(value, dict):
            for name in ("import_tasks", "include_tasks"):
                for written in (name, _BUILTIN + name):
                    if written in value:
                        return self._file(path, value, outer, key, written)
        return self._task(path, value, outer, key, words.TASK)

    def _block(self, path: At, value: dict[Any, Any], outer: Handed, key: str) -> Block:
        """A block; its keywords are handed on to every task of its three parts."""
        self._keys(path, value, "block", words.BLOCK, ())
        if "block" not in value:
            self.note(path, "rescue and always belong to a block", "add block: with its tasks")
        handed = self.handed(path, value, outer)
        parts = [
            self.entries((*path, name), value.get(name), handed, f"{key}.{name}")
            for name in ("block", "rescue", "always")
        ]
        name = self.text((*path, "name"), value.get("name"))
        return Block(parts[0], parts[1], parts[2], self.document.file, self.document.line(path), name)

    def _task(self, path: At, value: Any, outer: Handed, key: str, known: frozenset[str]) -> Task | None:
        """One task; None where it has no module."""
        if not isinstance(value, dict):
            self.note(path, f"a task is a mapping, here is {kind(value)}", "write NAME: VALUE")
            return None
        self._keys(path, value, "task", known, self.modules)
        written = self._module_key(path, value, known)
        if written is None:
            return None
        name = written.removeprefix(_BUILTIN)
        module = self.modules[name]
        handed = self.handed(path, value, outer)
        task = Task(
            name=self.text((*path, "name"), value.get("name")) or name,
            module=name,
            args=self.arguments(path, value, written, module),
            file=self.document.file,
            line=self.document.line(path),
            key=key,
            **kept(handed),
            **self.flow(path, value),
        )
        self._fits(path, task, written, module)
        return task

    def _fits(self, path: At, task: Task, written: str, module: Module) -> None:
        """Note keywords that cannot have an effect on a module."""
        if module.elsewhere or module.fixed:
            return
        instead = {
            "become": (task.become, "log in as the user that owns the servers"),
            "delegate_to": (task.delegate_to, "only commands can be delegated"),
            "environment": (task.environment, "name the variables in the profile"),
        }
        for name, (given, hint) in instead.items():
            if given:
                self.note((*path, written), f"{name} has no effect on {written}", hint, key=True)

    # Files of tasks.

    def _file(self, path: At, value: dict[Any, Any], outer: Handed, key: str, written: str) -> Entry | None:
        """``include_tasks``: a task with the file's steps; ``import_tasks``: a block of them."""
        name = written.removeprefix(_BUILTIN)
        is_import = name == "import_tasks"
        for word in sorted(value.keys() & (_NOT_OF_IMPORTS if is_import else _NOT_OF_INCLUDES)):
            self.note(
                (*path, word),
                f"{word} has no effect on {written}",
                "put it on the tasks of the file",
                key=True,
            )
        task = self._task(path, value, outer, key, words.TASK)
        if task is None or not isinstance(task.args.get("file"), str):
            return None
        own = self.handed(path, value, outer) if is_import else replace(outer, vars=task.vars)
        at = (*path, written) if not isinstance(value[written], dict) else (*path, written, "file")
        steps = self._read(at, task.args["file"], own, key)
        if is_import:
            return Block(steps, (), (), task.file, task.line)
        return replace(task, included=steps)

    def _read(self, at: At, name: str, handed: Handed, key: str) -> tuple[Entry, ...]:
        """The steps of another file, looked for beside this one and beside the playbook."""
        inner = self.other(at, name, "tasks")
        return () if inner is None else inner.entries((), inner.document.data, handed, key + "/")

    def other(self, at: At, name: str, what: str) -> Steps | None:
        """Another file that belongs to the book; None where it cannot be read, which is noted."""
        if template.has_template(name):
            self.note(at, f"a template cannot name a file of {what}", "name each file, with when")
            return None
        here = self.files.chain[-1].parent
        path = next((one / name for one in (here, self.files.folder) if (one / name).is_file()), None)
        if path is None:
            known = [
                posixpath.join(posixpath.dirname(name), one.name)
                for one in (here / name).parent.glob("*.y*ml")
            ]
            self.note(at, f"there is no file {name!r}", nearest(name, known))
            return None
        if path.resolve() in self.files.chain:
            self.note(at, f"{name} includes itself", "take it out")
            return None
        self.files.read[0] += 1
        if self.files.read[0] > _MAX_FILES:
            self.note(at, f"the book includes more than {_MAX_FILES} files")
            return None
        shown = posixpath.normpath(posixpath.join(posixpath.dirname(self.document.file), name))
        try:
            document = yamlfile.load(path, shown=shown)
        except ConfigError as error:
            self.problems += error.problems
            return None
        return type(self)(document, replace(self.files, chain=(*self.files.chain, path.resolve())))

    # Keys: keywords and modules.

    def _keys(
        self, path: At, value: dict[Any, Any], of: str, known: Iterable[str], modules: Iterable[str]
    ) -> None:
        """Note the keys of a mapping that are neither keyword nor module."""
        self.odd_keys(path)
        names = {*known, *modules}
        for name in value:
            if isinstance(name, str) and name not in names and name.removeprefix(_BUILTIN) not in modules:
                self.unknown((*path, name), name, of, sorted(names))

    def unknown(self, at: At, name: str, of: str, known: Sequence[str]) -> None:
        """Note a key that is neither keyword nor module."""
        advice = words.later(name.removeprefix(_BUILTIN), of)
        if advice is not None:
            self.note(at, f"{name} is not supported", advice, key=True)
            return
        what = "neither a keyword of a task nor a module" if of == "task" else f"no keyword of a {of}"
        self.note(at, f"{name!r} is {what}", nearest(name, known), key=True)

    def _module_key(self, path: At, task: Mapping[Any, Any], known: frozenset[str]) -> str | None:
        """The one key that is a module, as written."""
        texts = [name for name in task if isinstance(name, str)]
        named = [name for name in texts if name.removeprefix(_BUILTIN) in self.modules]
        if len(named) > 1:
            self.note(path, f"one task with {len(named)} modules: {', '.join(named)}", "make a task of each")
        elif task and not named and all(name in known for name in texts):
            self.note(path, "the task names no module", "known: " + ", ".join(sorted(self.modules)))
        return named[0] if len(named) == 1 else None
