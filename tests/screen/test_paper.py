"""What no terminal reads is written without Rich, and reads as Rich would have written it."""

from __future__ import annotations

import io
import os
import threading

import pytest
from rich.console import Console

from stoker.screen.grid import Grid, table_of
from stoker.screen.paper import Paper, console_of
from stoker.screen.shapes import joined, line_of

LINES = (
    line_of(["plain ", ("styled", "bold red"), " [not markup] 中文 ✓"]),
    line_of(["a\tb\tccccccccc\td"]),
    line_of(["x" * 300]),
    line_of([""]),
    line_of(["ends in blanks   "]),
    joined([line_of([("host  ", "bold"), "one\ttab"]), line_of(["two"])]),
)


@pytest.mark.parametrize("line", LINES)
def test_a_line_reads_as_rich_would_have_written_it(line: object) -> None:
    ours, theirs = io.StringIO(), io.StringIO()
    Paper(ours).print(line)  # type: ignore[arg-type]
    Console(file=theirs, highlight=False, soft_wrap=True).print(line)
    assert ours.getvalue() == theirs.getvalue()


PLAIN = (
    table_of(("name", "n>", "last"), [("a", 1, "x"), (("longer than that", "green"), None, "")]),
    table_of(("", "copied!"), [("✓ → ±", "y" * 40)]),
    table_of(("only a head", "n>"), []),
)
RICHS = (
    table_of(("a", "b"), [("x" * 60, "y " * 40)]),
    table_of(("a", "b"), [("中文", "[bold]no markup[/bold]")]),
    table_of(("a",), [("one\ttab",)]),
    table_of(("a", "b"), [("1", "2")], "A title"),
)


@pytest.mark.parametrize("table", PLAIN + RICHS)
def test_a_table_reads_as_rich_would_have_written_it(table: Grid) -> None:
    ours, theirs = io.StringIO(), io.StringIO()
    Paper(ours).print(table)
    Console(file=theirs, highlight=False, soft_wrap=True).print(table)
    assert ours.getvalue() == theirs.getvalue() != ""
    assert (table.plain(80) is not None) == (table in PLAIN)


def test_the_width_is_richs(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("133", "", "many"):
        monkeypatch.setenv("COLUMNS", columns)
        assert Paper(io.StringIO()).width == Console(file=io.StringIO()).width


@pytest.mark.parametrize("name, value", [("FORCE_COLOR", "1"), ("TTY_COMPATIBLE", "1")])
def test_who_asks_for_styles_gets_them(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(console_of(io.StringIO()), Paper)
    monkeypatch.setenv(name, value)
    assert isinstance(console_of(io.StringIO()), Console)


def test_a_reader_that_has_gone_ends_the_command_and_no_hosts_work() -> None:
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    with os.fdopen(write_fd, "w") as file:
        paper = Paper(file)
        raised: list[BaseException] = []

        def work() -> None:
            try:
                paper.print(line_of(["one"]))
            except BaseException as error:
                raised.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        assert not raised
        with pytest.raises(BrokenPipeError):
            paper.print(line_of(["two"]))
        with open(os.devnull, "w") as null:  # what is left in its buffer must go somewhere
            os.dup2(null.fileno(), file.fileno())


@pytest.mark.parametrize(
    "title", ["\x1b]0;owned\x07\x1b[31mred", "\u202emodel", "[dim]gone[/dim]", "m[/b]", "\u061c\U000e0041x"]
)
def test_a_tables_title_is_cleaned_and_no_markup(title: str) -> None:
    written = io.StringIO()
    Paper(written).print(table_of(("a", "b"), [("1", "2")], title))
    text = written.getvalue()
    assert not set("\x1b\u202e\u061c\U000e0041") & set(text)
    assert "[dim]gone[/dim]" in text or "[dim]" not in title
