"""Whether a server's workers really run with the profile's variables: read from their memory and compared."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple

from ..context import AgentError, Context
from ..killing import describe
from ..launches import state
from ..processes import liveenv, recognise
from ..processes.liveenv import LiveEnv
from ..processes.procs import Process, Snapshot, snapshot
from ..variables import TUNING_PREFIXES, is_credential, shown

Proof = Dict[str, Any]

# The launch script chooses the GPUs and marks the launch; that is no surprise in a worker.
_LAUNCHER_SETS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
# Programs that stay the parent of what they run; others (numactl, taskset, env) become it.
_WRAPPERS = frozenset(
    [
        "setsid",
        "sudo",
        "doas",
        "time",
        "timeout",
        "tini",
        "dumb-init",
        "catatonit",
        "strace",
        "perf",
        "nsys",
        "script",
        "uv",
        "conda",
        "poetry",
    ]
)
_TRACKERS = ("from multiprocessing.resource_tracker", "from multiprocessing.semaphore_tracker")


def prove(ctx: Context, params: Mapping[str, Any]) -> Proof:
    """The operation ``prove``.

    Args:
        params: ``plan``, and ``launch_id`` (null: the slot's current one).

    Raises:
        AgentError: ``no-server``: nothing was launched there, or nothing of it lives.
    """
    plan = params["plan"]
    launch = state.must_have(ctx.home, plan["slot"], params.get("launch_id"))
    seen = snapshot(ctx.facts)
    members, _ = state.members(seen, launch)
    if not members:
        what = f"no process of launch {launch['launch_id']} lives"
        raise AgentError("no-server", what, next_step=f"why it ended: inv logs --slot {plan['slot']}")
    return of_plan(plan, workers(seen, members, launch, plan["engine"]), ctx.check_cancelled)


def of_plan(plan: Mapping[str, Any], found: List[Process], check: Callable[[], None]) -> Proof:
    """The proof for the workers of a plan's server.

    Args:
        check: Called between workers; may raise.
    """
    envs = liveenv.read_all([process.pid for process in found], check)
    return compare(
        [(process, envs[process.pid]) for process in found],
        plan["engine"],
        env=plan["env"],
        expect=plan["expect"],
        present=plan["secrets"],
        known=[*plan["inherit"], *(_LAUNCHER_SETS if plan["gpus"] else ())],
    )


def compare(
    found: Iterable[Tuple[Process, LiveEnv]],
    engine: Mapping[str, Any],
    env: Mapping[str, str],
    expect: Mapping[str, str],
    present: Iterable[str] = (),
    known: Iterable[str] = (),
) -> Proof:
    """Hold live environments against what was asked for, byte for byte.

    Args:
        found: Workers with their environments.
        engine: ``Engine.to_wire()``: what it rewrites, and which variables it reads.
        env: Name to exact value.
        expect: Name to the value that an engine turns it into: that is wanted then.
        present: Names that must be there with any value that is not empty: secrets are never compared or
        shown.
        known: Names that are no surprise.

    Returns:
        The proof of the contract. ``in-force`` takes the memory of every worker: what was given at exec may
        have been changed since, and what cannot be read is unproven, never unset.
    """
    want = {**env, **expect}
    present = list(present)
    prefixes = (*TUNING_PREFIXES, *engine["env_prefixes"])
    silent = {*want, *present, *known}
    rows = []
    for process, live in found:
        rows.append(_worker(process, live, want, present, engine["rewrites"]))
        rows[-1]["added"] = _added(live.env, prefixes, silent)
    return {"verdict": _verdict(rows), "workers": rows, "variables": sorted({*want, *present})}


def workers(
    seen: Snapshot, members: List[Process], launch: Mapping[str, Any], engine: Mapping[str, Any]
) -> List[Process]:
    """Those whose environment must carry the tuning.

    Args:
        members: The processes of the launch.

    Returns:
        Those with a worker's title. Where no title fits, the launcher and every Python below it; for an
        engine without workers the launcher, or what it wraps.
    """
    titles = [re.compile(title) for title in engine["workers"]]
    titled = [p for p in members if any(title.fullmatch(p.title) for title in titles)]
    if titled:
        return titled
    launcher = seen.by_pid.get(int(launch["pid"]))
    if launcher is None or launcher.start != int(launch["start"]):
        return [p for p in members if not _tracks(p)]
    server = leaf(seen, launcher)
    if not titles:
        return [server]
    return [server, *(p for p in seen.descendants(server.pid) if recognise.is_python(p) and not _tracks(p))]


def leaf(seen: Snapshot, process: Process) -> Process:
    """What a wrapper runs, where the wrapper stays its parent."""
    children = seen.children(process.pid)
    while len(children) == 1 and wraps(process):
        process = children[0]
        children = seen.children(process.pid)
    return process


def wraps(process: Process) -> bool:
    """Whether it is a program that stays the parent of what it runs."""
    program = recognise.invocation(process.argv).program
    return recognise.is_shell(process) or program in _WRAPPERS


def _tracks(process: Process) -> bool:
    """Whether it only cleans up behind the others; its environment does not matter."""
    return recognise.invocation(process.argv).code.startswith(_TRACKERS)


def _worker(
    process: Process,
    live: LiveEnv,
    want: Mapping[str, str],
    present: List[str],
    rewrites: Mapping[str, str],
) -> Dict[str, Any]:
    row: Dict[str, Any] = {
        "pid": process.pid,
        "start": process.start,
        "title": describe.plain(process)["title"],
        "source": live.source,
        "why": live.why,
        "missing": [],
        "changed": {},
        "added": {},
    }
    if live.source == "unreadable":
        return row
    row["missing"] = [name for name in want if name not in live.env]
    row["missing"] += [name for name in present if not live.env.get(name)]
    for name, value in want.items():
        have = live.env.get(name, value)
        if have != value:
            hidden = is_credential(name)
            row["changed"][name] = {} if hidden else {"want": shown(value), "have": shown(have)}
            if rewrites.get(name) in ("", have):
                row["changed"][name]["by_engine"] = True
    return row


def _added(env: Mapping[str, str], prefixes: Tuple[str, ...], silent: Iterable[str]) -> Dict[str, str]:
    return {
        name: shown(value)
        for name, value in sorted(env.items())
        if name.startswith(prefixes) and name not in silent and not is_credential(name)
    }


def _verdict(rows: List[Dict[str, Any]]) -> str:
    if any(row["source"] == "memory" and (row["missing"] or row["changed"]) for row in rows):
        return "not-in-force"
    if not rows or any(row["source"] != "memory" for row in rows):
        return "unproven"
    return "in-force"
