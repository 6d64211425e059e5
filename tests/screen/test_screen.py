"""What people see: nothing that a host says moves the cursor, forges a line or is read as markup."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from stoker.errors import ConfigError, HostFailed, InputError, Problem
from stoker.screen import Board, Screen, clean

EVIL = "\x1b[2J\x1b]0;owned\x07red\x9b31m\rover\n✓ forged\u202e\x08"
SHOWN = "redover⏎✓ forged"


def test_a_line_shows_no_escape_and_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().say(EVIL, (EVIL, "bold"))
    assert capsys.readouterr().out == SHOWN * 2 + "\n"


def test_a_text_is_shown_as_its_lines_whole_and_clean(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 5000
    Screen().text(f"set -e\n\x1b[31m{long}\n\n[bold]")
    assert capsys.readouterr().out == f"set -e\n{long}\n\n[bold]\n"


def test_tables_and_errors_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.table(("a",), [(EVIL,), ((EVIL, "bold"),)])
    screen.error(HostFailed(EVIL, host=EVIL, kind="io", evidence=[EVIL], next_step=EVIL))
    screen.error(ConfigError([Problem(EVIL, 1, EVIL, EVIL)]))
    screen.trace("Traceback\n" + EVIL.replace("\n", ""))
    out, err = capsys.readouterr()
    assert out.count(SHOWN) == 2
    assert err.count(SHOWN) == 7
    assert not set("\x1b\x9b\x07\r\x08\u202e") & set(out + err)
    assert len(err.splitlines()) == 6


@pytest.mark.parametrize(
    "event",
    [
        {"type": "step", "name": EVIL, "state": "end", "seconds": float("nan"), "detail": EVIL},
        {"type": "step", "name": EVIL, "state": "begin"},
        {"type": "stage", "name": EVIL, "fraction": float("inf"), "text": EVIL, "elapsed_s": "soon"},
        {"type": "run", "index": 10**400, "of": float("inf"), "tok_s": True, "warmup": 0},
        {"type": "log", "text": EVIL},
        {"type": "output", "text": EVIL, "stream": EVIL},
        {"type": "activity", "name": EVIL},
        {"type": "init__", "name": EVIL},
        {"type": "console", "name": EVIL},
        {"type": ["line"]},
        {},
    ],
)
def test_an_event_of_any_kind_is_shown_clean_or_not_at_all(event: dict[str, Any]) -> None:
    told = io.StringIO()
    with Board(Console(file=told, width=200), 2) as board:
        board.event("h1", event)
        board.line("h1", (EVIL, "bold"))
    assert not set("\x1b\x9b\x07\r\x08\u202e") & set(told.getvalue())
    assert all(line.startswith("h1  ") for line in told.getvalue().splitlines())


def test_a_bar_shows_the_activity_and_reads_no_markup() -> None:
    told = io.StringIO()
    with Board(Console(file=told, width=200, force_terminal=True, force_interactive=True), 2) as board:
        board.event("h1", {"type": "activity", "name": "connecting"})
        board.event("h[/2]", {"type": "stage", "name": "[/bold]", "fraction": 0.5, "text": "[red]hot[/blue]"})
    assert "connecting" in told.getvalue()
    assert "[/bold]" in told.getvalue()
    assert "[red]hot[/blue]" in told.getvalue()


def test_clean_keeps_tabs_and_says_where_it_cut() -> None:
    assert clean("a\tb\nc") == "a\tb\nc"
    assert clean("x" * 11, 10) == "x" * 9 + "…"


def test_a_host_that_does_nothing_has_no_bar() -> None:
    told = io.StringIO()
    with Board(Console(file=told, width=100, force_terminal=True, force_interactive=True), 2) as board:
        bars = board._bars
        assert bars is not None
        for host in ("a", "b"):
            board.event(host, {"type": "activity", "name": "restart"})
        board.rest("a")
        board.rest("nobody")
        assert [task.fields["host"].strip() for task in bars.tasks] == ["b"]
        board.event("a", {"type": "activity", "name": "bench"})
        assert [task.description for task in bars.tasks] == ["restart", "bench"]


def test_a_terminal_without_our_signs_gets_others() -> None:
    """A real interpreter: what its streams can say is settled when it starts."""
    code = (
        "from stoker.screen import Screen; screen = Screen(); screen.say('✓ 3 × 5 → € …');"
        "screen.table(('run!', 'a>'), [('é', '│')])"
    )
    env = {**os.environ, "LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "+ 3 x 5 > ? ~"


def test_headings_do_not_stand_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Screen().table(("run", "host"), [], title="bench-all")
    assert capsys.readouterr() == ("", "")


def test_what_is_copied_stays_on_one_line() -> None:
    out = io.StringIO()
    screen = Screen()
    screen.console = Console(file=out, width=60)
    run = "20260101-120000-node174-nccl-tuned-0a1b"
    screen.table(("run!", "host", "profile"), [(run, "node174.example.org", "a-long-profile-name")])
    assert any(run in line for line in out.getvalue().splitlines())


def shown_of(*events: tuple[str, str, str]) -> list[str]:
    """What a board shows of pieces of output: (host, stream, text) each."""
    told = io.StringIO()
    with Board(Console(file=told, width=200, soft_wrap=True), 2) as board:
        for host, stream, text in events:
            board.event(host, {"type": "output", "stream": stream, "text": text})
    return told.getvalue().splitlines()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_output_is_shown_in_its_own_lines_wherever_reads_meet(size: int) -> None:
    text = "one\r\ntwo \x1b[31mred\x1b[0m\n\n 10%\r 20%\r\r 30%\rdone\nlast"
    pieces = [("h1", "stdout", text[at : at + size]) for at in range(0, len(text), size)]
    assert shown_of(*pieces) == ["h1  one", "h1  two red", "h1  ", "h1  done", "h1  last"]


def test_output_of_two_hosts_and_streams_is_not_mixed_within_a_line() -> None:
    shown = shown_of(
        ("h1", "stdout", "a"), ("h2", "stdout", "b"), ("h1", "stderr", "c"), ("h1", "stdout", "d\n")
    )
    assert sorted(shown) == ["h1  ad", "h1  c", "h2  b"]


def test_a_giant_line_is_cut_with_a_mark_and_what_follows_is_whole() -> None:
    shown = shown_of(*[("h1", "stdout", "x" * 9000)] * 50, ("h1", "stdout", "y\nnext\n"))
    assert [len(line) for line in shown] == [4 + 20_000, 4 + 4]
    assert shown[0].endswith("x…")


def test_an_unfinished_line_is_shown_while_the_command_waits() -> None:
    seen = threading.Event()

    class Told(io.StringIO):
        def write(self, text: str) -> int:
            if "Password:" in text:
                seen.set()
            return super().write(text)

    told = Told()
    with Board(Console(file=told, width=200), 2) as board:
        board.event("h1", {"type": "output", "stream": "stdout", "text": "Password:"})
        assert seen.wait(20)
        board.event("h1", {"type": "output", "stream": "stdout", "text": "\nok\n"})
    assert told.getvalue().splitlines() == ["h1  Password:", "h1  ok"]


def test_much_output_in_small_pieces_takes_time_in_proportion() -> None:
    pieces = [("h1", "stdout", f"{number}\n{number}") for number in range(6_000)]
    begin = time.process_time()
    assert len(shown_of(*pieces)) == 6_001
    assert time.process_time() - begin < 15


def _on_terminal(columns: int, tell: Callable[[Screen], None]) -> list[str]:
    """The rows that a terminal of so many columns gets."""
    screen = Screen()
    file = io.StringIO()
    screen.console = screen.errors = Console(file=file, force_terminal=True, color_system=None, width=columns)
    tell(screen)
    return [
        row for row in re.sub(r"\x1b\[\??[0-9]*[a-zA-Z]", "", file.getvalue()).splitlines() if row.strip()
    ]


def test_a_line_that_does_not_fit_goes_on_behind_the_hosts_name() -> None:
    def tell(screen: Screen) -> None:
        with screen.board(["node174"]) as board:
            board.line(
                "node174", "  end  1498 root GPU 0 87241 MiB  sglang::scheduler_TP0  (launched by Stoker)"
            )
            board.event("node174", {"type": "note", "text": "x" * 70})

    rows = [row.rstrip() for row in _on_terminal(60, tell)]
    assert rows == [
        "node174    end  1498 root GPU 0 87241 MiB",
        "             sglang::scheduler_TP0  (launched by Stoker)",
        "node174",
        "           " + "x" * 49,
        "           " + "x" * 21,
    ]


@pytest.mark.parametrize("columns", [2, 5, 20, 21, 40])
def test_folding_loses_nothing_on_any_terminal(columns: int) -> None:
    said = "  loss 28.3 %,\tthreshold 世界世界 4.4 %; /a/long/path/that/has/no/blank 12"
    rows = _on_terminal(columns, lambda screen: screen.say(said, ("bold words", "bold")))
    kept = "".join("".join(rows).split())
    assert kept == "".join((said + "bold words").split())


def test_what_is_copied_from_a_terminal_is_whole() -> None:
    """A script, a log and the next command are folded by the terminal, not by us."""
    command = "inv restart --inventory .lab/inventory --host node174 --profile nccl-tuned"

    def tell(screen: Screen) -> None:
        screen.text(f"# {command}\n")
        screen.quote(command)
        screen.error(InputError("no", next_step=command))
        with screen.board(["node174"]) as board:
            board.event("node174", {"type": "output", "text": command + "\n"})
            board.event("node174", {"type": "log", "text": command})

    rows = _on_terminal(40, tell)
    assert [row.strip() for row in rows if command in row] == [
        f"# {command}",
        command,
        f"next: {command}",
        f"node174  {command}",
        f"node174  {command}",
    ]
