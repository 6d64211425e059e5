"""The index beside the records: a cache in SQLite, rebuilt whenever it is missing, stale or corrupt."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError
from stoker.results import points
from stoker.results.identity import SCHEMA, is_safe_id
from stoker.results.points import Point

if TYPE_CHECKING:
    from stoker.results.record import Record

FILE = ".index.sqlite"
_PATIENCE_S = 10.0
_NEWEST = "ORDER BY created DESC, run_id DESC"
_AT_ONCE = 500  # rows
_UNUSABLE = (sqlite3.Error, TypeError, ValueError)


@dataclass(frozen=True)
class Summary:
    """What a list shows of a record.

    Args:
        run_id: Its id.
        stamp: Of the file, to see a change.
        created: Unix time.
        host: The inventory's name.
        profile: Empty for a server that was started by hand.
        engine: The engine's name.
        model: As the server reported it.
        bench: The benchmark with its parameters, for people.
        tok_s: Tokens a second, as they are judged; None where no run was valid.
        verdict: As judged when it was made; empty before.
        change: Against the baseline then; None without one.
        simulated: Whether anything of it was pretended.
        contaminated: Whether something disturbed it.
        damage: Why the record cannot be read; empty where it can.
        tokens: Of each request of ``decode``.
        concurrency: Requests at once; 0 where they came at a rate.
        size: What was asked and how much at once, for people: ``500×32``, ``512+128 4/s``.
        measured: What was measured, without how often: one for each series of a history.
        points: The launches that have a valid run.
    """

    run_id: str
    stamp: str
    created: float = 0.0
    host: str = ""
    profile: str = ""
    engine: str = ""
    model: str = ""
    bench: str = ""
    tok_s: float | None = None
    verdict: str = ""
    change: float | None = None
    simulated: bool = False
    contaminated: bool = False
    damage: str = ""
    tokens: int = 0
    concurrency: int = 0
    size: str = ""
    measured: str = ""
    points: tuple[Point, ...] = ()


_COLUMNS = [f.name for f in fields(Summary)]
_KINDS = tuple((_COLUMNS.index(n), kind) for n, kind in (("run_id", str), ("stamp", str), ("created", float)))
_FLAGS = tuple(_COLUMNS.index(name) for name in ("simulated", "contaminated"))
# The version of the layout is in the table's name: another version's table is as good as none.
_TABLE = f"runs_{SCHEMA}_{len(_COLUMNS)}"


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
        self._rows = None if _stamps_in(folder / FILE) == self._stamps else self._refreshed()

    @property
    def ids(self) -> tuple[str, ...]:
        """Every run that has a record, oldest first."""
        return tuple(self._stamps)

    @property
    def damaged(self) -> list[Summary]:
        """The rows of what cannot be read, oldest first."""
        if self._rows is None:
            try:
                with _reading(self._folder / FILE, "WHERE damage != ''") as rows:
                    return list(self._sure(rows))
            except _UNUSABLE:
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
                with _reading(self._folder / FILE, _NEWEST) as rows:
                    return list(islice(filter(has, self._sure(rows)), most))
            except _UNUSABLE:
                self._rows = self._refreshed()
        return list(islice(filter(has, sorted(self._rows, key=_newest, reverse=True)), most))

    def _sure(self, rows: Iterable[Summary]) -> Iterator[Summary]:
        """The same, as long as no other command has replaced the index since.

        Raises:
            ValueError: One has.
        """
        for row in rows:
            if self._stamps.get(row.run_id) != row.stamp:
                raise ValueError("another index")
            yield row

    def _refreshed(self) -> tuple[Summary, ...]:
        """Bring the index up to date; every row."""
        try:
            with _reading(self._folder / FILE) as found:
                known = {row.run_id: row for row in found}
        except _UNUSABLE:
            known = {}  # corrupt, or of another version: the records tell everything again
        rows = {
            run_id: known[run_id]
            if run_id in known and known[run_id].stamp == stamp
            else _summary(self._folder / run_id / self._name, run_id, stamp)
            for run_id, stamp in self._stamps.items()
        }
        if rows != known:
            _replace(self._folder / FILE, rows.values())
        return tuple(rows.values())


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
    from stoker.results import fromjson  # a list whose index is up to date reads no record

    try:
        record = fromjson.loads(fromjson.text_of(file), str(file))
    except InputError as error:
        return Summary(run_id, stamp, damage=error.what)
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


def _stamps_in(file: Path) -> dict[str, str]:
    """What the index knows of each file; nothing where there is none that can be used."""
    if not file.is_file():
        return {}
    try:
        with _open(f"{file.resolve().as_uri()}?mode=ro", uri=True) as connection:
            return dict(connection.execute(f"SELECT run_id, stamp FROM {_TABLE}"))  # noqa: S608
    except sqlite3.Error:
        return {}


@contextlib.contextmanager
def _reading(file: Path, order: str = "") -> Iterator[Iterator[Summary]]:
    """The rows of the index, a piece at a time; none where there is no index.

    Raises:
        sqlite3.Error, TypeError, ValueError: It cannot be used.
    """
    if not file.is_file():
        yield iter(())
        return
    with _open(f"{file.resolve().as_uri()}?mode=ro", uri=True) as connection:
        found = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM {_TABLE} {order}")  # noqa: S608
        yield chain.from_iterable(map(_summaries, iter(lambda: found.fetchmany(_AT_ONCE), [])))


def _summaries(rows: list[tuple[Any, ...]]) -> list[Summary]:
    """Column by column: among ten thousand rows a loop over each one's values is most of a list's time.

    Raises:
        TypeError, ValueError: It is not what we wrote.
    """
    if not rows:
        return []
    columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    if any(set(map(type, columns[at])) != {kind} for at, kind in _KINDS):
        raise TypeError("not what we wrote")
    for at in _FLAGS:
        columns[at] = list(map(bool, columns[at]))
    columns[-1] = points.loads(columns[-1])
    return list(map(Summary, *columns))


def _replace(file: Path, rows: Iterable[Summary]) -> None:
    """Write a whole new index and rename it into place: commands beside us see the old one or the new."""
    draft = file.with_name(f"{FILE}.{secrets.token_hex(4)}.new")
    marks = ", ".join("?" * len(_COLUMNS))
    try:
        with _open(str(draft)) as connection, connection:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute(f"CREATE TABLE {_TABLE} ({', '.join(_COLUMNS)})")
            connection.execute(f"CREATE INDEX newest ON {_TABLE} (created, run_id)")
            connection.executemany(f"INSERT INTO {_TABLE} VALUES ({marks})", map(_values, rows))  # noqa: S608
        draft.replace(file)
    except (sqlite3.Error, OSError):
        pass  # a folder that cannot be written is read without an index
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _values(row: Summary) -> tuple[Any, ...]:
    return (*(getattr(row, name) for name in _COLUMNS[:-1]), points.dumps(row.points))


@contextlib.contextmanager
def _open(path: str, *, uri: bool = False) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, timeout=_PATIENCE_S, uri=uri)
    try:
        yield connection
    finally:
        connection.close()
