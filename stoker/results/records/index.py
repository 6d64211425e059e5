"""The index beside the records: a cache in SQLite, rebuilt whenever it is missing, stale or corrupt."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.errors import InputError
from stoker.results.records import points
from stoker.results.records.identity import is_safe_id
from stoker.results.records.indexfile import DAMAGED, FILE, NEWEST, UNUSABLE, reading, replace, stamps_in
from stoker.results.records.summary import Summary

if TYPE_CHECKING:
    from stoker.results.records.record import Record


class Index:
    """The records as of now: of each its id at once, and its row where that is asked for.

    Args:
        folder: Of the results.
        name: File name of a record in its run's folder.

    Raises:
        OSError: The folder cannot be read.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._stamps = stamped(folder, name)
        self._rows = None if stamps_in(folder / FILE) == self._stamps else self._refreshed()

    @property
    def ids(self) -> tuple[str, ...]:
        """Every run that has a record, oldest first."""
        return tuple(self._stamps)

    @property
    def damaged(self) -> list[Summary]:
        """The rows of what cannot be read, oldest first."""
        if self._rows is None:
            try:
                with reading(self._folder / FILE, DAMAGED) as rows:
                    return list(self._sure(rows))
            except UNUSABLE:
                self._rows = self._refreshed()
        return [row for row in self._rows if row.damage]

    def first(self, has: Callable[[Summary], bool], most: int | None) -> list[Summary]:
        """The newest rows that are meant; of ten thousand no more are read than that takes.

        Args:
            has: Whether one is meant.
            most: So many of them; None: all.
        """
        if self._rows is None:
            try:
                with reading(self._folder / FILE, NEWEST) as rows:
                    return list(islice(filter(has, self._sure(rows, is_every=True)), most))
            except UNUSABLE:
                self._rows = self._refreshed()
        return list(islice(filter(has, sorted(self._rows, key=_newest, reverse=True)), most))

    def _sure(self, rows: Iterable[Summary], *, is_every: bool = False) -> Iterator[Summary]:
        """The same, as long as no other command has replaced the index since.

        Args:
            rows: Of the index.
            is_every: None may be missing at their end.

        Raises:
            ValueError: One has, or it is damaged.
        """
        count = 0
        for row in rows:
            if self._stamps.get(row.run_id) != row.stamp:
                raise ValueError("another index")
            count += 1
            yield row
        if is_every and count != len(self._stamps):
            raise ValueError("rows are missing")

    def _refreshed(self) -> tuple[Summary, ...]:
        """Bring the index up to date; every row."""
        try:
            with reading(self._folder / FILE) as rows_in:
                found = list(rows_in)
        except UNUSABLE:
            found = []  # corrupt, or of another version: the records tell everything again
        known = {row.run_id: row for row in found}
        rows = {
            run_id: known[run_id]
            if run_id in known and known[run_id].stamp == stamp
            else _summary(self._folder / run_id / self._name, run_id, stamp)
            for run_id, stamp in self._stamps.items()
        }
        rows = {run_id: row for run_id, row in rows.items() if row.stamp or self._is_there(run_id)}
        self._stamps = {run_id: self._stamps[run_id] for run_id in rows}
        if rows != known or len(found) != len(known):
            replace(self._folder / FILE, rows.values())
        return tuple(rows.values())

    def _is_there(self, run_id: str) -> bool:
        """Whether what could not be read is a record still."""
        return (self._folder / run_id / self._name).exists()


def _newest(row: Summary) -> tuple[float, str]:
    return row.created, row.run_id


def stamped(folder: Path, name: str) -> dict[str, str]:
    """Every run that has a record, oldest first, and what tells a change of its file.

    Each record is looked at once, and by its plain path: among ten thousand that is most of the time.

    Args:
        folder: Of the results; it may not exist.
        name: File name of a record.

    Raises:
        OSError: The folder cannot be read.
    """
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - a Path for each takes twice as long
    except FileNotFoundError:
        return {}
    home, found = os.fspath(folder), {}
    for run_id in filter(is_safe_id, names):
        try:
            seen = os.stat(f"{home}/{run_id}/{name}")  # noqa: PTH116 - likewise
        except OSError:
            continue
        if stat.S_ISREG(seen.st_mode):
            found[run_id] = f"{seen.st_mtime_ns}-{seen.st_size}-{seen.st_ino}"
    return found


def _summary(file: Path, run_id: str, stamp: str) -> Summary:
    from stoker.results.records import fromjson

    try:
        record = fromjson.loads(fromjson.text_of(file), str(file))
    except InputError as error:
        # What was only out of reach is read again the next time, by whoever may: its stamp is not remembered.
        is_content = not isinstance(error.__cause__, OSError)
        return Summary(run_id, stamp if is_content else "", damage=error.what)
    if record.run_id != run_id:
        return Summary(run_id, stamp, damage=f"holds the record of {record.run_id}")
    return _of(record, stamp)


def _of(record: Record, stamp: str) -> Summary:
    pace = record.pace
    return Summary(
        run_id=record.run_id,
        stamp=stamp,
        created=record.created,
        host=record.host,
        profile=record.profile,
        engine=record.engine,
        model=record.model,
        bench=record.bench.title,
        tok_s=pace.value if pace else None,
        verdict=record.verdict.verdict if record.verdict else "",
        change=record.verdict.change if record.verdict else None,
        simulated=record.simulated,
        contaminated=bool(record.contaminated),
        tokens=record.bench.tokens,
        concurrency=record.bench.concurrency,
        size=record.bench.size,
        measured=points.measured(record.bench),
        points=points.of(record),
    )
