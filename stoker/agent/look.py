"""One look at the host: processes, listeners, GPUs and our launches, at one moment."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    Mapping,
    Optional,
    Pattern,
    Sequence,
    Set,
    Tuple,
)

from . import caller, families, keeper, owners, procs, serving, state
from .context import AgentError, Context
from .gpu import GpuState
from .procs import Process, Snapshot
from .recognise import Protected, Recogniser
from .scope import View
from .state import Launch

NO_GPUS = GpuState("none", "not asked for", [], [])


@dataclass(frozen=True)
class Sight:
    """What was seen.

    Args:
        view: For the decision.
        gpu: What the driver said; ``NO_GPUS`` where it was not asked.
        recogniser: Knows the engines.
        own: The launches that the view's ``own`` processes belong to.
        dead: The latest launches of those slots that have ended by themselves, with ``ended_at`` (Unix time).
        containment: How those were found, as ``state.members`` says.
        heads: Launch id to the process that is its server, of those of ``own`` that live.
    """

    view: View
    gpu: GpuState
    recogniser: Recogniser
    own: Tuple[Launch, ...]
    dead: Tuple[Launch, ...]
    containment: str
    heads: Mapping[str, Process]


def take(
    ctx: Context,
    recogniser: Recogniser,
    own_slots: Iterable[str],
    protect: Sequence[str] = (),
    driver: GpuState = NO_GPUS,
) -> Sight:
    """Look once.

    Args:
        own_slots: Slots whose processes may be ended as ours.
        protect: As in a profile.
        driver: What ``gpu.query`` said; it need not be asked where no GPU matters.

    Raises:
        AgentError: ``bad-request``: ``protect`` cannot be used.
    """
    facts = ctx.facts
    snapshot = procs.snapshot(facts)
    agent = caller.pids(snapshot, ctx.login_env)
    own = set(own_slots)
    ours: Dict[int, Process] = {}
    slots: Dict[int, str] = {}
    launches: List[Launch] = []
    recorded: List[Launch] = []
    heads: Dict[str, Process] = {}
    how = "none"
    for slot in state.slots(ctx.home):
        for launch in state.leftovers(ctx.home, slot, facts):
            recorded.append(launch)
            members, found_by = state.members(snapshot, launch)
            snapshot.presume(int(launch["port"]), members)
            if slot in own:
                launches.append(launch)
                engine = recogniser.engines.get(str(launch.get("engine")), {})
                served = serving.head(ctx.home, snapshot, launch, members, engine)
                heads.update({launch["launch_id"]: served} if served else {})
                how = found_by if members or how == "none" else how
                ours.update((member.pid, member) for member in members)
            else:
                slots.update((member.pid, slot) for member in members)
    view = View(
        snapshot=snapshot,
        listeners=tuple(procs.listeners(None, snapshot)),
        owners=owners.find(snapshot, procs.holders(snapshot), driver, facts),
        families=tuple(families.find(snapshot, recogniser)),
        own=tuple(ours.values()),
        slots=slots,
        uid=os.getuid(),
        agent=agent,
        protected=Protected(protect),
        keeper=_keeper(snapshot, agent),
    )
    dead = list(filter(None, (_dead(ctx, slot) for slot in own)))
    _name_damaged(ctx, [*recorded, *dead])
    return Sight(view, driver, recogniser, tuple(launches), tuple(dead), how, heads)


def _dead(ctx: Context, slot: str) -> Optional[Launch]:
    launch = state.current(ctx.home, slot)
    if launch is None or not state.is_this_boot(launch, ctx.facts):
        return None
    proof = os.path.join(state.launch_dir(ctx.home, slot, launch["launch_id"]), "empty")
    with contextlib.suppress(OSError):
        return {**launch, "ended_at": os.stat(proof).st_mtime}
    return None


def _name_damaged(ctx: Context, launches: Iterable[Launch]) -> None:
    """Say once which records could not be read whole: what is done goes by what the host shows instead."""
    said: Set[str] = ctx.session.held("damaged records", set)
    for why in {one["damaged"] for one in launches if "damaged" in one} - said:
        said.add(why)
        ctx.emit("note", text=why)


def _keeper(snapshot: Snapshot, agent: FrozenSet[int]) -> Callable[[Process], str]:
    known: Dict[int, str] = {}

    def who(process: Process) -> str:
        if process.pid not in known:
            found = keeper.find(snapshot, process, agent)
            known[process.pid] = str(found) if found else ""
        return known[process.pid]

    return who


def pattern(text: str) -> Pattern[str]:
    """The expression of ``kill --match``.

    Raises:
        AgentError: ``bad-request``.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise AgentError("bad-request", f"match: no regular expression: {error}") from error


def recogniser_of(params: Mapping[str, Any]) -> Recogniser:
    """Knows the engines of a request, the plan's own among them."""
    engines = list(params.get("engines") or ())
    plan = params.get("plan")
    return Recogniser([*engines, plan["engine"]] if plan else engines)
