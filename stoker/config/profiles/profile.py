"""Tuning profiles: files that extend each other, resolved for a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.config import names
from stoker.config.files import yamlfile
from stoker.config.layers import Layers, Without
from stoker.config.profiles import parts as parts
from stoker.config.profiles.kinds import SecretRef
from stoker.config.profiles.model import Mistake, Profile, flag_of, read
from stoker.config.profiles.origin import Setting, settings
from stoker.config.profiles.parts import Part, Reader
from stoker.errors import ConfigError, InputError, Problem, nearest

if TYPE_CHECKING:
    from stoker.config.inventories.inventory import Host

__all__ = ["Examined", "Library", "Profile", "SecretRef", "flag_of"]

MAX_DEPTH = 50
"""Profiles that extend profiles that extend …"""

DEFAULT_VARIABLES = {"stoker_bind": "127.0.0.1"}
"""What a profile may rely on, whatever the inventory says."""


@dataclass(frozen=True)
class Examined:
    """A profile with everything that is wrong with it.

    Args:
        tree: Every value with the place where it is written, in whichever file that is.
        data: The values worked out, as far as they could be.
        profile: The same as typed data; None where something is wrong.
        problems: Every mistake, without the host's name.
        undefined: Read for no host, the values that need a host's variable, with its name.
    """

    tree: Part
    data: dict[str, Any]
    profile: Profile | None
    problems: tuple[Problem, ...]
    undefined: tuple[tuple[Part, str], ...] = ()


class Library:
    """The profiles of a project.

    Args:
        folder: Holds one ``NAME.yml`` or ``NAME.yaml`` a profile.
        root: The project's folder: files are shown relative to it.
    """

    def __init__(self, folder: Path, root: Path) -> None:
        self._folder = folder
        self._root = root
        self._own: dict[str, Part] = {}  # parsed once, however many hosts there are
        self._merged: dict[str, Part] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all profiles."""
        return tuple(sorted(name for name in self._files() if names.is_name(name)))

    def sources(self, name: str) -> tuple[Path, ...]:
        """The files that a profile comes from, what it extends first.

        Raises:
            InputError: No profile is called that.
            ConfigError: A file is wrong.
        """
        self._tree(name)
        order: dict[str, None] = {}
        self._ancestry(name, order)
        return tuple(self._files()[known][0] for known in order)

    def resolve(self, name: str, host: Host) -> Profile:
        """A profile as it is on a host.

        Raises:
            InputError: No profile is called that.
            ConfigError: Every mistake in the profile, and in what it extends.
        """
        found = self._examine(name, Reader(_variables(host), host.name))
        if found.profile is None or found.problems:
            raise ConfigError(found.problems)
        return found.profile

    def examine(self, name: str, host: Host | None) -> Examined:
        """A profile on a host with all of its mistakes, told without the host's name.

        Args:
            name: The profile.
            host: None: on no host in particular. Then nothing that is absent is a mistake, since it may be
                meant as a part of others.

        Raises:
            InputError: No profile is called that.
            ConfigError: It, or what it extends, cannot be read.
        """
        variables: Mapping[str, Any] = DEFAULT_VARIABLES if host is None else _variables(host)
        return self._examine(name, Reader(variables, "", somewhere=host is None))

    def _examine(self, name: str, reader: Reader) -> Examined:
        tree = self._tree(name)
        data = reader.read(tree)
        profile, mistakes = read(data)
        problems = list(reader.problems)
        problems += [
            _problem(tree, mistake)
            for mistake in mistakes
            if not _follows(mistake.path, reader.failed) and not (mistake.absent and reader.somewhere)
        ]
        return Examined(tree, data, profile, tuple(problems), tuple(reader.undefined))

    def origin(self, name: str, host: Host) -> tuple[Setting, ...]:
        """Every value of a profile as it is on a host, with the place where it was written.

        Raises:
            InputError: As ``resolve``.
        """
        return settings(self.resolve(name, host), self._tree(name))

    def _tree(self, name: str) -> Part:
        """The merged tree, host by host the same."""
        if name not in self._merged:
            if name not in self.names():
                raise self._unknown(name)
            problems: list[Problem] = []
            tree = self._merge(name, (), problems)
            if problems or tree is None:
                raise ConfigError(problems)
        return self._merged[name]

    def _merge(self, name: str, below: tuple[str, ...], problems: list[Problem]) -> Part | None:
        """A profile over what it extends; None, and problems noted, where that cannot be.

        Args:
            name: A known profile.
            below: The profiles that led here, for finding circles.
            problems: Where to note.
        """
        if name in self._merged:
            return self._merged[name]
        own = self._read(name, problems)
        if own is None:
            return None
        before = len(problems)
        merged = Part(own.document, (), entries={})
        for parent, at in _parents(own, problems):
            tree = self._parent(parent, at, (*below, name), problems)
            merged = merged if tree is None else parts.merge(merged, _without(tree, "description"))
        if len(problems) > before:
            return None
        self._merged[name] = parts.merge(merged, _without(own, "extends"))
        return self._merged[name]

    def _parent(self, name: str, at: Part, below: tuple[str, ...], problems: list[Problem]) -> Part | None:
        what, hint = "", ""
        if name not in self.names():
            what, hint = f"unknown profile {name!r}", nearest(name, set(self.names()) - set(below))
        elif name in below:
            what = "profiles extend each other: " + " → ".join([*below[below.index(name) :], name])
        elif len(below) > MAX_DEPTH:
            what = f"profiles extend each other more than {MAX_DEPTH} deep"
        if not what:
            return self._merge(name, below, problems)
        problems.append(at.document.problem(at.at, what, hint))
        return None

    def _read(self, name: str, problems: list[Problem]) -> Part | None:
        """A file's own tree."""
        if name in self._own:
            return self._own[name]
        try:
            self._own[name] = self._load(self._files()[name])
        except ConfigError as error:
            problems += error.problems
            return None
        return self._own[name]

    def _load(self, files: Sequence[Path]) -> Part:
        shown = self._shown(files[0])
        if len(files) > 1:
            raise ConfigError([Problem(shown, 0, f"{files[1].name} names the same profile", "remove one")])
        document = yamlfile.load(files[0], shown=shown)
        if document.data is None:
            raise ConfigError(
                [Problem(shown, 0, "is empty", "a profile is a mapping; it begins with env: or engine:")]
            )
        if not isinstance(document.data, dict):
            raise ConfigError([document.problem((), "expected a mapping", "e.g. env:, engine:, server:")])
        odd = list(parts.odd_keys(document))
        if odd:
            raise ConfigError(odd)
        return parts.of(document)

    def _ancestry(self, name: str, order: dict[str, None]) -> None:
        for parent, _ in _parents(self._own[name], []):
            if parent not in order:
                self._ancestry(parent, order)
        order[name] = None

    def _files(self) -> dict[str, list[Path]]:
        """Every file by the name of its profile."""
        found: dict[str, list[Path]] = {}
        for file in sorted(self._folder.glob("*.y*ml")):
            if file.suffix in (".yml", ".yaml") and not file.name.startswith("."):
                found.setdefault(file.stem, []).append(file)
        return found

    def _shown(self, file: Path) -> str:
        return str(file.relative_to(self._root)) if file.is_relative_to(self._root) else str(file)

    def _unknown(self, name: str) -> InputError:
        known = self.names()
        where = self._shown(self._folder)
        if not known:
            return InputError(f"unknown profile {name!r}: there is none at all", where=where)
        several = [part.strip() for part in name.split(",")]
        if len(several) > 1 and set(several) <= set(known):
            each = " ".join(f"--profile {part}" for part in several)
            return InputError(f"{name!r} is no profile's name", where=where, next_step=f"name each: {each}")
        hint = nearest(name, known)
        shown = [] if hint.startswith("known") else known  # once is enough
        return InputError(f"unknown profile {name!r}", where=where, evidence=shown, next_step=hint)


