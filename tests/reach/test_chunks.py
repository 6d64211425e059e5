"""What a channel keeps until it is read: nothing lost, nothing twice, and a flag that is right."""

import threading

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramiko.buffered_pipe import PipeTimeout

from stoker.reach.chunks import Chunks


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 50), min_size=1))
def test_what_is_fed_is_read_in_order_and_once_whatever_the_pieces(
    fed: list[bytes], sizes: list[int]
) -> None:
    chunks = Chunks()
    for piece in fed:
        chunks.feed(piece)
    chunks.close()
    read, turn = [], 0
    while data := chunks.read(sizes[turn % len(sizes)]):
        assert len(data) <= sizes[turn % len(sizes)]
        read.append(data)
        turn += 1
    assert b"".join(read) == b"".join(fed)
    assert len(chunks) == 0


def test_whole_pieces_come_together_as_far_as_they_fit() -> None:
    chunks = Chunks()
    for piece in (b"ab", b"cd", b"efgh"):
        chunks.feed(piece)
    assert [chunks.read(5), chunks.read(5)] == [b"abcd", b"efgh"]


def test_a_piece_that_is_too_long_is_cut() -> None:
    chunks = Chunks()
    chunks.feed(b"abcdef")
    assert (chunks.read(4), len(chunks), chunks.read(4)) == (b"abcd", 2, b"ef")


def test_nothing_in_time_is_a_timeout_and_the_end_is_not() -> None:
    chunks = Chunks()
    with pytest.raises(PipeTimeout):
        chunks.read(1, 0.0)
    chunks.close()
    assert chunks.read(1, 0.0) == b""


def test_a_reader_that_waits_is_woken_by_a_piece() -> None:
    chunks = Chunks()
    feeder = threading.Timer(0.05, chunks.feed, (b"x",))
    feeder.start()
    assert chunks.read(10, 20.0) == b"x"
    feeder.join()


def test_the_flag_is_set_while_there_is_something_and_from_the_end_on() -> None:
    chunks, flag = Chunks(), threading.Event()
    flag.set()
    chunks.set_event(flag)
    seen = [flag.is_set()]
    chunks.feed(b"ab")
    seen.append(flag.is_set())
    chunks.read(1)
    seen.append(flag.is_set())
    chunks.read(1)
    seen.append(flag.is_set())
    chunks.close()
    chunks.read(1)
    seen.append(flag.is_set())
    assert seen == [False, True, True, False, True]


def test_a_flag_that_comes_late_learns_what_is_there() -> None:
    chunks, flag = Chunks(), threading.Event()
    chunks.feed(b"a")
    chunks.set_event(flag)
    assert flag.is_set()
    assert chunks.empty() == b"a"
    assert not flag.is_set()


def test_more_than_may_lie_unread_ends_the_connection() -> None:
    chunks = Chunks(4)
    chunks.feed(b"abc")
    with pytest.raises(paramiko.SSHException):
        chunks.feed(b"de")
    assert chunks.read(9) == b"abc"
    chunks.feed(b"defg")
    assert chunks.read(9) == b"defg"
