"""What is told of a start that failed, out of whole real logs."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from stoker import engines
from stoker.agent.launches import death
from stoker.agent.logfiles.startlog import StartLog
from tests.agent.conftest import Host

CASES = Path(__file__).parent.parent / "cases" / "logs"


def whole(host: Host, name: str) -> StartLog:
    log = StartLog(host.context(), str(CASES / name), engines.get("vllm").to_wire(), time.monotonic(), "^$")
    log.read()
    log.drain()
    log.close()
    return log


def test_the_exception_that_began_it_is_told_though_others_came_after(host: Host) -> None:
    told = whole(host, "vllm-semaphore-gone.log").evidence()
    assert told[-3] == "RuntimeError: Engine core initialization failed. See root cause above. " + (
        "Failed core proc(s): {'EngineCore': 1}"
    )
    assert told[-2] == "further up: FileNotFoundError: [Errno 2] No such file or directory"
    assert "Exception: WorkerProc initialization failed due to an exception" in told[-1]


def test_an_exception_among_the_last_lines_is_told_once(host: Host) -> None:
    told = whole(host, "vllm-port-in-use.log").evidence()
    assert len([line for line in told if "Address already in use" in line]) == 1


def test_the_cause_is_told_without_who_wrote_it_and_when(host: Host) -> None:
    log = whole(host, "vllm-kvcache-oom.log")
    error = death.died("the server cannot come up", "", None, log.evidence(), log.cause)
    assert error.what.startswith("the server cannot come up: ValueError: Available memory on node 0 (10.62/")
    assert [line for line in error.evidence if "further up: (Worker pid=17127) ERROR" in line]


def test_a_log_that_was_given_back_is_held_by_nobody(host: Host) -> None:
    whole(host, "vllm-port-in-use.log")
    held = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own is gone
            held.add(descriptor.readlink())
    assert CASES / "vllm-port-in-use.log" not in held


def test_a_log_of_very_many_short_lines_holds_nobody_up(host: Host, tmp_path: Path) -> None:
    """Two bytes a line: reading all of it would take minutes."""
    path = tmp_path / "server.log"
    path.write_bytes(
        b"".join(b"%d\n" % (number % 10) for number in range(10)) * 3_200_000 + b"CUDA out of memory\n"
    )
    log = StartLog(host.context(), str(path), engines.get("vllm").to_wire(), time.monotonic(), "^$")
    began = time.monotonic()
    log.read()
    assert time.monotonic() - began < 2
    log.drain()
    assert time.monotonic() - began < 8
    told = log.evidence()
    log.close()
    assert told[-1] == "CUDA out of memory", "the end is what matters"
    assert "bytes of the log were skipped" in told[0]
