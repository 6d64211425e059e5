"""Following a log that a server writes."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.agent.logfiles import logtail
from stoker.agent.logfiles.logtail import LogTail, Recent


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_only_whole_lines_are_read_and_the_rest_later(log: Path) -> None:
    tail = LogTail(str(log))
    assert tail.read() == []  # it does not exist yet
    append(log, b"one\ntw")
    assert tail.read() == ["one"]
    assert tail.partial() == "tw"
    append(log, b"o\n\nthree")
    assert tail.read() == ["two"]
    assert tail.finish() == ["three"]
    assert tail.finish() == []


def test_carriage_returns_end_lines_too(log: Path) -> None:
    append(log, b"\rLoading:   0%\rLoading:  50%\rLoading: 100%\r\ndone\r\n")
    assert LogTail(str(log)).read() == ["Loading:   0%", "Loading:  50%", "Loading: 100%", "done"]


def test_a_sign_cut_in_two_writes_stays_whole(log: Path) -> None:
    raw = "100%|██████████| 4/4\n".encode()
    tail = LogTail(str(log))
    for at in range(len(raw)):
        append(log, raw[at : at + 1])
        lines = tail.read()
    assert lines == ["100%|██████████| 4/4"]


def test_bytes_that_are_no_utf8_and_escapes(log: Path) -> None:
    append(log, b"\x1b[31mred\x1b[0m \xff\xfe\x00 \x1b]0;title\x07end\x1b[2K\n")
    assert LogTail(str(log)).read() == ["red \ufffd\ufffd end"]


def test_50_mb_without_a_line_end_take_no_memory(log: Path) -> None:
    code = """
import resource, sys
from stoker.agent.logfiles.logtail import LogTail
tail, lines, before = LogTail(sys.argv[1]), [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
while True:
    taken = tail.taken
    lines += tail.read()
    if tail.taken == taken: break
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(tail.taken, after - before, [len(line) for line in lines], len(tail.partial()))
"""
    with log.open("wb") as file:
        file.write(b"x" * 50_000_000 + b"\nend\n" + b"y" * 1_000_000)
    done = subprocess.run([sys.executable, "-c", code, log], capture_output=True, text=True, check=True)
    taken, grown_kib, rest = done.stdout.split(" ", 2)
    assert int(taken) == 51_000_005
    assert int(grown_kib) < 8192
    assert rest.split() == ["[4096,", "3]", "4096"]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0


def test_one_call_reads_a_bounded_amount(log: Path) -> None:
    log.write_bytes(b"line\n" * 1_000_000)
    tail = LogTail(str(log))
    assert len(tail.read(limit=1000)) < 100_000
    assert tail.taken < 1_000_000


def test_a_file_that_was_cut_short_is_read_anew(log: Path) -> None:
    tail = LogTail(str(log))
    append(log, b"old old old\nhalf")
    assert tail.read() == ["old old old"]
    log.write_bytes(b"new\n")
    assert tail.read() == ["new"]


def test_a_file_that_was_replaced_is_read_to_its_end_and_then_its_successor(log: Path) -> None:
    tail = LogTail(str(log))
    append(log, b"one\n")
    assert tail.read() == ["one"]
    append(log, b"two\nlast")
    log.rename(log.with_suffix(".1"))
    assert tail.read() == ["two"]
    append(log, b"three\n")
    assert tail.read() == ["last", "three"]


def test_closing_gives_the_descriptor_back(log: Path) -> None:
    append(log, b"x\n")
    before = descriptors()
    tail = LogTail(str(log))
    tail.read()
    tail.close()
    assert descriptors() == before


def test_what_eight_ranks_say_is_kept_once() -> None:
    recent = Recent(5)
    for rank in range(8):
        recent.add(f"[2025-10-16 09:06:1{rank} TP{rank}] Load weight begin. avail mem=137.29 GB")
    for pid in (19369, 19372):
        recent.add(f"(Worker_TP0 pid={pid}) INFO 11-29 11:50:15 [cpu_model_runner.py:68] Starting to load")
    assert recent.lines() == [
        "[2025-10-16 09:06:10 TP0] Load weight begin. avail mem=137.29 GB",
        "(Worker_TP0 pid=19369) INFO 11-29 11:50:15 [cpu_model_runner.py:68] Starting to load",
    ]


def test_only_the_last_lines_are_kept() -> None:
    recent = Recent(3)
    for number in range(1000):
        recent.add(f"line {number}")
    assert recent.lines() == ["line 997", "line 998", "line 999"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[2025-10-16 09:06:10 DP1 TP5 EP5] Load weight begin.", "Load weight begin."),
        ("[2025-10-16 09:06:10] server_args=", "server_args="),
        ("(EngineCore pid=1) INFO 11-29 11:50:17 [core.py:402] init engine", "init engine"),
        ("(EngineCore pid=1) Process died", "Process died"),
        ("plain", "plain"),
    ],
)
def test_a_message_is_without_time_and_rank(line: str, message: str) -> None:
    assert logtail.message(line) == message


def test_the_last_lines_of_a_large_file_are_read_from_its_end(log: Path) -> None:
    with log.open("wb") as file:
        for number in range(400_000):
            file.write(b"this is line %d\n" % number)
    began = time.perf_counter()
    assert logtail.last_lines(str(log), 2) == ["this is line 399998", "this is line 399999"]
    assert time.perf_counter() - began < 0.5
    assert logtail.last_lines(str(log), 0) == []
    assert len(logtail.last_lines(str(log), 5000)) == 5000
