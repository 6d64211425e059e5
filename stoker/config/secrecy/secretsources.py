"""Where a secret comes from that ``invoke.yaml`` names under ``stoker.secrets``, as typed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.errors import InputError, nearest

_KINDS = ("command", "file")
_HINT = "write {command: [pass, show, hf]} or {file: PATH}"


@dataclass(frozen=True)
class FromCommand:
    """The first line that a command prints.

    Args:
        argv: The command, run without a shell.
    """

    argv: tuple[str, ...]


@dataclass(frozen=True)
class FromFile:
    """What stands in a file that only its owner can read, less one line break at its end.

    Args:
        path: Absolute.
    """

    path: Path


SecretSource = FromCommand | FromFile


def read(value: Any, root: Path, where: str) -> dict[str, SecretSource]:
    """Secrets by name.

    Args:
        value: What stands under ``stoker.secrets``.
        root: The project's folder, where relative paths start.
        where: For messages.

    Raises:
        InputError: Anything in it is wrong; never with a value: somebody may have written a secret there.
    """
    if not isinstance(value, Mapping):
        raise InputError("must hold a mapping of names", where=where, next_step=f"NAME: … {_HINT}")
    return {str(name): _source(source, root, f"{where}.{name}") for name, source in value.items()}


def _source(value: Any, root: Path, where: str) -> SecretSource:
    if not isinstance(value, Mapping) or len(value) != 1:
        raise InputError("a secret comes from one command or one file", where=where, next_step=_HINT)
    ((kind, given),) = value.items()
    if kind == "command":
        return FromCommand(_argv(given, where))
    if kind == "file":
        return FromFile(root / _path(given, where))
    raise InputError(f"unknown source {kind!r}", where=where, next_step=nearest(str(kind), _KINDS))


def _argv(given: Any, where: str) -> tuple[str, ...]:
    """The words of a command; a text is one of a single word."""
    words = [given] if isinstance(given, str) and len(given.split()) == 1 else given
    is_list = isinstance(words, Sequence) and not isinstance(words, str) and len(words) > 0
    if not is_list or not all(isinstance(w, str | int) for w in words) or not str(words[0]).strip():
        hint = "write [pass, show, hf]: no shell runs it"
        raise InputError("command is a list of words", where=where, next_step=hint)
    return tuple(_word(word, where) for word in words)


def _word(word: object, where: str) -> str:
    if "\0" in str(word):
        raise InputError("command holds a NUL character, which no process can be given", where=where)
    return str(word)


def _path(given: Any, where: str) -> Path:
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise InputError("file is the path of a file", where=where, next_step="write file: ~/.hf-token")
    try:
        return Path(given).expanduser()
    except RuntimeError as error:
        raise InputError(f"file: {error}", where=where, next_step="write an absolute path") from error
