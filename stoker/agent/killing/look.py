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

from ..context import AgentError, Context
from ..gpus import owners
from ..gpus.gpu import GpuState
from ..launches import serving, state
from ..launches.state import Launch
from ..processes import caller, families, keeper, procs
from ..processes.procs import Process, Snapshot
from ..processes.recognise import Protected, Recogniser
from .scope import View

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
    facts, own = ctx.facts, set(own_slots)
    snapshot = procs.snapshot(facts)
    agent = caller.pids(snapshot, ctx.login_env)
    launched = _Launched(ctx, snapshot, recogniser)
    for slot in state.slots(ctx.home):
        for launch in state.leftovers(ctx.home, slot, facts):
            launched.add(slot, launch, is_own=slot in own)
    view = View(
        snapshot=snapshot,
        listeners=tuple(procs.listeners(None, snapshot)),
        owners=owners.find(snapshot, procs.holders(snapshot), driver, facts),
        families=tuple(families.find(snapshot, recogniser)),
        own=tuple(launched.ours.values()),
        slots=launched.slots,
        uid=os.getuid(),
        agent=agent,
        protected=Protected(protect),
        keeper=_keeper(snapshot, agent),
    )
    dead = tuple(filter(None, (_dead(ctx, slot) for slot in own)))
    _name_damaged(ctx, [*launched.all, *dead])
    return Sight(view, driver, recogniser, tuple(launched.own), dead, launched.containment, launched.heads)


class _Launched:
    """The launches that may have left processes, each with those that one snapshot shows.

    Attributes:
        all: Every one of them.
        own: Those of the slots that are meant; the names below are of these.
        ours: Their processes by pid.
        containment: How those were found, as ``state.members`` says.
        heads: Launch id to the process that is its server.
        slots: Pid to slot, of the processes of all other slots.
    """

    def __init__(self, ctx: Context, snapshot: Snapshot, recogniser: Recogniser) -> None:
        self._home = ctx.home
        self._snapshot = snapshot
        self._engines = recogniser.engines
        self.all: List[Launch] = []
        self.own: List[Launch] = []
        self.ours: Dict[int, Process] = {}
        self.containment = "none"
        self.heads: Dict[str, Process] = {}
        self.slots: Dict[int, str] = {}

    def add(self, slot: str, launch: Launch, *, is_own: bool) -> None:
        """Find the processes of a slot's launch."""
        self.all.append(launch)
        members, containment = state.members(self._snapshot, launch)
        self._snapshot.presume(int(launch["port"]), members)
        if not is_own:
            self.slots.update((member.pid, slot) for member in members)
            return
        self.own.append(launch)
        self.ours.update((member.pid, member) for member in members)
        if members or self.containment == "none":
            self.containment = containment
        engine = self._engines.get(str(launch.get("engine")), {})
        head = serving.head(self._home, self._snapshot, launch, members, engine)
        if head:
            self.heads[launch["launch_id"]] = head


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
