"""The store: atomic, findable, and never stopped by one damaged record or a lost index."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker.errors import InputError
from stoker.results.records import index, indexfile
from stoker.results.records.record import Record
from stoker.results.records.store import Store
from tests.results.made import bad, good


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def filled(store: Store) -> list[Record]:
    made = [good(0), good(1), bad()]
    for record in made:
        store.save(record)
    return made


def test_what_was_saved_is_loaded(store: Store) -> None:
    path = store.save(good())
    assert path == store.folder / good().run_id / "run.json"
    assert store.load(good().run_id) == good()


def test_saving_again_replaces_the_record_and_keeps_what_was_pulled(store: Store) -> None:
    store.save(good())
    pulled = store.path(good().run_id) / "server.log"
    pulled.write_text("log")
    store.save(bad(run_id=good().run_id))
    assert store.load(good().run_id).profile == "kimi-k25"
    assert pulled.read_text() == "log"
    assert sorted(p.name for p in store.folder.iterdir()) == [good().run_id]


def test_a_run_is_found_by_a_unique_beginning_or_end(store: Store) -> None:
    first, _, third = filled(store)
    assert store.load("20260101").run_id == first.run_id
    assert store.load("ffff") == third


def test_an_ambiguous_part_names_the_choices(store: Store) -> None:
    filled(store)
    with pytest.raises(InputError, match="2 runs") as caught:
        store.load("2026010")
    assert good(1).run_id in caught.value.next_step


def test_an_unknown_run_names_the_nearest(store: Store) -> None:
    filled(store)
    with pytest.raises(InputError, match="there is no run") as caught:
        store.load("20260201-120000-node174-kimi-k25-fffe")
    assert bad().run_id in caught.value.next_step


@pytest.mark.parametrize("text", ["", "..", "../x", "/etc", "a\0b"])
def test_what_is_no_id_finds_nothing_and_reaches_no_path(store: Store, text: str) -> None:
    filled(store)
    with pytest.raises(InputError):
        store.load(text)


def test_the_list_is_newest_first_and_filtered(store: Store) -> None:
    first, second, third = filled(store)
    assert [row.run_id for row in store.list()] == [third.run_id, second.run_id, first.run_id]
    assert [row.run_id for row in store.list(profile="nccl-tuned", last=1)] == [second.run_id]
    assert store.list(host="nowhere") == ()
    row = store.list(last=1)[0]
    assert (row.host, row.profile, row.engine, row.simulated) == ("node174", "kimi-k25", "sglang", False)
    assert row.tok_s == pytest.approx(62.9, abs=0.05)


def test_an_empty_or_absent_folder_is_an_empty_list(store: Store) -> None:
    assert store.list() == ()
    store.folder.mkdir()
    assert store.list() == ()
    assert not (store.folder / indexfile.FILE).exists()


def test_a_damaged_record_is_named_and_the_others_are_listed(store: Store) -> None:
    first, second, third = filled(store)
    (store.path(second.run_id) / "run.json").write_text('{"schema": 1, "run_id": "x"')
    assert [row.run_id for row in store.list()] == [third.run_id, first.run_id]
    damaged = store.damaged()
    assert [entry.path for entry in damaged] == [str(store.path(second.run_id) / "run.json")]
    assert "is no JSON" in damaged[0].what


def test_a_record_of_a_newer_version_is_named_as_such(store: Store) -> None:
    store.save(good())
    data = {**good().to_json(), "schema": 99}
    (store.path(good().run_id) / "run.json").write_text(json.dumps(data))
    assert "newer Stoker" in store.damaged()[0].what


def test_a_record_in_anothers_folder_is_damage(store: Store) -> None:
    store.save(good(0))
    store.path(good(0).run_id).rename(store.folder / "20990101-000000-a-b-0000")
    assert "holds the record of" in store.damaged()[0].what


def test_folders_without_a_record_are_no_runs(store: Store) -> None:
    filled(store)
    (store.folder / "fetched-node174").mkdir()
    (store.folder / ".20260101.abcd.new").mkdir()
    assert len(store.list()) == 3
    assert store.damaged() == ()


@pytest.mark.parametrize("harm", ["missing", "empty", "noise", "other-table", "other-types", "folder"])
def test_the_index_is_rebuilt_whatever_has_become_of_it(store: Store, harm: str) -> None:
    filled(store)
    want = store.list()
    file = store.folder / indexfile.FILE
    file.unlink()
    if harm == "empty":
        file.write_bytes(b"")
    elif harm == "noise":
        file.write_bytes(os.urandom(8192))
    elif harm == "other-table":
        with sqlite3.connect(file) as connection:
            connection.execute("CREATE TABLE runs (x)")
    elif harm == "other-types":
        with sqlite3.connect(file) as connection:
            connection.execute(f"CREATE TABLE {indexfile._TABLE} ({', '.join(indexfile._COLUMNS)})")
            connection.execute(
                f"INSERT INTO {indexfile._TABLE} VALUES ({', '.join('7' * len(indexfile._COLUMNS))})"
            )
    elif harm == "folder":
        file.mkdir()
    assert store.list() == want


def test_the_index_follows_what_changes_behind_its_back(store: Store) -> None:
    filled(store)
    store.list()
    gone = store.path(good(0).run_id)
    (gone / "run.json").unlink()
    gone.rmdir()
    Store(store.folder).save(good(2))
    assert [row.run_id for row in store.list()] == [bad().run_id, good(2).run_id, good(1).run_id]


def test_a_fresh_index_is_used_without_reading_the_records(store: Store) -> None:
    filled(store)
    store.list()
    before = (store.folder / indexfile.FILE).stat()
    reading: list[Path] = []
    original = Path.read_text
    try:
        Path.read_text = lambda self, *a, **k: (reading.append(self), original(self, *a, **k))[1]  # type: ignore
        assert len(store.list()) == 3
    finally:
        Path.read_text = original  # type: ignore[method-assign]
    assert reading == []
    assert (store.folder / indexfile.FILE).stat().st_ino == before.st_ino, (
        "nothing changed, nothing is written"
    )


def test_many_at_once_save_and_list(store: Store) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                store.save(good(number % 3, engine_version=f"{number}.{turn}"))
                assert store.list()
                assert store.damaged() == ()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.list()) == 3
    assert not [p for p in store.folder.iterdir() if p.name.endswith(".new")]


def test_a_folder_that_cannot_be_written_is_still_read(store: Store) -> None:
    filled(store)
    # A folder in the index's place stands for it: root may write anywhere.
    (store.folder / indexfile.FILE).unlink(missing_ok=True)
    (store.folder / indexfile.FILE).mkdir()
    assert len(store.list()) == 3


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        Store(tmp_path / "file").save(good())


def test_one_look_shows_the_list_and_what_is_damaged(store: Store) -> None:
    store.save(good(0))
    store.save(bad())
    (store.path(good(0).run_id) / "run.json").write_text("{")
    look = store.look()
    assert look.found == store.list()
    assert [row.run_id for row in look.found] == [bad().run_id]
    assert look.ids == (good(0).run_id, bad().run_id)
    assert look.damaged == store.damaged()
    assert good(0).run_id in look.damaged[0].path


@pytest.mark.parametrize("is_fresh", [False, True])
def test_of_many_runs_the_newest_that_are_meant_are_found(store: Store, is_fresh: bool) -> None:
    first, second, third = filled(store)
    if is_fresh:
        store.list()
    assert [row.run_id for row in store.look(most=1).found] == [third.run_id]
    old = store.look(lambda row: row.run_id != third.run_id, 1)
    assert [row.run_id for row in old.found] == [second.run_id]
    assert old.ids == (first.run_id, second.run_id, third.run_id)
    assert store.look(lambda row: False).found == ()


def test_what_another_command_writes_meanwhile_does_not_mix_with_what_was_seen(store: Store) -> None:
    filled(store)
    store.list()
    seen = index.Index(store.folder, "run.json")
    store.save(good(2))
    shutil.rmtree(store.path(bad().run_id))
    Store(store.folder).list()
    assert {row.run_id for row in seen.first(lambda _: True, None)} <= set(seen.ids)
    assert seen.damaged == [] or seen.damaged[0].run_id == bad().run_id


def test_room_is_looked_for_by_many_hosts_at_once(tmp_path: Path) -> None:
    """Each takes its own draft away again, and none stumbles over another's."""
    store = Store(tmp_path / "results")

    def look() -> None:
        for _ in range(40):
            store.check_room()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(look) for _ in range(8)]:
            done.result()
    assert not list(store.folder.iterdir())
