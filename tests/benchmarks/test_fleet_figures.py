"""The benchmark of a fleet: what it says of contenders that fail or are absent, and its picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks.fleet.figure import draw
from benchmarks.fleet.measure import Contender, Failed, compare

STOKER = Contender("stoker", ["true"])


def test_who_fails_or_is_absent_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    rivals = [
        Contender("slower", ["sh", "-c", "sleep 0.2"], least=1.1),
        Contender("broken", ["sh", "-c", "echo it broke >&2; exit 3"]),
        Contender("absent", ["nowhere"], why_not="not installed"),
    ]
    lines, out = compare([STOKER, *rivals], tmp_path, rounds=2)
    assert [line.name for line in lines] == ["stoker", "slower"]
    assert lines[1].by_wall > 1 and lines[1].wall_s > 0.2 and lines[1].least == 1.1
    assert out == {"broken": "ended with 3: it broke", "absent": "not installed"}


def test_a_failure_of_our_own_ends_the_benchmark(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="ended with 1"):
        compare([Contender("stoker", ["false"])], tmp_path, rounds=1)


def test_each_run_finds_no_rest_of_the_one_before(tmp_path: Path) -> None:
    made = tmp_path / "made"
    lines, _ = compare([Contender("stoker", ["mkdir", str(made)], prepare=(made,))], tmp_path, rounds=2)
    assert [line.name for line in lines] == ["stoker"]


def test_the_picture_shows_every_contender_of_every_work() -> None:
    line = {"wall_s": 2.0, "by_wall": 1.5}
    faster = {"name": "C", **line, "by_wall": 0.1}
    rows = [
        {"title": "One <command>", "lines": [{"name": "stoker", **line}, {"name": "A & B", **line}]},
        {
            "title": "Faster than we",
            "lines": [{"name": "stoker", **line}, faster],
        },
    ]
    page = ElementTree.fromstring(draw(rows))
    texts = ["".join(element.itertext()) for element in page.iter() if element.tag.endswith("text")]
    for word in ("One <command>", "Faster than we", "Stoker", "A & B", "C", "2.00 s · 1.50 ×"):
        assert word in texts
