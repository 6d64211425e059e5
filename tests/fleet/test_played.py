"""What a report says of runbooks: read from the journals that their runs leave."""

from __future__ import annotations

from pathlib import Path

from stoker.fleet.books import played
from stoker.results.history import series
from stoker.results.report.build import build
from stoker.results.report.gather import Material
from stoker.results.report.page import render
from stoker.results.report.played import Played, PlayedHost
from tests.fleet.conftest import Books
from tests.results.test_report import NOW, rows

BOOK = """\
- hosts: a,b
  tasks:
    - {name: first, command: 'true'}
    - {name: second, command: 'true', when: false}
    - {name: '<third>', shell: "test -e FLAG-{{ inventory_hostname }}"}
    - {name: last, debug: {msg: x}}
"""


def test_the_last_run_of_a_runbook_is_told_host_by_host(books: Books, tmp_path: Path) -> None:
    book = BOOK.replace("FLAG", str(tmp_path / "flag"))
    (tmp_path / "flag-a").touch()
    books.folder.write("playbooks/book.yml", book)
    assert books.folder.inv("play", "book").code == 3
    (one,) = played.read(books.folder.root)
    assert (one.book, one.code) == ("playbooks/book.yml", 3)
    told = {host.host: host for host in one.hosts}
    assert told["a"].counts == {"changed": 2, "skipped": 1, "ok": 1}
    assert told["a"].stopped == ""
    assert told["b"].counts == {"changed": 1, "skipped": 1, "failed": 1}
    assert told["b"].stopped == "playbooks/book.yml:5: <third>"

    (tmp_path / "flag-b").touch()
    assert books.folder.inv("play", "book", "--resume").code == 0
    (one,) = played.read(books.folder.root)
    assert one.code == 0
    assert {host.host: dict(host.counts) for host in one.hosts}["b"] == {"changed": 2, "skipped": 1, "ok": 1}

    assert [host.host for one in played.read(books.folder.root, hosts=("b",)) for host in one.hosts] == ["b"]
    assert played.read(books.folder.root, since=one.began + 1) == ()


def test_a_journal_that_is_cut_off_or_damaged_spoils_no_report(tmp_path: Path) -> None:
    folder = tmp_path / ".stoker" / "plays"
    folder.mkdir(parents=True)
    step = '{"host": "a", "step": "s", "at": "b.yml:1", "name": "n", "status": "ok", "finished": true}'
    (folder / "cut-0.jsonl").write_text(f'{{"run": {{}}, "at_s": 5.0}}\n{step}\n{{"host": "a", "st')
    (folder / "bad-1.jsonl").write_text('[1]\nx\n{"at_s": "y"}\n')
    (folder / "empty-2.jsonl").write_text("")
    (one,) = played.read(tmp_path)
    assert (one.book, one.code, one.hosts[0].counts) == ("cut", None, {"ok": 1})


def test_the_page_has_a_chapter_of_runbooks_and_escapes_what_they_say() -> None:
    host = PlayedHost("n1", {"ok": 3, "failed": 1}, "b.yml:5: <third>")
    ended = Played("b.yml", NOW - 60, 3, (host,))
    killed = Played("c.yml", NOW, None, ())
    page = render(build(Material(series(rows(3)), {}, {}, (), plays=(ended, killed)), project="p", now=NOW))
    assert page.index("c.yml") < page.index("b.yml")
    for words in ("Runbooks", "a host failed", "it was killed, or still runs", "b.yml:5: &lt;third&gt;"):
        assert words in page
