"""Whatever has become of the index, a list says what the records say."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import pytest

import stoker
from stoker.results.records import fromjson, indexfile
from stoker.results.records.index import Index
from stoker.results.records.store import Look, Store
from stoker.results.records.summary import Summary
from tests.results.made import bad, good

TABLE = indexfile._TABLE


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three records, one of them damaged, and an index of them."""
    made = Store(tmp_path / "results")
    for record in (good(0), good(1), good(2), bad()):
        made.save(record)
    (made.path(good(1).run_id) / "run.json").write_text("{")
    made.look()
    return made


@pytest.fixture
def want(store: Store) -> Look:
    """What a look without an index finds."""
    (store.folder / indexfile.FILE).unlink()
    found = store.look()
    assert (len(found.found), len(found.ids), len(found.damaged)) == (3, 4, 1)
    return found


@pytest.fixture
def database(store: Store, want: Look) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(store.folder / indexfile.FILE, isolation_level=None)) as connection:
        yield connection


def is_equal(store: Store, want: Look) -> bool:
    """Now, and once more with the index that came of it."""
    return all(
        store.look() == want
        and store.look(most=2).found == want.found[:2]
        and store.look(lambda row: row.profile == "kimi-k25").found == want.found[:1]
        for _ in range(2)
    )


ONE_ROW = f"WHERE run_id = '{good(0).run_id}'"


WRONG = {
    "str": ("NULL", "7", "x'00ff'"),
    "float": ("NULL", "7", "'text'", "9e999", "-1e300"),
    "float | None": ("7", "'text'", "9e999"),
    "int": ("NULL", "7.5", "'text'", "9e999"),
    "bool": ("NULL", "7", "'text'"),
    "tuple[Point, ...]": ("NULL", "7", "'text'", "'[[1,2,3]]'", "'],['"),
}


@pytest.mark.parametrize(
    ("column", "value"), [(f.name, value) for f in fields(Summary) for value in WRONG[str(f.type)]]
)
def test_one_row_of_other_types_is_not_believed(
    store: Store, want: Look, database: sqlite3.Connection, column: str, value: str
) -> None:
    database.execute(f"UPDATE {TABLE} SET {column} = {value} {ONE_ROW}")
    assert is_equal(store, want)


@pytest.mark.parametrize(
    "harm",
    [
        f"INSERT INTO {TABLE} SELECT * FROM {TABLE}",
        f"INSERT INTO {TABLE} SELECT * FROM {TABLE} {ONE_ROW}",
        f"DELETE FROM {TABLE} {ONE_ROW}",
        f"DELETE FROM {TABLE}",
        f"DROP TABLE {TABLE}",
        f"ALTER TABLE {TABLE} DROP COLUMN verdict",
        f"UPDATE {TABLE} SET run_id = '../../etc' {ONE_ROW}",
        "DROP INDEX newest",
        f"ALTER TABLE {TABLE} RENAME TO {TABLE}_later",
    ],
)
def test_rows_that_are_missing_or_twice_are_seen(
    store: Store, want: Look, database: sqlite3.Connection, harm: str
) -> None:
    database.execute(harm)
    assert is_equal(store, want)


@pytest.mark.parametrize("size", [0, 1, 99, 4096, 5000, 8192, 12000])
def test_file_that_was_cut_is_not_believed(store: Store, want: Look, size: int) -> None:
    os.truncate(store.folder / indexfile.FILE, size)
    assert is_equal(store, want)


@pytest.mark.parametrize("page", [0, 1, 2, 3])
def test_page_of_noise_is_not_believed(store: Store, want: Look, page: int) -> None:
    file = store.folder / indexfile.FILE
    data = bytearray(file.read_bytes())
    data[page * 4096 + 100 : page * 4096 + 2000] = os.urandom(1900)
    file.write_bytes(data)
    assert is_equal(store, want)


@pytest.mark.parametrize("mode", ["EXCLUSIVE", "IMMEDIATE"])
def test_lock_of_another_program_is_not_waited_for(
    store: Store, want: Look, database: sqlite3.Connection, mode: str
) -> None:
    database.execute(f"BEGIN {mode}")
    begun = time.monotonic()
    assert is_equal(store, want)
    assert time.monotonic() - begun < 8.0


@pytest.mark.parametrize("kind", ["link", "dangling", "loop", "pipe"])
def test_what_is_no_file_in_its_place_is_replaced_or_read_past(
    store: Store, want: Look, tmp_path: Path, kind: str
) -> None:
    file, elsewhere = store.folder / indexfile.FILE, tmp_path / "elsewhere"
    if kind == "link":
        file.rename(elsewhere)
    else:
        file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(file if kind == "loop" else elsewhere)
    assert is_equal(store, want)


def test_journal_that_another_program_left_is_not_played_back(
    store: Store, want: Look, database: sqlite3.Connection
) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"DELETE FROM {TABLE}")
    before = (store.folder / indexfile.FILE).stat().st_ino
    assert is_equal(store, want)
    assert (store.folder / indexfile.FILE).stat().st_ino == before


def test_record_that_was_out_of_reach_for_a_while_is_read_again(
    store: Store, want: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.open
    victim = store.path(good(0).run_id) / "run.json"

    def fails(self: Path, *args: object, **more: object) -> object:
        if self == victim:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(self))
        return real(self, *args, **more)  # type: ignore[call-overload]

    (store.folder / indexfile.FILE).unlink()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", fails)
        assert [one.path for one in store.look().damaged if one.path == str(victim)]
    assert is_equal(store, want)


def test_damage_that_another_version_saw_is_looked_at_again(
    store: Store, want: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexfile, "_TABLE", TABLE + "_earlier")
    with monkeypatch.context() as patched:
        patched.setattr(fromjson, "text_of", lambda file: "{")
        (store.folder / indexfile.FILE).unlink()
        assert len(store.look().damaged) == 4
    monkeypatch.setattr(indexfile, "_TABLE", TABLE)
    assert is_equal(store, want)
    assert TABLE.endswith("_" + stoker.__version__.replace(".", "_").replace("+", "_"))


def test_record_that_goes_while_the_list_is_made_is_no_damage(store: Store, want: Look) -> None:
    (store.folder / indexfile.FILE).unlink()
    real = fromjson.text_of
    gone = store.path(good(2).run_id)

    def vanishes(file: Path) -> str:
        shutil.rmtree(gone, ignore_errors=True)
        return real(file)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fromjson, "text_of", vanishes)
        seen = store.look()
    assert len(seen.damaged) == 1
    assert good(2).run_id not in seen.ids


def test_index_that_is_replaced_after_it_was_judged_is_noticed(store: Store, want: Look) -> None:
    seen = Index(store.folder, "run.json")
    with closing(sqlite3.connect(store.folder / indexfile.FILE)) as connection, connection:
        connection.execute(f"DELETE FROM {TABLE} {ONE_ROW}")
    assert len(seen.first(lambda _: True, None)) == len(want.ids)


def test_folder_of_a_record_may_be_a_link(store: Store, want: Look, tmp_path: Path) -> None:
    home = store.path(good(0).run_id)
    home.rename(tmp_path / "moved")
    home.symlink_to(tmp_path / "moved")
    assert is_equal(store, want)
