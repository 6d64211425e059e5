"""Many hosts at once: a failed one is a value, Ctrl-C keeps what came in time."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass

import pytest

from stoker.errors import EXIT_INPUT, HostFailed, HostUnreachable, InputError, OneHostsInput, StokerError
from stoker.fleet.crew import Crew
from stoker.fleet.pool import HostResult, fan_out, roll

NAMES = [f"h{number}" for number in range(6)]


def failed(name: str, kind: str = "died") -> HostFailed:
    return HostFailed("it died", host=name, kind=kind)


def statuses(results: list[HostResult]) -> dict[str, str]:
    return {result.host: result.status for result in results}


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_results_come_in_the_order_of_the_hosts() -> None:
    def work(name: str) -> str:
        time.sleep(0.05 if name == "h0" else 0)
        return name.upper()

    results = fan_out(NAMES, work, forks=3)
    assert [(result.host, result.status, result.data) for result in results] == [
        (name, "ok", name.upper()) for name in NAMES
    ]
    assert results[0].seconds >= 0.05


def test_no_hosts_are_no_results() -> None:
    assert fan_out([], failed, forks=3) == []


def test_host_that_is_named_twice_is_one_host() -> None:
    assert [result.host for result in fan_out(["a", "b", "a"], str, forks=2)] == ["a", "b"]
    assert [result.host for result in roll(["a", "b", "a"], str, serial=1, forks=2)] == ["a", "b"]


def test_no_more_than_forks_run_at_once_and_that_many_do() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    together = threading.Barrier(3)

    def work(name: str) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        together.wait(5)
        with lock:
            now[0] -= 1

    assert set(statuses(fan_out(NAMES, work, forks=3)).values()) == {"ok"}
    assert most[0] == 3


def test_each_failure_is_a_value_and_the_others_are_served() -> None:
    errors: dict[str, BaseException] = {
        "h0": failed("h0"),
        "h1": HostUnreachable("gone", host="h1", kind="refused"),
        "h2": StokerError("what"),
        "h3": ZeroDivisionError("oops"),
        "h4": SystemExit(3),
    }

    def work(name: str) -> str:
        if name in errors:
            raise errors[name]
        return "fine"

    results = {result.host: result for result in fan_out(NAMES, work, forks=2)}
    assert {name: result.status for name, result in results.items()} == {
        "h0": "failed",
        "h1": "unreachable",
        "h2": "failed",
        "h3": "failed",
        "h4": "failed",
        "h5": "ok",
    }
    codes = [result.error.exit_code for result in results.values() if result.error]
    assert codes == [3, 4, 1, 1, 1]
    fault = results["h3"].error
    assert fault is not None
    assert (fault.where, "ZeroDivisionError: oops" in fault.what) == ("h3", True)
    assert any("raise errors[name]" in line for line in fault.evidence)


def test_wrong_input_is_no_host_s_failure_and_begins_nothing_more() -> None:
    begun = []

    def work(name: str) -> None:
        begun.append(name)
        raise InputError("wrong", where=name)

    with pytest.raises(InputError) as caught:
        fan_out(NAMES, work, forks=1)
    assert caught.value.where == "h0"
    assert begun == ["h0"]


def test_what_only_one_host_could_show_never_stops_the_others() -> None:
    """Several servers run on one of forty: the other thirty-nine are measured."""

    def work(name: str) -> str:
        if name == "h0":
            raise OneHostsInput("several servers run", where=name)
        return "measured"

    results = fan_out(NAMES, work, forks=1)
    assert [result.status for result in results] == ["failed", *["ok"] * (len(NAMES) - 1)]
    assert results[0].error is not None
    assert results[0].error.exit_code == EXIT_INPUT


def test_results_are_shown_as_they_come_in_the_caller_s_thread() -> None:
    seen: list[str] = []
    first_shown = threading.Event()

    def work(name: str) -> None:
        if name == "h5":
            assert first_shown.wait(5)

    def on_done(result: HostResult) -> None:
        assert threading.current_thread() is threading.main_thread()
        seen.append(result.host)
        first_shown.set()

    fan_out(NAMES, work, forks=6, on_done=on_done)
    assert sorted(seen) == NAMES
    assert seen[-1] == "h5"


def test_failing_display_ends_the_rest() -> None:
    stop, running = threading.Event(), threading.Event()

    def work(name: str) -> None:
        if name != "h0":
            running.set()
            stop.wait(10)

    def on_done(result: HostResult) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fan_out(NAMES, work, forks=2, on_done=on_done, stop=stop)
    assert stop.is_set()


@dataclass(frozen=True)
class Did:
    changed: bool


@pytest.mark.parametrize(
    ("data", "changed"),
    [(Did(True), True), (Did(False), False), ([Did(False), Did(True)], True), ([], False), (None, False)],
)
def test_change_is_read_from_what_the_work_returns(data: object, changed: bool) -> None:
    assert fan_out(["h0"], lambda name: data, forks=1)[0].changed is changed


def test_ctrl_c_tells_what_runs_and_keeps_what_is_done() -> None:
    stop, begun = threading.Event(), []

    def work(name: str) -> str:
        begun.append(name)
        if name == "h0":
            return "done"
        if name == "h1":
            ctrl_c()
        assert stop.wait(10)
        raise failed(name, "cancelled")

    results = fan_out(NAMES, work, forks=2, stop=stop)
    assert statuses(results) == {"h0": "ok", **dict.fromkeys(NAMES[1:], "interrupted")}
    assert results[0].data == "done"
    assert "h5" not in begun


def test_ctrl_c_keeps_the_result_of_work_that_finishes_in_time() -> None:
    stop = threading.Event()

    def work(name: str) -> str:
        ctrl_c()
        assert stop.wait(10)
        return "finished what could not be left half done"

    (result,) = fan_out(["h0"], work, forks=1, stop=stop)
    assert (result.status, result.data) == ("ok", "finished what could not be left half done")


def test_ctrl_c_that_does_not_wake_the_waiting_thread_is_seen_soon() -> None:
    stop = threading.Event()

    def work(name: str) -> bool:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return stop.wait(10)

    (result,) = fan_out(["h0"], work, forks=1, stop=stop)
    assert result.data is True


def test_ctrl_c_does_not_wait_for_what_hangs() -> None:
    release, begun = threading.Event(), time.monotonic()

    def work(name: str) -> None:
        ctrl_c()
        release.wait(20)

    results = fan_out(["h0"], work, forks=1, grace_s=0.2)
    assert time.monotonic() - begun < 5
    assert statuses(results) == {"h0": "interrupted"}
    release.set()


def test_second_ctrl_c_ends_the_patience() -> None:
    release, stop, begun = threading.Event(), threading.Event(), time.monotonic()

    def work(name: str) -> None:
        ctrl_c()
        stop.wait(10)
        time.sleep(0.05)
        ctrl_c()
        release.wait(20)

    results = fan_out(["h0"], work, forks=1, stop=stop, grace_s=20)
    assert time.monotonic() - begun < 5
    assert statuses(results) == {"h0": "interrupted"}
    release.set()


def test_failure_that_ctrl_c_did_not_cause_stays_a_failure() -> None:
    stop = threading.Event()

    def work(name: str) -> None:
        ctrl_c()
        assert stop.wait(10)
        raise failed(name, "io")

    assert statuses(fan_out(["h0"], work, forks=1, stop=stop)) == {"h0": "failed"}


def test_an_interrupt_in_the_work_is_an_interruption() -> None:
    def work(name: str) -> None:
        raise KeyboardInterrupt

    assert statuses(fan_out(["h0"], work, forks=1)) == {"h0": "interrupted"}


def test_rolling_goes_batch_by_batch() -> None:
    order: list[str] = []
    lock = threading.Lock()

    def work(name: str) -> None:
        with lock:
            order.append(name)

    results = roll(NAMES, work, serial=2, forks=6)
    assert set(statuses(results).values()) == {"ok"}
    assert [set(order[start : start + 2]) for start in (0, 2, 4)] == [
        {"h0", "h1"},
        {"h2", "h3"},
        {"h4", "h5"},
    ]


@pytest.mark.parametrize("error", [failed("h2"), HostUnreachable("gone", host="h2", kind="refused")])
def test_rolling_stops_behind_the_batch_of_the_first_failure(error: StokerError) -> None:
    shown: list[HostResult] = []

    def work(name: str) -> str:
        if name == "h2":
            raise error
        return "fine"

    results = roll(NAMES, work, serial=2, forks=6, on_done=shown.append)
    expected = ["ok", "ok", "unreachable" if isinstance(error, HostUnreachable) else "failed", "ok"]
    assert [result.status for result in results] == [*expected, "skipped", "skipped"]
    why = "not begun: h2 was unreachable" if isinstance(error, HostUnreachable) else "not begun: h2 failed"
    assert {result.why for result in results if result.status == "skipped"} == {why}
    assert len(shown) == len(NAMES)


def test_rolling_stops_at_ctrl_c_even_when_the_batch_is_fine() -> None:
    both = threading.Barrier(2)

    def work(name: str) -> str:
        both.wait(5)
        if name == "h0":
            ctrl_c()
        return "fine"

    results = roll(NAMES, work, serial=2, forks=2)
    assert statuses(results) == {"h0": "ok", "h1": "ok", **dict.fromkeys(NAMES[2:], "interrupted")}


def test_threads_end_with_their_work() -> None:
    before = set(threading.enumerate())
    fan_out(NAMES, lambda name: None, forks=6)
    end = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < end:
        time.sleep(0.005)
    assert not set(threading.enumerate()) - before


def test_crew_does_the_next_work_with_the_threads_it_has() -> None:
    seen: list[int] = []
    with Crew() as crew:
        for _ in range(20):
            fan_out(["a", "b"], lambda _: seen.append(threading.get_ident()), forks=2, crew=crew)
            time.sleep(0.005)  # until both have nothing to do again
    assert len(seen) == 40
    assert len(set(seen)) <= 4


def test_crew_gives_work_to_another_thread_where_one_hangs() -> None:
    hangs = threading.Event()
    with Crew() as crew:

        def hang() -> None:
            hangs.wait(10)

        crew.do(hang)
        assert [one.status for one in fan_out(["a"], str, forks=1, crew=crew)] == ["ok"]
        hangs.set()


def test_crew_lets_its_threads_go() -> None:
    before = set(threading.enumerate())
    with Crew() as crew:
        fan_out(NAMES, str, forks=3, crew=crew)
        mine = set(threading.enumerate()) - before
    for thread in mine:
        thread.join(5)
    assert not [thread for thread in mine if thread.is_alive()]
