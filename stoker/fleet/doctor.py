"""The verb ``doctor``: is a host fit to serve what should run there?"""

from __future__ import annotations

import time
from typing import Any

from stoker.errors import HostFailed
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb

PROFILE = Flag("profile", "Profiles to check the host for; else those that should run there.", "list")
LOAD = Flag(
    "load", "Let the servers that run decode for some seconds, and look at the GPUs meanwhile.", "flag"
)

_CLOCK_ASKED = 5
# What certificates, tokens and the order of records bear.
_CLOCK_OFF_S = 2.0
_MOST_LINES = 8


def doctor(job: Job) -> Outcome:
    """Check driver, GPUs, host, limits and profiles; change nothing.

    Raises:
        HostFailed: A check failed; the detail has all of them.
    """
    params = {
        "engines": job.project.engines,
        "plans": [plan.to_wire() for plan in job.plans],
        "load": job.args["load"],
    }
    clock = _clock(job)
    found = job.session.call("doctor", params)
    checks = [*found["checks"], clock]
    data = {**found, "checks": checks, "load": job.args["load"]}
    failed = [check for check in checks if check["state"] == "fail"]
    if failed:
        raise HostFailed(
            f"not fit to serve: {', '.join(check['name'] for check in failed)}",
            host=job.host.name,
            kind="not-fit",
            evidence=[f"{check['name']}: {check['evidence']}" for check in failed][:_MOST_LINES],
            next_step="; ".join(dict.fromkeys(check["remedy"] for check in failed if check["remedy"])),
            detail=data,
        )
    return Outcome(_summary(checks), data)


def _summary(checks: list[dict[str, Any]]) -> str:
    """``fit to serve (24 checks, 2 warnings, 1 unknown)``."""
    count = {state: sum(check["state"] == state for check in checks) for state in ("warn", "unknown")}
    parts = [f"{len(checks)} checks"]
    parts += [f"{count['warn']} warning{'s' if count['warn'] > 1 else ''}"] if count["warn"] else []
    parts += [f"{count['unknown']} unknown"] if count["unknown"] else []
    return f"fit to serve ({', '.join(parts)})"


def _clock(job: Job) -> dict[str, Any]:
    """The host's clock against ours, judged by the quickest of some answers: half its time is the doubt."""
    best, offset = float("inf"), 0.0
    for _ in range(_CLOCK_ASKED):
        sent, begin = time.time(), time.perf_counter()
        there = float(job.session.call("clock", {}, timeout_s=30)["time"])
        took = time.perf_counter() - begin
        if took < best:
            best, offset = took, there - (sent + took / 2)
    side = "ahead of" if offset > 0 else "behind"
    told = f"{_seconds(abs(offset))} {side} this machine, ± {_seconds(best / 2)}"
    off = abs(offset) - best / 2 > _CLOCK_OFF_S
    remedy = "set it by NTP (timedatectl set-ntp true, chronyd): tokens, certificates and records rest on it"
    return {
        "name": "clock",
        "state": "warn" if off else "ok",
        "evidence": told,
        "remedy": remedy if off else "",
    }


def _seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.1f} s"


VERBS = (Verb("doctor", (PROFILE, LOAD), doctor),)
