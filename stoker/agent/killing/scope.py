"""What a clean kill ends, what it only lists, what stops it: a pure decision over one look at the host."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import AbstractSet, Callable, Dict, FrozenSet, Iterable, List, Mapping, Optional, Pattern, Tuple

from ..gpus.owners import Owners
from ..processes.descriptors import overlap
from ..processes.families import Family, is_orphan
from ..processes.procs import Listener, Process, Snapshot
from ..processes.recognise import Protected, is_monitor, is_never, is_python


@dataclass(frozen=True)
class Target:
    """What is claimed.

    Args:
        gpus: Indices; None: every GPU of the host.
        addresses: Numeric addresses of the port.
        port: 0: none.
        match: End by this pattern over the command line, and by nothing else.
        own_only: End what this slot launched, and nothing else.
        force: Other holders too, where they may be signalled at all.
    """

    gpus: Optional[FrozenSet[int]] = frozenset()
    addresses: Tuple[str, ...] = ()
    port: int = 0
    match: Optional[Pattern[str]] = None
    own_only: bool = False
    force: bool = False


@dataclass(frozen=True)
class View:
    """One look at the host.

    Args:
        own: What this slot launched (on a whole host: every slot).
        slots: Pid to the slot that launched it, for the other slots of this home.
        families: Of ``families.find``.
        uid: Our own user.
        agent: Of ``caller.pids``: the agent, its ancestors, who asked.
        keeper: Says who would bring a process back; empty: nobody known.
    """

    snapshot: Snapshot
    listeners: Tuple[Listener, ...]
    owners: Owners
    families: Tuple[Family, ...]
    own: Tuple[Process, ...]
    slots: Mapping[int, str]
    uid: int
    agent: AbstractSet[int]
    protected: Protected
    keeper: Callable[[Process], str] = lambda process: ""


@dataclass(frozen=True)
class Finding:
    """A process (None: one that we cannot see) and why it is where it is."""

    process: Optional[Process]
    reason: str
    gpus: Tuple[int, ...] = ()
    ports: Tuple[int, ...] = ()
    gpu_mib: Optional[int] = None


@dataclass(frozen=True)
class Scope:
    """The decision.

    Args:
        ended: What is to be ended.
        listed: Engine processes elsewhere, and what else is worth showing.
        blockers: What stops the command.
        unknown: GPU index to why nobody can tell who uses it; stops the command too.
    """

    ended: Tuple[Finding, ...]
    listed: Tuple[Finding, ...]
    blockers: Tuple[Finding, ...]
    unknown: Mapping[int, str]


def decide(view: View, target: Target) -> Scope:
    """Apply the rules of a clean kill."""
    draft = _Draft(view, target)
    if target.match is not None:
        draft.end_matching()
        return draft.scope({})
    draft.end_own()
    if target.own_only:
        return draft.scope({})
    draft.place_families()
    draft.place_holders()
    draft.place_unseen()
    if target.force:
        draft.force()
    unknown = {i: why for i, why in view.owners.unknown.items() if target.gpus is None or i in target.gpus}
    return draft.scope(unknown)


def strays(view: View, left: Mapping[int, str]) -> Tuple[Finding, ...]:
    """What is left over of dead servers: what a cleaning of the whole host would end, no living server's.

    Args:
        view: With every slot's processes as ``own``.
        left: Pid to slot, of each launch of ours whose launcher is gone.

    Returns:
        With them the remains of an engine that hold nothing: a cleaning only lists those.
    """
    decided = decide(view, Target(gpus=None))
    served = {member.pid for family in view.families if family.launcher for member in family.members}
    served |= {process.pid for process in view.own}
    ended = {finding.process.pid for finding in decided.ended if finding.process}
    remains = {
        member.pid: f"{family.engine}, its launcher is gone"
        for family in view.families
        for member in family.members
        if not family.launcher and member.uid == view.uid
    }
    reasons = {
        **remains,
        **{pid: f"left by slot {slot}, whose launcher is gone" for pid, slot in left.items()},
    }
    return tuple(
        replace(finding, reason=reasons.get(finding.process.pid, finding.reason))
        for finding in (*decided.ended, *decided.listed)
        if finding.process is not None
        and (finding.process.pid in left or finding.process.pid not in served)
        and (finding.process.pid in ended or finding.process.pid in remains)
    )


@dataclass
class _Draft:
    """A decision in the making; each process is placed once, by the first rule that knows it."""

    view: View
    target: Target
    placed: Dict[int, Tuple[str, Finding]] = field(default_factory=dict)
    unseen: List[Finding] = field(default_factory=list)

    def scope(self, unknown: Mapping[int, str]) -> Scope:
        """What has been placed so far."""
        found = {where: tuple(f for w, f in self.placed.values() if w == where) for where in _PLACES}
        return Scope(found["ended"], found["listed"], found["blockers"] + tuple(self.unseen), unknown)

    def end_own(self) -> None:
        for process in self.view.own:
            if process.pid not in self.view.agent and not self.view.protected.covers(process):
                self._place("ended", process, "launched here by Stoker")

    def end_matching(self) -> None:
        pattern = self.target.match
        for process in self.view.snapshot.living():
            matches = pattern is not None and pattern.search(process.title) and self._may_signal(process)
            if matches and self.view.snapshot.is_ours(process) and not self._untouchable(process):
                self._place("ended", process, "its command line matches")

    def place_families(self) -> None:
        for family in self.view.families:
            members = [member for member in family.members if member.pid not in self.placed]
            if not members:
                continue
            head = family.launcher or members[0]
            slot = next((self.view.slots[m.pid] for m in members if m.pid in self.view.slots), "")
            if not any(self._claims(member) for member in members):
                if not self.view.snapshot.is_ours(head):
                    continue  # another host's, on the same machine
                for member in members:
                    self._place(
                        "listed", member, f"{family.engine}, " + (f"slot {slot}" if slot else "elsewhere")
                    )
            elif slot or head.uid != self.view.uid or not self.view.snapshot.is_ours(head):
                continue  # not ours to end: each that holds something is found as a holder
            elif self.view.keeper(head) and not self.target.force:
                for member in members:
                    self._place("blockers", member, f"{family.engine}: {self.view.keeper(head)}")
            else:
                self._end_family(family, members)

    def _end_family(self, family: Family, members: Iterable[Process]) -> None:
        state = "" if family.launcher else ", its launcher is gone"
        for member in members:
            if not self._untouchable(member):
                self._place("ended", member, f"{family.engine}{state}")

    def place_holders(self) -> None:
        for process in self._holders():
            if process.pid in self.placed:
                continue
            if self._is_stale(process):
                for member in (process, *self.view.snapshot.descendants(process.pid)):
                    if not self._untouchable(member):
                        self._place("ended", member, "stale: a Python process whose parent is gone")
            elif is_monitor(process) and not self._ports(process):
                self._place("listed", process, "serves or watches the GPUs")
            else:
                self._place("blockers", process, self._why_not(process))

    def place_unseen(self) -> None:
        for listener in self._target_listeners():
            if listener.pid is None:
                reason = f"a process of uid {listener.uid} that cannot be seen from here"
                self.unseen.append(Finding(None, reason, (), (listener.port,)))

    def force(self) -> None:
        """What may be signalled at all goes too, with all of its server: half of one is worth nothing."""
        for where, finding in list(self.placed.values()):
            process = finding.process
            if where != "blockers" or process is None or not self._may_force(process):
                continue
            for kin in (process, *self._kin(process)):
                if self._may_force(kin):
                    reason = f"forced: {finding.reason}"
                    self.placed[kin.pid] = ("ended", self._finding(kin, reason))

    def _may_force(self, process: Process) -> bool:
        return self._may_signal(process) and not self._untouchable(process)

    def _kin(self, process: Process) -> List[Process]:
        """The other processes of the same server."""
        slots = self.view.slots
        if process.pid in slots:
            mates = [pid for pid, slot in slots.items() if slot == slots[process.pid]]
            return [self.view.snapshot.by_pid[pid] for pid in mates]
        found = [family for family in self.view.families if process in family.members]
        return list(found[0].members) if found else []

    def _is_stale(self, process: Process) -> bool:
        """Whether nobody owns this Python process any more."""
        view = self.view
        return (
            bool(self._gpus(process))
            and process.uid == view.uid
            and process.pid not in view.slots
            and not self._untouchable(process)
            and view.snapshot.is_ours(process)
            and is_python(process)
            and is_orphan(view.snapshot, process)
            and not view.keeper(process)
        )

    def _why_not(self, process: Process) -> str:
        view = self.view
        if process.pid in view.slots:
            return f"belongs to slot {view.slots[process.pid]}"
        if process.uid != view.uid:
            return "another user's"
        if view.protected.covers(process):
            return "protected by the profile"
        if self._untouchable(process):
            return "never ended"
        kept = view.keeper(process)
        if kept:
            return kept
        parent = view.snapshot.by_pid.get(process.ppid)
        owner = f", owned by process {parent.pid} ({parent.comm})" if parent else ""
        return f"no engine that Stoker knows{owner}"

    def _untouchable(self, process: Process) -> bool:
        return process.pid in self.view.agent or is_never(process) or self.view.protected.covers(process)

    def _may_signal(self, process: Process) -> bool:
        return process.uid == self.view.uid or (self.view.uid == 0 and self.target.force)

    def _claims(self, process: Process) -> bool:
        # Without a GPU an engine has nothing else to hold: a whole host's cleaning takes it.
        everywhere = self.target.gpus is None and not self.view.owners.users
        return everywhere or bool(self._gpus(process) or self._ports(process))

    def _holders(self) -> List[Process]:
        pids = [pid for index, users in self.view.owners.users.items() if self._wants(index) for pid in users]
        pids += [listener.pid for listener in self._target_listeners() if listener.pid is not None]
        known = (self.view.snapshot.by_pid.get(pid) for pid in dict.fromkeys(pids))
        return [process for process in known if process is not None and not process.gone]

    def _wants(self, index: int) -> bool:
        return self.target.gpus is None or index in self.target.gpus

    def _gpus(self, process: Process) -> Tuple[int, ...]:
        return tuple(index for index in self.view.owners.gpus_of(process.pid) if self._wants(index))

    def _target_listeners(self) -> List[Listener]:
        wanted = self.target
        return [
            listener
            for listener in self.view.listeners
            if listener.port == wanted.port and any(overlap(listener.address, a) for a in wanted.addresses)
        ]

    def _ports(self, process: Process) -> Tuple[int, ...]:
        return tuple(sorted({one.port for one in self._target_listeners() if one.pid == process.pid}))

    def _place(self, where: str, process: Process, reason: str) -> None:
        self.placed.setdefault(process.pid, (where, self._finding(process, reason)))

    def _finding(self, process: Process, reason: str) -> Finding:
        owners = self.view.owners
        ports = tuple(sorted({one.port for one in self.view.listeners if one.pid == process.pid}))
        return Finding(process, reason, owners.gpus_of(process.pid), ports, owners.mib_of(process.pid))


_PLACES = ("ended", "listed", "blockers")
