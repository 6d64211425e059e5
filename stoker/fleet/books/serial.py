"""How many hosts of a play go at once, and how many may fail."""

from __future__ import annotations

from typing import Any

from stoker.config.settings import number
from stoker.errors import InputError
from stoker.fleet.books.call import truth
from stoker.fleet.books.scope import Frame, Scope
from stoker.fleet.books.stages import Stage


def batches(stage: Stage, frame: Frame) -> list[list[str]]:
    """The hosts of a play in the batches that ``serial`` asks for; the last size serves for the rest.

    Raises:
        InputError: A template gives something else than a number or a percentage.
    """
    names = [host.name for host in stage.hosts]
    sizes = _sizes(stage, frame, len(names))
    found: list[list[str]] = []
    while names:
        size = sizes[min(len(found), len(sizes) - 1)] if sizes else 0
        size = size if size > 0 else len(names)
        found.append(names[:size])
        del names[:size]
    return found


def most(stage: Stage, frame: Frame) -> float | None:
    """How many percent of a batch may fail; None for any number.

    Raises:
        InputError: A template gives something else than a number.
    """
    value = stage.play.max_fail_percentage
    if value is None:
        return None
    given = _scope(frame).render(value, stage.play.place)
    return 0.0 if str(given) in ("0", "0.0") else number(given, f"{stage.play.place}: max_fail_percentage")


def force(stage: Stage, frame: Frame) -> bool:
    """Whether hosts that failed run their handlers too.

    Raises:
        InputError: A template gives something else than a truth value.
    """
    return truth(stage.play.force_handlers, _scope(frame), stage.play.place)


def _scope(frame: Frame) -> Scope:
    """What is known of a play without a host."""
    return Scope({**frame.vars, **frame.extra}, frame.own)


def _sizes(stage: Stage, frame: Frame, total: int) -> list[int]:
    where = f"{stage.play.place}: serial"
    given = _scope(frame).render(list(stage.play.serial), where)
    flat = [one for each in given for one in (each if isinstance(each, list) else [each])]
    return [_size(one, total, where) for one in flat]


def _size(value: Any, total: int, where: str) -> int:
    """A number of hosts; a percentage is rounded down, and is one host at least."""
    text = str(value).strip()
    if text.endswith("%") and text[:-1].strip().isdecimal():
        return max(int(text[:-1]) * total // 100, 1)
    if not text.isdecimal() or isinstance(value, bool):
        raise InputError(f"{text!r} is neither a number of hosts nor a percentage", where=where)
    return int(text)
