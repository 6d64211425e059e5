"""The end of a server's log, and what is added to it."""

from __future__ import annotations

import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from stoker.agent import life, logs
from stoker.agent.context import AgentError, Context
from tests.agent.conftest import ENGINES, PLAIN, Host, eventually


def launch(host: Host, script: str) -> dict[str, Any]:
    plan = host.plan(engine=PLAIN, script=f"#!/bin/sh\n{script}\nexec sleep 60\n")
    return dict(life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"])


class Follower:
    """A follow that runs beside the test."""

    def __init__(self, host: Host, lines: int = 10) -> None:
        self.seen: list[str] = []
        self.ended: list[AgentError] = []
        self.ctx = Context(self._take, host.context().session)
        self.params = {"slot": "stable", "follow": True, "lines": lines, "launch_id": None}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _take(self, event: dict[str, Any]) -> None:
        assert event["type"] == "log"
        self.seen.append(event["text"])

    def _run(self) -> None:
        try:
            logs.logs(self.ctx, self.params)
        except AgentError as error:
            self.ended.append(error)

    def wait_for(self, text: str) -> None:
        eventually(lambda: text in self.seen, f"the line {text}")

    def cancel(self) -> None:
        self.ctx.cancel()
        self.thread.join(5)
        assert not self.thread.is_alive()
        assert [error.kind for error in self.ended] == ["cancelled"]


def test_the_last_lines_of_the_latest_launch_are_shown(host: Host) -> None:
    launch(host, "echo old")
    done = launch(host, "for i in 1 2 3 4 5; do echo line $i; done; echo up")
    eventually(lambda: "up" in Path(done["log"]).read_text(), "the last line")
    found = logs.logs(host.context(), {"slot": "stable", "lines": 3, "follow": False, "launch_id": None})
    assert found == {"path": done["log"], "lines": ["line 4", "line 5", "up"]}


def test_an_earlier_launch_is_shown_on_demand(host: Host) -> None:
    first = launch(host, "echo first")
    eventually(lambda: Path(first["log"]).read_text(), "its line")
    launch(host, "echo second")
    found = logs.logs(host.context(), {"slot": "stable", "launch_id": first["launch_id"]})
    assert found["lines"] == ["first"]


def test_an_unknown_slot_or_launch_is_told_with_those_that_are_known(host: Host) -> None:
    done = launch(host, "true")
    with pytest.raises(AgentError) as caught:
        logs.logs(host.context(), {"slot": "stabel"})
    assert (caught.value.kind, "stable" in caught.value.next_step) == ("no-server", True)
    with pytest.raises(AgentError) as caught:
        logs.logs(host.context(), {"slot": "stable", "launch_id": "x"})
    assert (caught.value.kind, done["launch_id"] in caught.value.next_step) == ("no-server", True)


def test_following_shows_the_end_and_then_every_new_line_once(host: Host) -> None:
    done = launch(host, "echo one; echo two")
    log = Path(done["log"])
    eventually(lambda: "two" in log.read_text(), "two lines")
    with log.open("a") as file:
        follower = Follower(host)
        follower.wait_for("two")
        for word in ("three", "fo", "ur"):
            file.write(word + ("\n" if word != "fo" else ""))
            file.flush()
        follower.wait_for("four")
    follower.cancel()
    assert follower.seen == ["one", "two", "three", "four"]


def test_following_begins_with_a_line_that_is_still_being_written(host: Host) -> None:
    log = Path(launch(host, "true")["log"])
    log.write_text("whole\nha")
    follower = Follower(host)
    follower.wait_for("whole")
    with log.open("a") as file:
        file.write("lf\n")
    follower.wait_for("half")
    follower.cancel()
    assert follower.seen == ["whole", "half"]


def test_following_survives_a_log_that_is_cut_short_or_replaced(host: Host) -> None:
    log = Path(launch(host, "true")["log"])
    log.write_text("a long first line\n")
    follower = Follower(host)
    follower.wait_for("a long first line")
    time.sleep(0.2)  # it has to see the long file before the short one
    log.write_text("cut\n")
    follower.wait_for("cut")
    fresh = log.with_name("fresh")
    fresh.write_text("replaced\n")
    fresh.rename(log)
    follower.wait_for("replaced")
    follower.cancel()


def test_of_a_progress_bar_only_its_last_state_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"begin\r\nloading  1%\rloading 50%\r\x1b[32mloading \xe2\x96\x88 100%\x1b[0m\nend\n")
    assert logs.tail(str(log), 10) == ["begin", "loading █ 100%", "end"]


@pytest.mark.parametrize(
    ("content", "count", "lines"),
    [
        (b"", 5, []),
        (b"\n\n\n", 5, []),
        (b"no end", 5, ["no end"]),
        (b"a\nb\nc\n", 0, []),
        (b"bad \xff byte\n", 1, ["bad � byte"]),
    ],
)
def test_odd_ends_of_a_log(tmp_path: Path, content: bytes, count: int, lines: list[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(content)
    assert logs.tail(str(log), count) == lines


def test_a_log_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert logs.tail(str(tmp_path / "none"), 5) == []


def test_the_end_of_a_huge_log_costs_little_memory(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"x" * (64 << 20))  # one line without an end
        file.write(b"\nlast\n")
    tracemalloc.start()
    try:
        lines = logs.tail(str(log), 5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert lines[-1] == "last"
    assert all(len(line) <= 4096 for line in lines)
    assert peak < 40 << 20
