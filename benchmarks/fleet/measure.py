"""Contenders run in turn, each a whole process: wall time, CPU of its whole family, the most memory held."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.sshd import descendants, program_of

_SUBREAPER = 36
_AUTOGROUP_NICE = "-15"
_ENDING_S = 0.5
# A rival that takes longer has lost.
_MOST_S = 240


@dataclass(frozen=True)
class Contender:
    """A program and what it is run with.

    Args:
        name: As it stands in tables.
        argv: Its command line.
        env: Added to the environment.
        least: What rival ÷ Stoker is to reach; None where nothing was asked.
        why_not: Why it is not run; empty where it is.
        prepare: Folders that are removed before each run.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    least: float | None = None
    why_not: str = ""
    prepare: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Sample:
    """One run: seconds of wall and CPU (user and system, children and what it left behind), and MiB."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    hosts_s: float = math.nan


@dataclass(frozen=True)
class Line:
    """A contender's medians, and its medians of rival ÷ Stoker in the same round; ``hosts_s``: CPU there."""

    name: str
    wall_s: float
    cpu_s: float
    hosts_s: float
    peak_mib: float
    by_wall: float
    by_cpu: float
    by_all: float
    least: float | None


def adopt_orphans() -> None:
    """What a contender leaves in the background (a ControlMaster) becomes ours: to be counted, and ended."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def compare(
    contenders: Sequence[Contender],
    folder: Path,
    rounds: int,
    hosts_s: Callable[[], float] = lambda: math.nan,
    mine: str = "stoker",
) -> tuple[list[Line], dict[str, str]]:
    """Run all of them ``rounds`` times in turn, after a round that warms caches.

    Returns:
        A line for each that ran, and for each that did not, why.
    """
    out = {one.name: one.why_not for one in contenders if one.why_not}
    samples: dict[str, list[Sample]] = {one.name: [] for one in contenders if not one.why_not}
    for number in range(rounds + 1):
        for one in contenders:
            if one.name in out:
                continue
            try:
                begin = hosts_s()
                sample = run(one, folder)
                time.sleep(_ENDING_S)  # until its connections have ended
                sample = replace(sample, hosts_s=hosts_s() - begin)
            except Failed as failure:
                if one.name == mine:
                    raise
                out[one.name] = str(failure)
                continue
            if number:
                samples[one.name].append(sample)
    return [_line(one, samples[one.name], samples[mine]) for one in contenders if one.name not in out], out


def _line(one: Contender, runs: Sequence[Sample], mine: Sequence[Sample]) -> Line:
    pairs = list(zip(runs, mine, strict=False))
    return Line(
        one.name,
        statistics.median(run.wall_s for run in runs),
        statistics.median(run.cpu_s for run in runs),
        statistics.median(run.hosts_s for run in runs),
        max(run.peak_mib for run in runs),
        statistics.median(run.wall_s / own.wall_s for run, own in pairs),
        statistics.median(run.cpu_s / own.cpu_s for run, own in pairs),
        statistics.median((run.cpu_s + run.hosts_s) / (own.cpu_s + own.hosts_s) for run, own in pairs),
        one.least,
    )


class Failed(Exception):
    """A contender did not do its work: its time would mean nothing."""


def run(one: Contender, folder: Path) -> Sample:
    """One whole process.

    Raises:
        Failed: It ended with another code than 0, or not in time.
    """
    for path in one.prepare:
        shutil.rmtree(path, ignore_errors=True)
    # An installed program has its bytecode: where the developer's shell forbids writing it, we lack it.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as said:
        begin = time.perf_counter()
        process = subprocess.Popen(
            one.argv,
            cwd=folder,
            env={**kept, **one.env},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        _put_first(process.pid)
        late = _Late(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        late.stop()
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime + _left_behind()
        if process.returncode:
            said.seek(0)
            words = said.read().decode(errors="replace").split("\n")
            last = next((line.strip() for line in reversed(words) if line.strip()), "")
            raise Failed(f"ended with {process.returncode}: {last[:120]}")
    return Sample(wall, cpu, usage.ru_maxrss / 1024)


def _put_first(pid: int) -> None:
    """Let a contender go before the hosts, as on a machine of its own.

    Linux shares its CPUs among sessions: fifty logins of hosts that run here would get fifty times as much.
    """
    with contextlib.suppress(OSError):  # only root may, and not every kernel does so
        Path(f"/proc/{pid}/autogroup").write_text(_AUTOGROUP_NICE)


class _Late:
    """Ends a contender's session when it takes too long."""

    def __init__(self, pid: int) -> None:
        self._timer = threading.Timer(_MOST_S, os.killpg, (pid, signal.SIGKILL))
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()


def _left_behind() -> float:
    """End the connections that ssh keeps open in the background; the CPU seconds that they took."""
    total = 0.0
    for pid in descendants(os.getpid()):
        if program_of(pid) != "ssh":
            continue
        os.kill(pid, signal.SIGTERM)
        _, _, usage = os.wait4(pid, 0)
        total += usage.ru_utime + usage.ru_stime
    return total
