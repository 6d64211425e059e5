"""What a clean kill was decided to be: the order, what it reports beforehand, and what refuses it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from ..context import AgentError
from ..launches import state
from ..processes.procs import Process
from . import describe, release, signals
from .look import Sight
from .scope import Scope, Target

Report = Dict[str, Any]

SHOWN = 12  # processes in a message


@dataclass(frozen=True)
class Patience:
    """How long is waited for what does not depend on us.

    Args:
        unkillable_s: What lives so long after SIGKILL cannot be killed.
        port_s: Until nobody listens any more.
        gpu_s: Until the driver has the memory back.
    """

    unkillable_s: float = signals.UNKILLABLE_S
    port_s: float = release.PORT_S
    gpu_s: float = release.GPU_S


@dataclass(frozen=True)
class Order:
    """One clean kill that was decided on.

    Args:
        grace_s: For launchers of ours; None: as their launches were planned.
        agreed: Only exactly these are ended, and what descends from them (a list that was agreed to).
    """

    sight: Sight
    scope: Scope
    target: Target
    grace_s: Optional[float] = None
    agreed: Optional[FrozenSet[Tuple[int, int]]] = None
    patience: Patience = Patience()


def nothing() -> Report:
    """The kill report of a command that had nothing to end."""
    return {
        "ended": [],
        "listed": [],
        "blockers": [],
        "unkillable": [],
        "released": {"processes": True, "port": True, "gpus": [], "shm": []},
        "steps": [],
        "hooks": [],
        "containment": "none",
    }


def report(order: Order) -> Report:
    """The kill report before anything was done."""
    scope = order.scope
    return {
        **nothing(),
        "ended": [describe.process(finding) for finding in scope.ended],
        "listed": [describe.process(finding) for finding in scope.listed],
        "blockers": [describe.process(finding) for finding in scope.blockers],
        "released": {"processes": False, "port": False, "gpus": [], "shm": []},
        "containment": order.sight.containment,
    }


def leaving(order: Order) -> List[state.Launch]:
    """The launches of ours whose server lives and is to be ended."""
    keys = {finding.process.key for finding in order.scope.ended if finding.process is not None}
    return [one for key, one in served(order).items() if key in keys]


def refuse_blocked(order: Order) -> None:
    """Stop where somebody else holds what is claimed.

    Raises:
        AgentError: ``blocked``, with the list; nobody was signalled.
    """
    scope = order.scope
    evidence = [describe.line(finding) for finding in scope.blockers]
    evidence += [f"GPU {index}: {why}" for index, why in sorted(scope.unknown.items())]
    if evidence:
        raise AgentError(
            "blocked",
            f"somebody else holds what this needs: {evidence[0]}",
            evidence[:SHOWN],
            next_step="end that yourself, choose other GPUs or another port, or --force what may be ended",
            detail={"kill": report(order), "unknown": {str(i): why for i, why in scope.unknown.items()}},
        )


def only_agreed(order: Order) -> Order:
    """The order limited to the list that was agreed to; what came since is listed."""
    agreed = order.agreed
    if agreed is None:
        return order
    snapshot = order.sight.view.snapshot

    def covers(process: Process) -> bool:
        return any(one.key in agreed for one in (process, *snapshot.ancestors(process.pid)))

    yes = tuple(f for f in order.scope.ended if f.process is not None and covers(f.process))
    no = tuple(
        replace(f, reason="came after the list was agreed to") for f in order.scope.ended if f not in yes
    )
    return replace(order, scope=replace(order.scope, ended=yes, listed=order.scope.listed + no))


def served(order: Order) -> Dict[Tuple[int, int], state.Launch]:
    """Our launches that live, by the process that is the server."""
    heads = order.sight.heads
    return {heads[one["launch_id"]].key: one for one in order.sight.own if one["launch_id"] in heads}
