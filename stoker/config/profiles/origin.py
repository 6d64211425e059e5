"""Where each value of a resolved profile comes from, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stoker.config.profiles.model import Profile
from stoker.config.profiles.parts import Part

Path = tuple[str, ...]

_BY_NAME = (("env",), ("expect",), ("server", "args"))
"""Mappings whose keys people choose: each entry is a setting of its own, whatever it holds."""


@dataclass(frozen=True)
class Setting:
    """One value of a profile on a host.

    Args:
        path: Keys from the root, such as ``("env", "NCCL_PROTO")``.
        value: JSON type; a secret is ``{"secret": NAME}``; None where ``is_unset``.
        source: ``file:line`` where it was written, or the run that had it; empty for a default.
        written: As it stands in the file, where that is a template; else empty.
        over: Places of the values that it replaced, the nearest first.
        is_unset: ``null`` was written over an inherited value.
    """

    path: Path
    value: Any
    source: str = ""
    written: str = ""
    over: tuple[str, ...] = ()
    is_unset: bool = False

    @property
    def name(self) -> str:
        """``env.NCCL_PROTO``."""
        return ".".join(self.path)

    def to_plain(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "value": self.value,
            "source": self.source or None,
            **({"written": self.written} if self.written else {}),
            **({"over": list(self.over)} if self.over else {}),
            **({"unset": True} if self.is_unset else {}),
        }


@dataclass(frozen=True)
class Difference:
    """A setting in which two profiles differ; None where one has nothing there, not even a default."""

    name: str
    a: Setting | None
    b: Setting | None


def settings(profile: Profile, tree: Part | None, where: str = "") -> tuple[Setting, ...]:
    """Every value of a resolved profile, defaults included, in the order of its fields.

    Args:
        profile: As resolved.
        tree: The merged files that it was read from; None for a record's.
        where: For a record's: what it is called.
    """
    if tree is None:
        return tuple(Setting(path, value, where) for path, value in _leaves(profile.to_plain(), ()))
    found = [_setting(path, value, _at(tree, path)) for path, value in _leaves(profile.to_plain(), ())]
    return (*found, *_unset(tree, ()))


def differences(a: Sequence[Setting], b: Sequence[Setting]) -> tuple[Difference, ...]:
    """In what two profiles differ as resolved, by name; their descriptions are no part of what they do."""
    mine, theirs = _by_name(a), _by_name(b)
    names = dict.fromkeys([*mine, *theirs])
    found = (Difference(name, mine.get(name), theirs.get(name)) for name in names if name != "description")
    return tuple(one for one in found if _value(one.a) != _value(one.b))


def _by_name(settings: Sequence[Setting]) -> Mapping[str, Setting]:
    return {setting.name: setting for setting in settings}


def _value(setting: Setting | None) -> Any:
    return None if setting is None else setting.value


def _leaves(data: Mapping[str, Any], at: Path) -> Iterator[tuple[Path, Any]]:
    for key, value in data.items():
        path = (*at, key)
        if isinstance(value, Mapping) and (
            path in _BY_NAME or (path[:-1] not in _BY_NAME and not _is_secret(value))
        ):
            yield from _leaves(value, path)
        else:
            yield path, value


def _is_secret(value: Mapping[str, Any]) -> bool:
    return list(value) == ["secret"]


def _at(tree: Part, path: Path) -> Part | None:
    """The part at a path; None where nothing was written there."""
    part: Part | None = tree
    for step in path:
        part = part.entries.get(step) if part is not None and part.entries is not None else None
    return part


def _setting(path: Path, value: Any, part: Part | None) -> Setting:
    if part is None or part.is_null:
        return Setting(path, value)
    written = part.written if "{" in part.written and part.written != value else ""
    return Setting(path, value, part.place, written, _replaced(part))


def _replaced(part: Part) -> tuple[str, ...]:
    places, below = [], part.over
    while below is not None:
        places.append(below.place)
        below = below.over
    return tuple(places)


def _unset(part: Part, at: Path) -> Iterator[Setting]:
    """What ``null`` took away."""
    for key, item in (part.entries or {}).items():
        if item.is_null and item.over is not None:
            yield Setting((*at, key), None, item.place, "", _replaced(item), is_unset=True)
        elif item.entries is not None:
            yield from _unset(item, (*at, key))
