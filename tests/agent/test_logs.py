"""The end of a server's log, and what is added to it."""

from __future__ import annotations

import os
import signal
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.context import AgentError, Context
from stoker.agent.launches import logs
from stoker.agent.starting import life
from tests.agent.conftest import ENGINES, PLAIN, Host, eventually, lives


def launch(host: Host, script: str) -> dict[str, Any]:
    plan = host.plan(engine=PLAIN, script=f"#!/bin/sh\n{script}\nexec sleep 60\n")
    return dict(life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"])


def show(host: Host, **params: Any) -> dict[str, Any]:
    """The only log that is asked for."""
    (one,) = logs.logs(host.context(), {"slots": ["stable"], **params})["logs"]
    return dict(one)


class Follower:
    """A follow that runs beside the test."""

    def __init__(self, host: Host, lines: int | None = 10, **params: Any) -> None:
        self.seen: list[str] = []
        self.notes: list[str] = []
        self.ended: list[AgentError] = []
        self.ctx = Context(self._take, host.context().session)
        self.params = {"slots": ["stable"], "follow": True, "lines": lines, **params}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _take(self, event: dict[str, Any]) -> None:
        {"log": self.seen, "note": self.notes}[event["type"]].append(event["text"])

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
    assert show(host, lines=3) == {
        "slot": "stable",
        "launch_id": done["launch_id"],
        "path": done["log"],
        "lines": ["line 4", "line 5", "up"],
        "whole": True,
        "dated": True,
    }


def test_an_earlier_launch_is_shown_on_demand(host: Host) -> None:
    first = launch(host, "echo first")
    eventually(lambda: Path(first["log"]).read_text(), "its line")
    launch(host, "echo second")
    assert show(host, launch_id=first["launch_id"])["lines"] == ["first"]


def test_an_unknown_slot_or_launch_is_told_with_those_that_are_known(host: Host) -> None:
    done = launch(host, "true")
    with pytest.raises(AgentError) as caught:
        show(host, slots=["stabel"])
    assert (caught.value.kind, "stable" in caught.value.next_step) == ("no-server", True)
    with pytest.raises(AgentError) as caught:
        show(host, launch_id="x")
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


# Times, patterns, several slots.


def written(host: Host, text: str) -> Path:
    """A slot's log with this content."""
    log = Path(launch(host, "true")["log"])
    log.write_text(text)
    return log


def stamped(ago_s: float, form: str) -> str:
    return time.strftime(form, time.localtime(time.time() - ago_s))


@pytest.mark.parametrize(
    "form", ["[%Y-%m-%d %H:%M:%S TP0] ", "(EngineCore pid=9) INFO %m-%d %H:%M:%S [x.py:1] "]
)
def test_since_goes_by_the_times_that_the_engine_wrote(host: Host, form: str) -> None:
    old, new = stamped(900, form), stamped(300, form)
    written(host, f"{old}old\nTraceback of old\n{new}new\nTraceback of new\n{stamped(1, form)}last\n")
    lines = show(host, since_s=600)["lines"]
    assert [line.rpartition(" ")[2] for line in lines] == ["new", "new", "last"]
    assert lines[1] == "Traceback of new"
    assert show(host, since_s=2000)["lines"][:2] == [f"{old}old", "Traceback of old"]


def test_since_a_moment_is_meant_by_the_clock_of_the_log(host: Host) -> None:
    written(host, "2026-01-05T10:00:00Z a\n2026-01-05T12:30:00+02:00 b\n2026-01-05 11:00:00.5+00:00 c\n")
    assert [line[-1] for line in show(host, since_at=1767607200 + 1800)["lines"]] == ["b", "c"]


def test_llama_servers_times_count_from_its_start(host: Host) -> None:
    done = launch(host, "true")
    Path(done["log"]).write_text("0.00.029.909 I cmn a\n0.59.000.000 I srv b\n61.00.000.000 I srv c\n")
    lines = show(host, since_at=done["started_at"] + 50)["lines"]
    assert [line[-1] for line in lines] == ["b", "c"]


def test_a_log_without_times_shows_its_end_and_says_so(host: Host) -> None:
    log = written(host, "a\nb\n")
    found = show(host, since_s=600)
    assert (found["lines"], found["dated"]) == (["a", "b"], False)
    os.utime(log, (time.time() - 900,) * 2)
    assert show(host, since_s=600)["lines"] == []


def test_the_times_of_a_server_with_a_zone_of_its_own_are_read_in_it(host: Host) -> None:
    there = {"env": {"TZ": "Pacific/Kiritimati"}}  # 14 h ahead
    plan = host.plan(engine=PLAIN, script="#!/bin/sh\nexec sleep 60\n", resolved=there)
    log = Path(life.restart(host.context(), {"plan": plan, "engines": ENGINES})["launch"]["log"])
    ahead = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time.time() + 14 * 3600 - 300))
    log.write_text(f"{ahead} five minutes old\n")
    assert show(host, since_s=600)["lines"] == [f"{ahead} five minutes old"]
    assert show(host, since_s=200)["lines"] == []


