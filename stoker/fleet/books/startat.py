"""``--start-at``: a book without what stands before a task."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import replace

from stoker.config.books.playbooktree import Block, Entry, Playbook, Task, flat
from stoker.errors import InputError, nearest


def starting_at(book: Playbook, name: str) -> Playbook:
    """The book from the first task of this name on.

    Args:
        book: The book.
        name: As written in it, ``*`` and ``?`` allowed.

    Raises:
        InputError: No task is called so.
    """
    for index, play in enumerate(book.plays):
        found, tasks = _from(play.tasks, name)
        if found:
            return replace(book, plays=(replace(play, tasks=tasks), *book.plays[index + 1 :]))
    names = [task.name for play in book.plays for task in flat(play.tasks)]
    raise InputError(
        f"no task of {book.shown} is called {name!r}", where="--start-at", next_step=nearest(name, names)
    )


def _from(entries: Sequence[Entry], name: str) -> tuple[bool, tuple[Entry, ...]]:
    """Whether the task is among these, and what is left of them."""
    for index, entry in enumerate(entries):
        rest = tuple(entries[index + 1 :])
        if isinstance(entry, Task):
            if entry.name == name or fnmatch.fnmatchcase(entry.name, name):
                return True, (entry, *rest)
            continue
        left = _block(entry, name)
        if left is not None:
            return True, (left, *rest)
    return False, ()


def _block(block: Block, name: str) -> Block | None:
    """A block without what stands before the task; None where it is not in it."""
    for index, part in enumerate((block.tasks, block.rescue, block.always)):
        found, left = _from(part, name)
        if found:
            tasks = left if index == 0 else ()
            rescue = left if index == 1 else block.rescue if index == 0 else ()
            return replace(block, tasks=tasks, rescue=rescue, always=left if index == 2 else block.always)
    return None