def _variables(host: Host) -> Mapping[str, Any]:
    """The host's variables as profiles see them: without its passwords, which are no tuning."""
    own = Without(host.vars, lambda name: name.endswith(("_password", "_pass")))
    return Layers(own, DEFAULT_VARIABLES)


def _parents(own: Part, problems: list[Problem]) -> list[tuple[str, Part]]:
    """What a file extends, each with the place that says so."""
    written = (own.entries or {}).get("extends")
    if written is None or written.is_null:
        return []
    found: list[tuple[str, Part]] = []
    for part in written.items if written.items is not None else (written,):
        text = part.document.text(part.at)
        if text is None or part.is_null:
            hint = "a profile's name, or a list of names"
            problems.append(part.document.problem(part.at, "this names no profile", hint))
        else:
            found.append((text, part))
    return found


def _without(part: Part, key: str) -> Part:
    entries = {name: item for name, item in (part.entries or {}).items() if name != key}
    return Part(part.document, part.at, entries=entries)


def _problem(tree: Part, mistake: Mistake) -> Problem:
    part = parts.find(tree, mistake.path)
    return part.document.problem(part.at, mistake.what, mistake.hint, key=mistake.key)


def _follows(path: parts.Path, failed: Sequence[parts.Path]) -> bool:
    """Whether a mistake is only what follows from a value that could not be rendered."""
    return any(path[: len(at)] == at or at[: len(path)] == path for at in failed)