def test_grep_shows_the_last_lines_that_match(host: Host) -> None:
    written(host, "".join(f"line {n}\n" for n in range(1000)))
    assert show(host, grep="[05]$", lines=3)["lines"] == ["line 985", "line 990", "line 995"]
    with pytest.raises(AgentError, match="no regular expression"):
        show(host, grep="(")


def test_a_pattern_that_would_never_end_is_given_up(host: Host) -> None:
    written(host, "a" * 4000 + "b\n")
    begun = time.monotonic()
    with pytest.raises(AgentError, match="took more than 1 s") as caught:
        show(host, grep="(a+)+$")
    assert caught.value.kind == "bad-request"
    assert time.monotonic() - begun < 8


def test_a_follow_filters_what_is_added(host: Host) -> None:
    log = written(host, "good old\nbad old\n")
    follower = Follower(host, grep="good")
    follower.wait_for("good old")
    with log.open("a") as file:
        file.write("bad new\ngood new\n")
    follower.wait_for("good new")
    follower.cancel()
    assert follower.seen == ["good old", "good new"]


def test_a_follow_goes_on_with_the_next_launch(host: Host) -> None:
    launch(host, "echo first")
    follower = Follower(host)
    follower.wait_for("first")
    launch(host, "echo second")
    follower.wait_for("second")
    follower.cancel()
    assert any("launch" in note for note in follower.notes)


def test_a_follow_shows_a_progress_bar_as_it_stands_and_once_when_done(host: Host) -> None:
    log = written(host, "begin\n")
    follower = Follower(host)
    follower.wait_for("begin")
    with log.open("ab") as file:
        file.write(b"".join(b"\rloading %d%%" % n for n in range(60)))
        file.flush()
        follower.wait_for("loading 59%")
        file.write(b"\rloading 100%\nend\n")
    follower.wait_for("end")
    follower.cancel()
    assert follower.seen == ["begin", "loading 59%", "loading 100%", "end"]


def test_a_follow_of_a_line_of_50_mb_costs_little_memory(host: Host) -> None:
    log = written(host, "begin\n")
    follower = Follower(host)
    follower.wait_for("begin")
    tracemalloc.start()
    try:
        with log.open("ab") as file:
            for _ in range(50):
                file.write(b"\x1b[31m" + b"y" * ((1 << 20) - 5))
            file.write(b"\xff\nend\n")
        follower.wait_for("end")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    follower.cancel()
    assert [line[:10] for line in follower.seen] == ["begin", "y" * 10, "end"]
    assert peak < 20 << 20


def test_the_only_slot_with_a_living_server_is_meant(host: Host) -> None:
    with pytest.raises(AgentError, match="nothing was launched"):
        show(host, slots=None)
    done = launch(host, "echo dead")
    eventually(lambda: "dead" in Path(done["log"]).read_text(), "its line")
    os.kill(done["pid"], signal.SIGKILL)
    eventually(lambda: not lives(done["pid"]), "its end")
    assert show(host, slots=None)["lines"] == ["dead"], "a dead server's log is wanted most"
    plan = host.plan(engine=PLAIN, slot="meadow", script="#!/bin/sh\nexec sleep 60\n")
    life.restart(host.context(), {"plan": plan, "engines": ENGINES})
    assert show(host, slots=None)["slot"] == "meadow"
    launch(host, "true")
    with pytest.raises(AgentError, match="meadow, stable"):
        show(host, slots=None)
