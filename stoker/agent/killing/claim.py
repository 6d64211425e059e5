"""What an operation claims on the host: slots, GPUs, a port; and which locks that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ..context import AgentError, Context
from ..gpus import gpu, owners
from ..gpus.gpu import GpuState
from ..launches import state
from ..launches.locks import gpu_lock, lock_set, port_lock, slot_lock
from ..launches.state import Launch
from ..processes import descriptors
from . import ending, look
from .scope import Target


@dataclass(frozen=True)
class Claim:
    """What is claimed.

    Args:
        target: For the decision.
        slots: Slots whose launches are ours to end.
        gpus: The GPUs as the driver names them.
        protect: As in a profile.
        grace_s: For our launcher; None: as its launch was planned.
        locks: Names of the locks to hold.
        wants_gpus: Whether the state of the GPUs matters, be they found or not.
    """

    target: Target
    slots: Tuple[str, ...]
    gpus: Tuple[Any, ...] = ()
    protect: Tuple[str, ...] = ()
    grace_s: Optional[float] = None
    locks: Tuple[str, ...] = ()
    wants_gpus: bool = False


def of_plan(ctx: Context, plan: Mapping[str, Any], driver: GpuState, force: bool) -> Claim:
    """What a plan claims (GPUs that are not there are the preflight's to tell)."""
    gpus, _ = owners.resolve(plan["gpus"], driver)
    return Claim(
        target=_target(plan["bind"], plan["port"], [gpu.index for gpu in gpus], force),
        slots=(plan["slot"],),
        gpus=tuple(gpus),
        protect=tuple(plan["kill"]["protect"]),
        grace_s=float(plan["kill"]["grace_s"]),
        locks=(
            slot_lock(ctx.home, plan["slot"]),
            *_gpu_locks(gpus),
            *(port_lock(a, plan["port"]) for a in descriptors.addresses(plan["bind"]) if plan["port"]),
        ),
        wants_gpus=bool(plan["gpus"]),
    )


def reserve(ctx: Context, params: Mapping[str, Any]) -> Dict[str, Any]:
    """The operation ``reserve``: what a plan claims stays ours from one operation to the next.

    Nobody else restarts, ends or measures what is on it until it is given up, or until this agent ends.

    Args:
        params: ``plan`` (null: give up all that was reserved), ``owner``, ``what`` (what it is for).

    Returns:
        ``{locks: [name]}``: what the plan claims.

    Raises:
        AgentError: ``lock-held``, ``io``.
    """
    plan = params.get("plan")
    if not plan:
        lock_set(ctx).give_up()
        return {"locks": []}
    driver = gpu.query(ctx.facts, ctx.login_env) if plan["gpus"] else look.NO_GPUS
    wanted = of_plan(ctx, plan, driver, False)
    lock_set(ctx).reserve(wanted.locks, ending.owner(params, str(params.get("what") or "reserve")))
    return {"locks": list(wanted.locks)}


def of_slot(ctx: Context, slot: str, driver: GpuState, force: bool) -> Claim:
    """What the slot's latest launch claims.

    Raises:
        AgentError: ``no-server``: there is no such slot.
    """
    launch = known_slot(ctx, slot)
    gpus, _ = owners.resolve(launch.get("gpu_uuids") or launch["gpus"], driver) if launch else ([], [])
    bind, port = (launch["bind"], int(launch["port"])) if launch else ("", 0)
    return Claim(
        target=_target(bind, port, [gpu.index for gpu in gpus], force),
        slots=(slot,),
        gpus=tuple(gpus),
        protect=_protected(launch),
        locks=(
            slot_lock(ctx.home, slot),
            *_gpu_locks(gpus),
            *(port_lock(address, port) for address in descriptors.addresses(bind) if port),
        ),
        wants_gpus=bool(launch and launch["gpus"]),
    )


def of_match(text: str, force: bool) -> Claim:
    """Whatever has such a command line."""
    return Claim(target=Target(match=look.pattern(text), force=force), slots=())


def of_host(ctx: Context, driver: GpuState, force: bool) -> Claim:
    """Everything of ours on the host."""
    slots = tuple(state.slots(ctx.home))
    return Claim(
        target=Target(gpus=None, force=force),
        slots=slots,
        gpus=tuple(driver.gpus),
        protect=tuple(entry for launch in state.launches(ctx.home) for entry in _protected(launch)),
        locks=(*(slot_lock(ctx.home, slot) for slot in slots), *_gpu_locks(driver.gpus)),
        wants_gpus=True,
    )


def of(ctx: Context, params: Dict[str, Any], driver: GpuState) -> Claim:
    """What a ``kill`` claims, by its parameters."""
    force = bool(params.get("force"))
    if params.get("plan"):
        return of_plan(ctx, params["plan"], driver, force)
    if params.get("slot"):
        return of_slot(ctx, params["slot"], driver, force)
    if params.get("match"):
        return of_match(params["match"], force)
    return of_host(ctx, driver, force)


def known_slot(ctx: Context, slot: str) -> Optional[Launch]:
    """The latest launch of a slot; None where it never got that far.

    Raises:
        AgentError: ``no-server``: there is no such slot.
    """
    if slot not in state.slots(ctx.home):
        known = ", ".join(state.slots(ctx.home)) or "none"
        raise AgentError("no-server", f"there is no slot {slot} here", next_step=f"known here: {known}")
    return state.current(ctx.home, slot)


def _target(bind: str, port: int, gpus: Sequence[int], force: bool) -> Target:
    return Target(frozenset(gpus), descriptors.addresses(bind) if port else (), port, force=force)


def _protected(launch: Optional[Launch]) -> Tuple[str, ...]:
    """What the profile of a launch forbids to end."""
    return tuple(launch["kill"].get("protect") or ()) if launch else ()


def _gpu_locks(gpus: Iterable[Any]) -> List[str]:
    return [gpu_lock(gpu.uuid or str(gpu.index)) for gpu in gpus]
