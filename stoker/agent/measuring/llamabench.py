"""The operation ``llama-bench``: llama.cpp's own benchmark, in a server's environment and in its place."""

from __future__ import annotations

import errno
import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import outside
from ..context import AgentError, Context
from ..evidence import gpuuse
from ..gpus import gpu
from ..killing import claim, describe
from ..killing.look import NO_GPUS
from ..launches import death, serving, state
from ..launches.locks import lock_set, slot_lock
from ..launches.logs import tail
from ..launches.state import Launch
from ..processes.procs import alive, read_file
from ..starting import proof
from . import inplace, runfolder
from .bench import neighbours
from .inplace import Seen
from .sampler import Sampler

FOLDER = "llama-bench"
_RESULT = "result.jsonl"
_WHAT = "llama-bench"
_TICK_S = 0.02
_TIMEOUT_S = 7200.0
_MOST_BYTES = 16 << 20
_SHOWN_LINES = 20
_NO_PROGRAM = 127
_MOST_NS = 1e18
_TOLD = ("build_commit", "build_number", "backends", "gpu_info", "model_type", "model_size", "n_threads")


def llamabench(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``llama-bench``.

    Args:
        params: ``plan`` (of the benchmark: its own slot, no port), ``serves`` (the slot of the server whose
            profile it is), ``engines``, ``bench``, ``run_id``, ``force`` (beside what holds the GPUs, and
            beside that server), ``salt``, ``salt_id``, ``prefixes``, ``owner``.

    Returns:
        A bench result, with ``probe``: ``{build, tests, proof}``.

    Raises:
        AgentError: ``bad-request``, ``lock-held``, ``preflight``, ``blocked``: nothing was begun; ``died``,
            ``timeout``, ``io``, ``cancelled``: what was begun is ended.
    """
    plan = params["plan"]
    path = runfolder.reserve(ctx.home, params.get("run_id"))
    driver = gpu.query(ctx.facts, ctx.login_env) if plan["gpus"] else NO_GPUS
    locks = (*claim.of_plan(ctx, plan, driver, False).locks, slot_lock(ctx.home, params["serves"]))
    owner = {"user": describe.user(os.getuid()), "host": str(params.get("owner") or ""), "what": _WHAT}
    started_at = time.time()
    with lock_set(ctx).hold(locks, owner):
        beside = _beside(ctx, params)
        with inplace.ended(ctx, params):
            place = inplace.folder(ctx, plan, FOLDER)
            os.mkfifo(os.path.join(place, "go"), 0o600)
            launched = inplace.launched(ctx, params, _WHAT)
            seen, others, text = _measured(ctx, params, launched, place)
            result = _result(params, launched, seen, rows(text), beside + others)
            result["started_at"] = started_at
            return inplace.kept(ctx, path, result, seen.subject, {_RESULT: text})


def _beside(ctx: Context, params: Mapping[str, Any]) -> List[str]:
    """The server of this profile's slot that runs: it takes memory, and processors when it is asked.

    Raises:
        AgentError: ``blocked``: one does, and nobody said ``force``.
    """
    slot = params["serves"]
    latest = state.current(ctx.home, slot)
    known = {engine["name"]: engine for engine in params["engines"]}
    engine = known.get((latest or {}).get("engine", ""), params["plan"]["engine"])
    if latest is None or not serving.alive(ctx.home, ctx.facts, latest, engine):
        return []
    told = "the server of slot %s runs (process %d)" % (slot, latest["pid"])
    if not params.get("force"):
        what = "%s loads the model a second time, and %s" % (_WHAT, told)
        raise AgentError("blocked", what, next_step=inplace.next_step(_WHAT))
    return ["measured beside a server: %s" % told]


def _measured(
    ctx: Context, params: Mapping[str, Any], launched: Launch, place: str
) -> Tuple[Seen, List[str], str]:
    """(what was seen, who else was on its GPUs, what it wrote).

    It is looked at while it waits at its gate, with the environment that it will have.
    """
    sampler = Sampler(ctx.facts, ctx.login_env)
    sampler.start()
    try:
        with ctx.step("prove the environment"):
            _wait(ctx, params, launched, lambda: os.path.exists(os.path.join(place, "ready")))
            proven = proof.prove(ctx, {"plan": params["plan"], "launch_id": launched["launch_id"]})
            seen = inplace.look_at(ctx, params, launched, proven, sampler)
        with ctx.step("measure"):
            _wait(ctx, params, launched, lambda: _opened(place))
            _wait(ctx, params, launched, None)
    finally:
        sampler.stop()
    passers = strange(sampler.passers_by(seen.fingerprint["gpus"]), int(launched["pid"]))
    others = neighbours(seen.strangers, passers)
    seen.fingerprint["gpus"] = gpuuse.loaded(seen.fingerprint["gpus"], sampler.gpus())
    text = read_file(os.path.join(place, _RESULT), limit=_MOST_BYTES).decode("utf-8", "replace")
    return seen._replace(machine=sampler.machine()), others, text


def _wait(
    ctx: Context, params: Mapping[str, Any], launched: Launch, reached: Optional[Callable[[], bool]]
) -> None:
    """Wait until it has come there; None: until it has ended well.

    Raises:
        AgentError: ``died``, ``timeout``, ``cancelled``.
    """
    end = time.monotonic() + _TIMEOUT_S
    while True:
        lives = alive(int(launched["pid"]), int(launched["start"]))
        if reached is not None and reached():
            return
        if not lives:
            status = death.exit_status(ctx, launched)
            if reached is None and status == {"code": 0}:
                return
            raise _failed(params, launched, status)
        if time.monotonic() > end:
            what = "%s was not done within %.0f s" % (_WHAT, _TIMEOUT_S)
            raise AgentError("timeout", what, tail(str(launched["log"]), _SHOWN_LINES))
        ctx.cancelled.wait(_TICK_S)
        ctx.check_cancelled()


def strange(
    passers: Sequence[Tuple[str, Optional[int], int]], pid: int
) -> List[Tuple[str, Optional[int], int]]:
    """Those that came to the GPUs and are not our own process, which did so too once it began.

    Args:
        passers: (name, pid, GPU index) of each, as the driver tells.
        pid: Our own; in a container the driver may number it otherwise, so that only its name tells.
    """
    by_number = [one[:2] for one in passers if one[1] == pid]
    by_name = [one[:2] for one in passers if os.path.basename(one[0]) == _WHAT]
    mine = (by_number or by_name)[:1]
    return [one for one in passers if one[:2] not in mine]


def _opened(place: str) -> bool:
    """Open the gate; false where nobody stands there yet."""
    try:
        os.close(os.open(os.path.join(place, "go"), os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise state.io_error(place, error) from error
        return False
    return True


def _failed(params: Mapping[str, Any], launched: Launch, status: Optional[Mapping[str, int]]) -> AgentError:
    """Why it ended, by what it said."""
    lines, plan = tail(str(launched["log"]), _SHOWN_LINES), params["plan"]
    if status == {"code": _NO_PROGRAM}:
        what = "%s is not there for the profile %s" % (_WHAT, plan["profile"])
        hint = "builds of llama.cpp have it beside llama-server: put it there, or on the profile's PATH"
        return AgentError("preflight", what, lines, hint)
    what = "%s of %s %s" % (_WHAT, plan["profile"], death.ending(status))
    return death.died(what, str(launched["log"]), status, lines, death.cause_in(plan["engine"], lines))


def rows(text: str) -> List[Dict[str, Any]]:
    """Its tests, out of a list (``-o json``) or of lines (``-o jsonl``).

    Raises:
        AgentError: ``io``: it is no JSON.
    """
    try:
        if text.lstrip().startswith("["):
            found = outside.parse(text)
        else:
            found = [outside.parse(line) for line in text.splitlines() if line.strip()]
    except outside.OutsideError as error:
        raise AgentError("io", "the result of %s is no JSON: %s" % (_WHAT, error)) from error
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def runs_of(found: Sequence[Mapping[str, Any]], bench: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Its repetitions as runs: the pace of the generated tokens, and that of the prompt.

    A repetition that either is missing of is no measurement.
    """
    read, written = int(bench["input"]), int(bench["output"])
    prompts, outputs = _seconds(found, read, 0), _seconds(found, 0, written)
    made = []
    for index in range(int(bench["runs"])):
        prompt, output = (some[index] if index < len(some) else 0.0 for some in (prompts, outputs))
        valid = prompt > 0 and output > 0
        made.append(
            {
                "index": index,
                "tokens": written if valid else 0,
                "requested": written,
                "seconds": output if valid else None,
                "tok_s": written / output if valid else None,
                "ttft_s": None,
                "tpot_s": output / written if valid else None,
                "valid": valid,
                "why": "" if valid else "%s does not tell its time" % _WHAT,
                "figures": {"prefill_tok_s": read / prompt} if valid else {},
                "errors": {},
            }
        )
    return made


def _seconds(found: Sequence[Mapping[str, Any]], read: int, written: int) -> List[float]:
    """How long each repetition of a test took; empty where there is no such test."""
    for row in found:
        if (row.get("n_prompt"), row.get("n_gen"), row.get("n_depth", 0)) == (read, written, 0):
            samples = row.get("samples_ns")
            return [_number(one) / 1e9 for one in samples] if isinstance(samples, list) else []
    return []


def _number(value: Any) -> float:
    """A number that is told; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _MOST_NS:
        return 0.0
    return float(value)


def _result(
    params: Mapping[str, Any],
    launched: Launch,
    seen: Seen,
    found: Sequence[Mapping[str, Any]],
    contaminated: List[str],
) -> Dict[str, Any]:
    plan = params["plan"]
    first = found[0] if found else {}
    tests = [
        {
            "input": row.get("n_prompt"),
            "output": row.get("n_gen"),
            "tok_s": _number(row.get("avg_ts")),
            "sd_tok_s": _number(row.get("stddev_ts")),
        }
        for row in found
    ]
    return {
        "run_id": params["run_id"],
        "bench": dict(params["bench"]),
        "launch": launched,
        "engine": plan["engine"]["name"],
        "model": plan["model"],
        "engine_version": seen.fingerprint["versions"].get("engine", ""),
        "simulated": False,
        "warmup": None,
        "runs": runs_of(found, params["bench"]),
        "requests": [],
        "contaminated": contaminated,
        "machine": seen.machine,
        "fingerprint": seen.fingerprint,
        "probe": {
            "build": {name: first[name] for name in _TOLD if isinstance(first.get(name), (str, int))},
            "tests": tests,
            "proof": seen.proof,
        },
    }
