"""The operation ``probe``: all-reduces alone, in a server's environment, launched and ended as one is."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Mapping, Optional

from ..context import AgentError, Context
from ..gpus import gpu
from ..killing import claim, describe
from ..killing.look import NO_GPUS
from ..launches import state
from ..launches.locks import lock_set
from ..launches.state import Launch
from ..measuring import inplace, runfolder
from ..measuring.inplace import Seen
from ..measuring.sampler import Sampler
from ..starting import proof
from . import probemodel, probesheet
from .probesheet import Found
from .probewatch import Watch

FOLDER = "probe"


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
    with lock_set(ctx).hold(claimed.locks, owner), inplace.ended(ctx, params):
        place = inplace.folder(ctx, plan, FOLDER)
        state.write(os.path.join(place, "probe.py"), str(params["script"]))
        state.write_json(os.path.join(place, "probe.json"), told)
        launched = inplace.launched(ctx, params, "a probe")
        seen, found = _observed(ctx, params, launched, place, told)
        texts = probesheet.logs(place)
        result = _result(ctx, params, told, model, launched, seen, found, texts)
        result["started_at"] = started_at
        return inplace.kept(ctx, folder, result, seen.subject, texts)


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
        seen = inplace.look_at(ctx, params, launched, proven, sampler) if early else None
        watch.open("go")
        with ctx.step("measure"):
            watch.until("measured")
            seen = seen or inplace.look_at(ctx, params, launched, proven, sampler)
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


def _result(
    ctx: Context,
    params: Mapping[str, Any],
    told: Mapping[str, Any],
    model: Optional[Mapping[str, Any]],
    launched: Launch,
    seen: Seen,
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
