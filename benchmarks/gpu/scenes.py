"""The scenes: each is a few commands, and what must be so after them."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.run import Run
from benchmarks.gpu.stage import LOST
from stoker.errors import EXIT_REGRESSED

_NEAR_MIB = 64  # what a GPU's idle level may differ by


def doctor(run: Run) -> None:
    """Is the host fit to serve: real driver, real GPU."""
    # The word lies with the machine (a small disk, say), so its exit code is not judged.
    ended = run.inv("doctor", "--host", run.stage.host, "--profile", "tuned", "--json", show=False)
    checks = ended.data.get("checks", [])
    run.inv("doctor", "--host", run.stage.host, "--profile", "tuned", expect=ended.code)
    run.report.check("the doctor judged the driver and the GPU", any("driver" in c["name"] for c in checks))


def first(run: Run) -> None:
    """A first restart: nothing runs yet."""
    before = run.memory()
    data = run.restart("tuned")
    run.picture()
    after = run.memory()
    if before is not None and after is not None:
        run.report.check(f"the server holds GPU memory ({before} → {after} MiB)", after > before + 1000)
    run.report.check("nothing was ended", not (data.get("kill") or {}).get("ended"))


def status(run: Run) -> None:
    """Status, and the same as JSON."""
    run.inv("status", "--host", run.stage.host)
    ended = run.inv("status", "--host", run.stage.host, "--json")
    servers = ended.data.get("servers", [])
    run.report.check("one server, up, as tuned", [s["state"] for s in servers] == ["up"])


def measured(run: Run) -> None:
    """Measure it, accept that as the baseline, look at the fingerprint."""
    bench = run.inv("bench", "--host", run.stage.host, "--json", show=False)
    run.inv("results")
    run.inv("baseline", "--host", run.stage.host, "--why", "first run on this machine")
    run_id = bench.data.get("run_id", "")
    record = json.loads((run.stage.project / "results" / run_id / "run.json").read_text())
    run.report.listing(json.dumps(_fingerprint(record), indent=1), "json")
    run.inv("bench", "--host", run.stage.host)


def _fingerprint(record: dict[str, Any]) -> Any:
    launches = record.get("launches") or [{}]
    return record.get("fingerprint") or launches[0].get("fingerprint") or sorted(record)


def lost(run: Run) -> None:
    """A restart without one variable: measured, and explained."""
    run.report.text(f"`{LOST}` is missing from this profile.")
    run.restart("lost")
    _explained(run, LOST, expect=None)  # whether it costs anything here is the machine's to say


def debug(run: Run) -> None:
    """A restart with a debugging variable left in: measured, and explained."""
    run.report.text("`CUDA_LAUNCH_BLOCKING=1` makes each kernel launch wait for the GPU.")
    run.restart("debug")
    _explained(run, "CUDA_LAUNCH_BLOCKING", expect=EXIT_REGRESSED if run.gpu else 0)


def _explained(run: Run, name: str, expect: int | None) -> None:
    judged = run.inv("bench", "--host", run.stage.host, "--json", expect=expect, show=False)
    data = judged.data
    run.report.text(f"`inv bench`: {data.get('tok_s')} tok/s, {data.get('verdict')} ({data.get('line')})")
    told = run.inv("explain", "--host", run.stage.host)
    run.report.check(f"explain names {name}", name in told.out)


def beheaded(run: Run) -> None:
    """SIGKILL of a launcher whose renamed workers hold the GPU."""
    data = run.restart("crew")
    before = run.memory()
    run.picture()
    launcher = data["launch"]["pid"]
    os.kill(launcher, signal.SIGKILL)
    _gone(launcher)
    run.report.text(f"`kill -9 {launcher}`, the launcher.")
    left = _titled("engine::worker_")
    run.report.check(f"both workers live on ({left})", len(left) == 2)
    run.picture()
    run.inv("status", "--host", run.stage.host)
    again = run.restart("tuned")
    ended = {process["pid"] for process in (again.get("kill") or {}).get("ended", [])}
    run.report.check(
        f"both were ended ({sorted(ended)})", set(left) <= ended and not _titled("engine::worker_")
    )
    run.report.text(f"GPU memory: {before} MiB with the workers, {run.memory()} MiB with the new server.")
    run.picture()


def orphaned(run: Run) -> None:
    """An orphan on the GPU that Stoker never started, and no engine's name on it."""
    process, pid = run.hold("nothing to see here", "orphan")
    process.wait()
    run.picture()
    again = run.restart("tuned")
    ended = {each["pid"] for each in (again.get("kill") or {}).get("ended", [])}
    if run.gpu:
        run.report.check(f"the orphan {pid} was ended", pid in ended and not _alive(pid))
    else:
        os.kill(pid, signal.SIGKILL)


def stranger(run: Run) -> None:
    """A stranger on the GPU, whose owner lives, stops a restart; --force ends it."""
    process, pid = run.hold("somebody's notebook")
    try:
        run.picture()
        words = ("--host", run.stage.host, "--profile", "tuned")
        blocked = 3 if run.gpu else 0
        run.inv("restart", *words, "--check", expect=blocked)
        ended = run.inv("restart", *words, expect=blocked)
        if run.gpu:
            run.report.check("the stranger is named with its number", str(pid) in ended.out)
        run.report.check("the stranger lives", _alive(pid))
        run.inv("status", "--host", run.stage.host)
        run.inv("restart", *words, "--force")
        if run.gpu:
            run.report.check("forced, it is gone", process.poll() is not None)
    finally:
        process.kill()
        process.wait()


def loaded(run: Run) -> None:
    """The doctor while the server decodes."""
    ended = run.inv("doctor", "--host", run.stage.host, "--load", "--json", show=False)
    run.inv("doctor", "--host", run.stage.host, "--load", expect=ended.code)


def stopped(run: Run) -> None:
    """Stopped: the GPU is free."""
    run.inv("logs", "--host", run.stage.host, "--lines", "15")
    run.inv("stop", "--host", run.stage.host, "--profile", "tuned")
    after = run.memory()
    if after is not None:
        run.report.check(f"GPU 0 is back at its idle level ({after} MiB)", after < _NEAR_MIB)
    run.inv("status", "--host", run.stage.host)


def _titled(start: str) -> list[int]:
    """Living processes whose title begins so."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            found += [int(entry.name)] if title.startswith(start) else []
    return sorted(found)


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _gone(pid: int) -> None:
    end = time.monotonic() + 10
    while _alive(pid) and time.monotonic() < end:
        time.sleep(0.01)


SCENES = (doctor, first, status, measured, lost, debug, beheaded, orphaned, stranger, loaded, stopped)
