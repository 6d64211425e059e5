"""Waiting until a server is ready, and proving that it is; or telling at once why it will not be."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Dict, Mapping

from . import gate, proof
from .context import AgentError, Context
from .describe import process as noun
from .gate import NotYetError
from .procs import Process
from .scope import Finding
from .variables import without
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
        params: ``plan``, and ``launch_id`` (null: the slot's current one).

    Returns:
        ``{launch, ready_s, stages, model, completion, listeners, proof}``.

    Raises:
        AgentError: ``no-server``, ``died``, ``timeout``, ``stalled``, ``wrong-listener``, ``wrong-model``,
            ``unauthorised``, ``cancelled``: with the last lines of the log and what to do next.
    """
    secrets = params["plan"]["secrets"].values()
    try:
        found: Dict[str, Any] = without(secrets, _wait(ctx, params["plan"], params.get("launch_id")))
    except AgentError as error:
        said = without(secrets, error.to_wire())
        raise AgentError(error.kind, said["what"], said["evidence"], said["next"], said["detail"]) from error
    finally:
        ctx.locks.release()  # what the launch before kept
    return found


def _wait(ctx: Context, plan: Mapping[str, Any], launch_id: Any) -> Dict[str, Any]:
    launch = proof.launch_of(ctx, plan["slot"], launch_id)
    with contextlib.closing(Watch(ctx, plan, launch)) as watch:
        with ctx.step("ready") as step:
            found = _until_ready(watch, plan)
            step.detail = f"{found['completion']['tokens']} tokens of {found['model']}"
        with ctx.step("prove") as step:
            seen, members = watch.look()
            workers = proof.workers(seen, members, launch, plan["engine"])
            found["proof"] = proof.of_plan(plan, workers, ctx.check_cancelled)
            step.detail = found["proof"]["verdict"]
    return found


def _until_ready(watch: Watch, plan: Mapping[str, Any]) -> Dict[str, Any]:
    """Try the gates again and again; the watch ends it by an error when there is nothing to wait for."""
    while True:
        watch.tick()
        try:
            return _pass(watch, plan)
        except NotYetError as error:
            watch.waiting_for = str(error)
        failures = min(watch.failed_answers, len(_RETRY_S))
        pause = _RETRY_S[failures - 1] if failures else _UNHEALTHY_S if watch.place.unchanged() else POLL_S
        until = time.monotonic() + pause
        while time.monotonic() < until:
            time.sleep(POLL_S)
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
