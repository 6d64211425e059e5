"""What is launched in a server's environment in place of the server, and ended whatever happens."""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple

from ..context import AgentError, Context
from ..evidence import fingerprint, gpuuse
from ..evidence.serverinfo import Server
from ..gpus import gpu
from ..launches import state
from ..launches.state import Launch
from ..processes.procs import snapshot
from ..starting import life, proof
from ..starting.subject import Subject
from . import runfolder
from .sampler import Sampler


class Seen(NamedTuple):
    """What was looked at while it lived."""

    proof: Dict[str, Any]
    subject: Subject
    fingerprint: Dict[str, Any]
    strangers: List[Dict[str, Any]]
    machine: Dict[str, Any]


def next_step(what: str) -> str:
    """What to do about something in the way."""
    return f"{what} ends nothing: inv stop ends it, --force measures beside it (contaminated)"


def folder(ctx: Context, plan: Mapping[str, Any], name: str) -> str:
    """A fresh folder of the slot.

    Raises:
        AgentError: ``io``.
    """
    place = os.path.join(state.slot_dir(ctx.home, plan["slot"]), name)
    shutil.rmtree(place, ignore_errors=True)
    try:
        os.makedirs(place, 0o700)
    except OSError as error:
        raise state.io_error(place, error) from error
    return place


def launched(ctx: Context, params: Mapping[str, Any], what: str) -> Launch:
    """Start it as a server is started: it ends nothing that is in the way.

    Args:
        ctx: The operation's context.
        params: ``plan``, ``engines``, ``force`` (beside what holds the GPUs).
        what: What it is, for messages: ``a probe``.

    Raises:
        AgentError: As ``life.restart``.
    """
    asked = {name: params[name] for name in ("plan", "engines")}
    try:
        done = life.restart(ctx, {**asked, "replace": False, "locked": True, "beside": params.get("force")})
    except AgentError as error:
        if error.kind == "blocked":
            error.next_step = next_step(what)
        raise
    if done["already_running"]:
        raise AgentError("already-running", f"{what} of this profile runs there already")
    begun: Launch = done["launch"]
    ctx.track(int(begun["pid"]))  # unlike a server it ends with whoever asked for it
    return begun


@contextlib.contextmanager
def ended(ctx: Context, params: Mapping[str, Any]) -> Iterator[None]:
    """Whatever happens inside, nothing of it is left: processes, memory, its slot."""
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


def look_at(
    ctx: Context, params: Mapping[str, Any], begun: Launch, proven: Dict[str, Any], sampler: Sampler
) -> Seen:
    """The fingerprint of what was launched, who else is on its GPUs, the machine."""
    found = _subject(ctx, params["plan"], begun)
    driver = sampler.state or gpu.query(ctx.facts, ctx.login_env)
    said = Server({}, params["plan"]["model"], False, 0, [])
    taken = fingerprint.of(ctx, params, found, said, driver, sampler.gpus())
    strangers = gpuuse.strangers(ctx, found, driver)
    return Seen(proven, found, taken, strangers, sampler.machine())


def _subject(ctx: Context, plan: Mapping[str, Any], begun: Launch) -> Subject:
    """It as a server that is measured."""
    seen = snapshot(ctx.facts)
    members, _ = state.members(seen, begun)
    launcher = seen.by_pid.get(int(begun["pid"])) or members[0]
    workers = proof.workers(seen, members, begun, plan["engine"])
    return Subject(begun, plan, plan["engine"], launcher, tuple(members), tuple(workers), "", 0, {}, seen)


def kept(
    ctx: Context, path: str, result: Dict[str, Any], found: Subject, texts: Mapping[str, str]
) -> Dict[str, Any]:
    """The result with where its raw files lie; a full disk costs those, not the measurement."""
    result["path"], result["unkept"] = path, ""
    try:
        with ctx.step("write it down"):
            runfolder.write(ctx, path, result, [], found, texts)
    except AgentError as error:
        if error.kind != "io":
            raise
        result["path"], result["unkept"] = "", error.what
    return result
