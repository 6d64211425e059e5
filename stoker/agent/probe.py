"""The operation ``probe``: all-reduces alone, in a server's environment, launched and ended as one is."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from . import (
    claim,
    describe,
    fingerprint,
    gpu,
    gpuuse,
    life,
    probemodel,
    probesheet,
    proof,
    runfolder,
    state,
)
from .context import AgentError, Context
from .look import NO_GPUS
from .probesheet import Found
from .probewatch import Watch
from .procs import snapshot
from .sampler import Sampler
from .serverinfo import Server
from .state import Launch
from .subject import Subject

FOLDER = "probe"


class _Seen(NamedTuple):
    """What was looked at while the ranks lived."""

    proof: Dict[str, Any]
    subject: Subject
    fingerprint: Dict[str, Any]
    strangers: List[Dict[str, Any]]
    machine: Dict[str, Any]


def probe(ctx: Context, params: Dict[str, Any]) -> Dict[str, Any]:
    """The operation ``probe``.

    Args:
        params: ``plan`` (of the probe: its own slot, no port), ``serves`` (the slot of the server whose
            profile it is), ``engines``, ``bench``, ``script``, ``run_id``, ``force`` (beside what holds the
            GPUs), ``salt``, ``salt_id``, ``prefixes``, ``owner``.

    Returns:
        A bench result, with ``probe``: ``{ranks, hidden, dtype, model, versions, sizes, nccl, engine,
        proof}``.

    Raises:
        AgentError: ``bad-request``, ``lock-held``, ``preflight``, ``blocked``: nothing was begun; ``died``,
            ``timeout``, ``not-in-force``, ``io``, ``cancelled``: what was begun is ended.
    """
    plan, bench = params["plan"], params["bench"]
    folder = runfolder.reserve(ctx.home, params.get("run_id"))
    driver = gpu.query(ctx.facts, ctx.login_env) if plan["gpus"] else NO_GPUS
    claimed = claim.of_plan(ctx, plan, driver, False)
    env = {**ctx.login_env, **plan["env"]}
    model = probemodel.read(env, plan["model"], plan["model_path"])
    told = probesheet.settings(bench, model, len(claimed.gpus))
    owner = {"user": describe.user(os.getuid()), "host": str(params.get("owner") or ""), "what": "probe"}
    started_at = time.time()
    with ctx.locks.hold(claimed.locks, owner), _ended(ctx, params):
        place = _place(ctx, plan, str(params["script"]), told)
        launched = _launched(ctx, params)
        seen, found = _observed(ctx, params, launched, place, told)
        texts = probesheet.logs(place)
        result = _result(ctx, params, told, model, launched, seen, found, texts)
        result["started_at"] = started_at
        return _kept(ctx, folder, result, seen.subject, texts)


def _place(ctx: Context, plan: Mapping[str, Any], script: str, told: Dict[str, Any]) -> str:
    """The script and what it is told, in a fresh folder of the slot."""
    place = os.path.join(state.slot_dir(ctx.home, plan["slot"]), FOLDER)
    shutil.rmtree(place, ignore_errors=True)
    try:
        os.makedirs(place, 0o700)
    except OSError as error:
        raise state.io_error(place, error) from error
    state.write(os.path.join(place, "probe.py"), script)
    state.write_json(os.path.join(place, "probe.json"), told)
    return place


def _launched(ctx: Context, params: Mapping[str, Any]) -> Launch:
    """Start it as a server is started: it ends nothing that is in the way.

    Raises:
        AgentError: As ``life.restart``.
    """
    asked = {name: params[name] for name in ("plan", "engines")}
    try:
        done = life.restart(ctx, {**asked, "replace": False, "locked": True, "beside": params.get("force")})
    except AgentError as error:
        if error.kind == "blocked":
            error.next_step = (
                "a probe ends nothing: inv stop ends it, --force probes beside it (contaminated)"
            )
        raise
    if done["already_running"]:
        raise AgentError("already-running", "a probe of this profile runs there already")
    launched: Launch = done["launch"]
    ctx.track(int(launched["pid"]))  # unlike a server it ends with whoever asked for it
    return launched


@contextlib.contextmanager
def _ended(ctx: Context, params: Mapping[str, Any]) -> Iterator[None]:
    """Whatever happens inside, nothing of the probe is left: processes, memory, its slot."""
    plan = params["plan"]
    try:
        yield
    finally:
        closing = Context(lambda event: ctx.emit(**event), ctx.session)  # a cancelled step ends its own, too
        closing.hide(ctx.secrets)
        if state.current(ctx.home, plan["slot"]) is not None:
            asked = {"slot": plan["slot"], "engines": params["engines"], "locked": True, "hooks": False}
            life.stop(closing, asked)
        shutil.rmtree(state.slot_dir(ctx.home, plan["slot"]), ignore_errors=True)


def _observed(
    ctx: Context, params: Mapping[str, Any], launched: Launch, place: str, told: Mapping[str, Any]
) -> Any:
    """(what was seen, what was measured): proven before, fingerprinted while the ranks still live."""
    watch = Watch(ctx, params["plan"]["profile"], launched, place, told)
    sampler = Sampler(ctx.facts, ctx.login_env)
    sampler.start()
    try:
        with ctx.step("start the ranks"):
            watch.until("ready")
        with ctx.step("prove the environment"):
            proven = _proven(ctx, params["plan"], launched, watch)
        early = told["tool"] == "nccl-tests"  # its process waits for nobody
        seen = _look(ctx, params, launched, proven, sampler) if early else None
        watch.open("go")
        with ctx.step("measure"):
            watch.until("measured")
            seen = seen or _look(ctx, params, launched, proven, sampler)
        watch.open("leave")
        with ctx.step("diagnose" if told["gpus"] else "end"):
            found = watch.until("done")
    finally:
        sampler.stop()
    if told["tool"] == "nccl-tests":
        found = found._replace(rows=probesheet.perf_rows(place, told))
    return seen, found


def _proven(ctx: Context, plan: Mapping[str, Any], launched: Launch, watch: Watch) -> Dict[str, Any]:
    """The proof that every rank has the profile's variables.

    Raises:
        AgentError: ``not-in-force``; ``died``: none of them lives any more.
    """
    try:
        proven = proof.prove(ctx, {"plan": plan, "launch_id": launched["launch_id"]})
    except AgentError as error:
        if error.kind == "no-server":
            watch.until("done")  # which says why
        raise
    if proven["verdict"] != "not-in-force":
        return proven
    told = []
    for worker in proven["workers"]:
        told += [f"{worker['title']}: {name} is missing" for name in worker["missing"]]
        told += [f"{worker['title']}: {name} is another" for name in worker["changed"]]
    what = f"the ranks do not run with the variables of {plan['profile']}"
    raise AgentError("not-in-force", what, told, detail={"proof": dict(proven)})


def _look(
    ctx: Context, params: Mapping[str, Any], launched: Launch, proven: Dict[str, Any], sampler: Sampler
) -> _Seen:
    """The fingerprint of the ranks, who else is on their GPUs, the machine."""
    found = _subject(ctx, params["plan"], launched)
    driver = sampler.state or gpu.query(ctx.facts, ctx.login_env)
    said = Server({}, params["plan"]["model"], False, 0, [])
    taken = fingerprint.of(ctx, params, found, said, driver, sampler.gpus())
    strangers = gpuuse.strangers(ctx, found, driver)
    return _Seen(proven, found, taken, strangers, sampler.machine())


def _subject(ctx: Context, plan: Mapping[str, Any], launched: Launch) -> Subject:
    """The probe as a server that is measured."""
    seen = snapshot(ctx.facts)
    members, _ = state.members(seen, launched)
    launcher = seen.by_pid.get(int(launched["pid"])) or members[0]
    workers = proof.workers(seen, members, launched, plan["engine"])
    return Subject(launched, plan, plan["engine"], launcher, tuple(members), tuple(workers), "", 0, {}, seen)


def _result(
    ctx: Context,
    params: Mapping[str, Any],
    told: Mapping[str, Any],
    model: Optional[Mapping[str, Any]],
    launched: Launch,
    seen: _Seen,
    found: Found,
    texts: Mapping[str, str],
) -> Dict[str, Any]:
    plan, versions = params["plan"], dict(found.ready or {})
    pretended = bool(versions.pop("simulated", False)) or bool(ctx.facts.simulated and told["gpus"])
    names = ("hidden", "dtype", "ranks")
    others = [f"another process is on the GPUs: {one['title'] or one['reason']}" for one in seen.strangers]
    return {
        "run_id": params["run_id"],
        "bench": {**params["bench"], **{name: told[name] for name in names}},
        "launch": launched,
        "engine": plan["engine"]["name"],
        "model": plan["model"],
        "engine_version": seen.fingerprint["versions"].get("engine", ""),
        "simulated": pretended,
        "warmup": None,
        "runs": probesheet.runs_of(found.rows, told),
        "requests": [],
        "contaminated": others,
        "machine": seen.machine,
        "fingerprint": seen.fingerprint,
        "probe": {
            "ranks": told["ranks"],
            "hidden": told["hidden"],
            "dtype": told["dtype"],
            "model": dict(model) if model else None,
            "versions": versions,
            "sizes": probesheet.summary(found.rows, told["ranks"]),
            "nccl": probesheet.diagnosis(texts, plan["env"]),
            "engine": probemodel.engine_way(ctx, str(params.get("serves") or "")),
            "proof": seen.proof,
        },
    }


def _kept(
    ctx: Context, folder: str, result: Dict[str, Any], found: Subject, texts: Mapping[str, str]
) -> Dict[str, Any]:
    """The result with where its raw files lie; a full disk costs those, not the measurement."""
    result["path"], result["unkept"] = folder, ""
    try:
        with ctx.step("write it down"):
            runfolder.write(ctx, folder, result, [], found, texts)
    except AgentError as error:
        if error.kind != "io":
            raise
        result["path"], result["unkept"] = "", error.what
    return result
