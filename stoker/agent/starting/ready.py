"""Waiting until a server is ready, and proving that it is; or telling at once why it will not be."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Dict, Mapping

from ..asking import gate
from ..asking.gate import NotYetError
from ..context import Context
from ..killing.describe import process as noun
from ..killing.scope import Finding
from ..launches import state
from ..launches.locks import lock_set
from ..processes.procs import Process
from . import hooks, proof
from .watch import POLL_S, Watch

# A server that answers without tokens is asked again, less and less often: each question costs it work.
_UNHEALTHY_S = 0.2
_RETRY_S = (0.3, 0.5, 1.0, 2.0, 5.0)


def wait(ctx: Context, params: Mapping[str, Any]) -> Dict[str, Any]:
    """The operation ``wait``.

    The gates, in order: the launcher lives; every listener of the plan's address and port is a process of the
    launch; health answers 200; the model is the plan's; a completion of at least two tokens arrives, and the
    listeners are still the same. Then the workers' environment is proven; what that says is for the caller.

    Args:
        params: ``plan``, ``launch_id`` (null: the slot's current one), and ``after_ready``: run the plan's
            hooks of that name, unless its tuning is not in force.

    Returns:
        ``{launch, ready_s, stages, model, completion, listeners, proof, hooks, steps}``.

    Raises:
        AgentError: ``hook``: the server is ready, and what should follow failed; ``no-server``, ``died``,
            ``timeout``, ``stalled``, ``wrong-listener``, ``wrong-model``, ``unauthorised``, ``cancelled``:
            with the last lines of the log and what to do next.
    """
    try:
        return _wait(ctx, params)
    finally:
        lock_set(ctx).release()  # what the launch before kept


def _wait(ctx: Context, params: Mapping[str, Any]) -> Dict[str, Any]:
    plan = params["plan"]
    launch = state.must_have(ctx.home, plan["slot"], params.get("launch_id"))
    with contextlib.closing(Watch(ctx, plan, launch)) as watch:
        with ctx.step("ready") as step:
            found = _until_ready(watch, plan)
            step.detail = f"{found['completion']['tokens']} tokens of {found['model']}"
        with ctx.step("prove") as step:
            seen, members = watch.look()
            workers = proof.workers(seen, members, launch, plan["engine"])
            found["proof"] = proof.of_plan(plan, workers, ctx.check_cancelled)
            step.detail = found["proof"]["verdict"]
    found["launch"] = _noted(ctx, launch, found)
    passed = found["proof"]["verdict"] != "not-in-force"
    found["hooks"] = hooks.after_ready(ctx, plan) if params.get("after_ready") and passed else []
    found["steps"] = ctx.steps
    return found


def _noted(ctx: Context, launch: Dict[str, Any], found: Mapping[str, Any]) -> Dict[str, Any]:
    """The launch with when it was first ready, and what that took."""
    if launch.get("ready_s") is not None:
        return launch
    steps = [*launch.get("steps", ()), *ctx.steps]
    verdict = found["proof"]["verdict"]
    return state.amend(ctx.home, launch, {"ready_s": found["ready_s"], "verdict": verdict, "steps": steps})


def _until_ready(watch: Watch, plan: Mapping[str, Any]) -> Dict[str, Any]:
    """Try the gates again and again; the watch ends it by an error when there is nothing to wait for."""
    while True:
        watch.tick()
        try:
            return _pass(watch, plan)
        except NotYetError as error:
            watch.waiting_for = str(error)
        failures = min(watch.failed_answers, len(_RETRY_S))
        most_s = _UNHEALTHY_S if watch.place.unchanged() else POLL_S
        until = time.monotonic() + (_RETRY_S[failures - 1] if failures else watch.pause_s(most_s))
        while time.monotonic() < until:
            time.sleep(min(POLL_S, max(0.0, until - time.monotonic())))
            watch.tick()


def _pass(watch: Watch, plan: Mapping[str, Any]) -> Dict[str, Any]:
    """All gates, in order.

    Raises:
        NotYetError: The first one that does not open.
    """
    server, served = gate.server_of(plan), plan["served_names"]
    if not watch.place.unchanged():
        watch.check_listeners()
    gate.check_health(server, watch.tick)
    with watch.asking():
        model, listed = gate.find_model(server, served, watch.tick)
        watch.completing()
        completion = gate.complete(server, model, watch.left_s(), watch.tick)
        gate.check_answerer(completion, served, listed)
    # The answer came from whoever listened then: look once more.
    listeners = watch.check_listeners()
    watch.tick()
    watch.log.arrive()
    return {
        "launch": watch.launch,
        "ready_s": round(watch.age_s(), 3),
        "stages": watch.log.stages,
        "model": model,
        "completion": {"tokens": completion.tokens, "seconds": completion.seconds},
        "listeners": [_listener(process, plan) for process in listeners],
    }


def _listener(process: Process, plan: Mapping[str, Any]) -> Dict[str, Any]:
    return noun(Finding(process, "listens", ports=(int(plan["port"]),)))
