"""The file of the index: SQLite, written whole and renamed into place, and never believed unchecked."""

from __future__ import annotations

import contextlib
import math
import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import stoker
from stoker.results.records import points
from stoker.results.records.identity import SCHEMA
from stoker.results.records.summary import Summary

FILE = ".index.sqlite"
UNUSABLE = (sqlite3.Error, TypeError, ValueError)
NEWEST = "ORDER BY created DESC, run_id DESC"
DAMAGED = "WHERE damage != ''"
_AT_ONCE = 500  # rows
# The file is never changed, only replaced: no lock of another program is waited for, no journal believed.
_READ_ONLY = "?mode=ro&immutable=1"
_LATEST = 250e9  # about the year 9890: what a calendar knows
_COLUMNS = [f.name for f in fields(Summary)]
_KIND: dict[str, set[type]] = {
    "str": {str},
    "int": {int},
    "bool": {int},
    "float": {float},
    "float | None": {float, type(None)},
    "tuple[Point, ...]": {str},
}
_KINDS = tuple(_KIND[str(f.type)] for f in fields(Summary))
_FLAGS = tuple(at for at, f in enumerate(fields(Summary)) if f.type == "bool")
_FLOATS = tuple(at for at, f in enumerate(fields(Summary)) if str(f.type).startswith("float"))
_CREATED = _COLUMNS.index("created")
# The versions of the layout and of what reads records are in its name: another one's is as good as none.
_TABLE = f"runs_{SCHEMA}_{len(_COLUMNS)}_" + re.sub(r"[^0-9A-Za-z]", "_", stoker.__version__)


def stamps_in(file: Path) -> dict[str, str]:
    """What the index knows of each file; nothing where there is none that can be used."""
    if not file.is_file():
        return {}
    try:
        with _open(file.resolve().as_uri() + _READ_ONLY, uri=True) as connection:
            rows = connection.execute(f"SELECT run_id, stamp FROM {_TABLE}").fetchall()  # noqa: S608
    except sqlite3.Error:
        return {}
    found = dict(rows)
    return found if len(found) == len(rows) else {}


@contextlib.contextmanager
def reading(file: Path, order: str = "") -> Iterator[Iterator[Summary]]:
    """The rows of the index, a piece at a time; none where there is no index.

    Raises:
        sqlite3.Error, TypeError, ValueError: It cannot be used.
    """
    if not file.is_file():
        yield iter(())
        return
    with _open(file.resolve().as_uri() + _READ_ONLY, uri=True) as connection:
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
    if not all(kinds.issuperset(map(type, column)) for kinds, column in zip(_KINDS, columns, strict=True)):
        raise TypeError("not what we wrote")
    if not all(0 <= created < _LATEST for created in columns[_CREATED]):
        raise ValueError("not what we wrote")
    if not all(map(math.isfinite, chain.from_iterable(filter(None, columns[at]) for at in _FLOATS))):
        raise ValueError("not what we wrote")
    for at in _FLAGS:
        if not {0, 1}.issuperset(columns[at]):
            raise ValueError("not what we wrote")
        columns[at] = list(map(bool, columns[at]))
    columns[-1] = points.loads(columns[-1])
    return list(map(Summary, *columns))


def replace(file: Path, rows: Iterable[Summary]) -> None:
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
    connection = sqlite3.connect(path, uri=uri)
    try:
        yield connection
    finally:
        connection.close()
