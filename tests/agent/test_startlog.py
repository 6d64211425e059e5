"""What is told of a start that failed, out of whole real logs."""

from __future__ import annotations

import time
from pathlib import Path

from stoker import engines
from stoker.agent.startlog import StartLog
from tests.agent.conftest import Host

CASES = Path(__file__).parent.parent / "cases" / "logs"


def evidence(host: Host, name: str) -> list[str]:
    log = StartLog(host.context(), str(CASES / name), engines.get("vllm").to_wire(), time.monotonic(), "^$")
    log.read()
    log.drain()
    log.close()
    return log.evidence()


def test_the_exception_that_began_it_is_told_though_others_came_after(host: Host) -> None:
    told = evidence(host, "vllm-semaphore-gone.log")
    assert told[-3] == "RuntimeError: Engine core initialization failed. See root cause above. " + (
        "Failed core proc(s): {'EngineCore': 1}"
    )
    assert told[-2] == "further up: FileNotFoundError: [Errno 2] No such file or directory"
    assert "Exception: WorkerProc initialization failed due to an exception" in told[-1]


def test_an_exception_among_the_last_lines_is_told_once(host: Host) -> None:
    told = evidence(host, "vllm-port-in-use.log")
    assert len([line for line in told if "Address already in use" in line]) == 1
