"""Where records lie: ``results/RUN-ID/run.json``, listed through an index that can always be rebuilt."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.errors import InputError, nearest
from stoker.results.records.identity import is_safe_id
from stoker.results.records.index import Index, stamped
from stoker.results.records.summary import Summary

if TYPE_CHECKING:
    from stoker.results.records.record import Record

RECORD = "run.json"
_ROOM = 1 << 20  # bytes that a record and its raw files take at the least
_STALE_S = 86400.0  # no draft is written for so long


@dataclass(frozen=True)
class Damaged:
    """A record that cannot be read.

    Args:
        path: Its file.
        what: Why not.
    """

    path: str
    what: str


@dataclass(frozen=True)
class Look:
    """What one look at the results found.

    Args:
        found: The runs that were meant, newest first.
        ids: Of every run that has a record, oldest first.
        damaged: The records that cannot be read.
    """

    found: tuple[Summary, ...]
    ids: tuple[str, ...]
    damaged: tuple[Damaged, ...]


class Store:
    """A folder of results.

    Args:
        folder: It may not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, run_id: str) -> Path:
        """The folder of a run: its record, and beside it what was pulled.

        Raises:
            InputError: No safe id.
        """
        if not is_safe_id(run_id):
            raise InputError(f"{run_id!r} is no id of a run", next_step="see `inv results`")
        return self.folder / run_id

    def check_room(self) -> None:
        """See that a record can be written, before anything is measured for it.

        Raises:
            InputError: The folder cannot be written, or its disk is full.
        """
        draft = self.folder / f".room.{secrets.token_hex(4)}.new"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                _write(draft, " " * _ROOM)
            finally:
                draft.unlink(missing_ok=True)
            self._sweep()
        except OSError as error:
            why = error.strerror or str(error)
            raise InputError(
                f"results cannot be written there: {why}",
                where=str(self.folder),
                next_step="make it writable, with room",
            ) from error

    def _sweep(self) -> None:
        """Take away what writers that were killed left behind."""
        for draft in self.folder.glob(".*.new"):
            with contextlib.suppress(FileNotFoundError):  # the draft of another host of this very command
                if time.time() - draft.lstat().st_mtime <= _STALE_S:
                    continue
                if draft.is_dir() and not draft.is_symlink():
                    shutil.rmtree(draft, ignore_errors=True)
                else:
                    draft.unlink()

    def save(self, record: Record) -> Path:
        """Write a record whole or not at all; an earlier one of the same id is replaced.

        Returns:
            Its file.

        Raises:
            InputError: The folder cannot be written.
        """
        home = self.path(record.run_id)
        draft = self.folder / f".{record.run_id}.{secrets.token_hex(4)}.new"
        try:
            draft.mkdir(parents=True)
            try:
                _write(draft / RECORD, record.dumps())
                if not _renamed(draft, home):
                    (draft / RECORD).replace(home / RECORD)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        except OSError as error:
            raise _cannot("write", home, error) from error
        return home / RECORD

    def load(self, run_id: str) -> Record:
        """One record.

        Args:
            run_id: Its id, or the beginning or the end of it where that is unique.

        Raises:
            InputError: Unknown (with the nearest), ambiguous, or damaged.
        """
        from stoker.results.records import fromjson

        file = self.path(self.resolve(run_id)) / RECORD
        return fromjson.loads(fromjson.text_of(file), str(file))

    def resolve(self, text: str) -> str:
        """The whole id that a part of it means; raises as ``load`` does."""
        if is_safe_id(text) and (self.folder / text / RECORD).is_file():
            return text  # among ten thousand, looking at every other one takes a while
        ids = self.ids()
        found = [
            run_id for run_id in ids if text and (run_id.startswith(text) or run_id.endswith("-" + text))
        ]
        if len(found) == 1:
            return found[0]
        if found:
            shown = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
            raise InputError(
                f"{text!r} is the beginning or end of {len(found)} runs", next_step=f"one of {shown}"
            )
        raise InputError(f"there is no run {text!r}", next_step=nearest(text, ids) or "see `inv results`")

    def ids(self) -> list[str]:
        """Every id that has a record, oldest first."""
        try:
            return list(stamped(self.folder, RECORD))
        except OSError as error:
            raise _cannot("read", self.folder, error) from error

    def list(self, *, host: str = "", profile: str = "", last: int | None = None) -> tuple[Summary, ...]:
        """What is there, newest first.

        Args:
            host: Only of this host.
            profile: Only of this profile.
            last: At most so many.
        """

        def has(row: Summary) -> bool:
            return host in ("", row.host) and profile in ("", row.profile)

        return self.look(has, last).found

    def look(self, has: Callable[[Summary], bool] = lambda _: True, most: int | None = None) -> Look:
        """The newest runs that are meant, and the records that cannot be read: both at one look.

        Args:
            has: Whether one is meant.
            most: So many of them; None: all.
        """
        index = self._index()
        found = index.first(lambda row: not row.damage and has(row), most)
        return Look(tuple(found), index.ids, self._damaged(index))

    def damaged(self) -> tuple[Damaged, ...]:
        """The records that cannot be read: they are left out of every list, and named here."""
        return self._damaged(self._index())

    def _damaged(self, index: Index) -> tuple[Damaged, ...]:
        return tuple(Damaged(str(self.folder / row.run_id / RECORD), row.damage) for row in index.damaged)

    def _index(self) -> Index:
        try:
            return Index(self.folder, RECORD)
        except OSError as error:
            raise _cannot("read", self.folder, error) from error


def _write(file: Path, text: str) -> None:
    with file.open("x", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _renamed(draft: Path, home: Path) -> bool:
    """Move a whole folder into place; False where one is there already."""
    try:
        draft.rename(home)
    except OSError:
        if not home.is_dir():
            raise
        return False
    return True


def _cannot(verb: str, path: Path, error: Exception) -> InputError:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return InputError(f"cannot {verb} it: {why}", where=str(path))
