"""Which server is measured, and what belongs to it: one of ours by its slot, anybody's by its port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..asking import gate, http
from ..context import AgentError, Context
from ..launches import serving, state
from ..processes import families, liveenv, procs
from ..processes.descriptors import addresses
from ..processes.procs import Listener, Process, Snapshot, listeners, overlap, snapshot
from ..processes.recognise import Recogniser, flag_value
from . import proof

# For a server whose kind nobody knows: what every server with an OpenAI API has.
UNKNOWN_ENGINE: Dict[str, Any] = {
    "name": "openai",
    "shapes": [],
    "titles": [],
    "workers": [],
    "api_key_env": "",
    "distribution": "",
    "version_argv": [],
    "completion_path": "/v1/completions",
    "completion_extra": {},
    "stream_usage": True,
    "info_paths": [],
    "metrics": {"path": "", "running": [], "waiting": [], "finished": [], "generation_tokens": []},
    "rewrites": {},
    "env_prefixes": [],
}


@dataclass(frozen=True)
class Subject:
    """A server that runs.

    Args:
        launch: As recorded; None for one that somebody started by hand.
        plan: Of this very launch; None where it runs something else, or nobody planned it.
        engine: ``Engine.to_wire()``.
        launcher: Its first process.
        members: All of its processes.
        workers: Those whose environment carries the tuning.
        address: Where it listens, as it is bound.
        headers: With the API key, where there is one.
        seen: The snapshot all of this comes from.
    """

    launch: Optional[Dict[str, Any]]
    plan: Optional[Mapping[str, Any]]
    engine: Mapping[str, Any]
    launcher: Process
    members: Tuple[Process, ...]
    workers: Tuple[Process, ...]
    address: str
    port: int
    headers: Dict[str, str]
    seen: Snapshot

    @property
    def server(self) -> gate.Server:
        """Where to ask it."""
        return gate.Server(self.address, self.port, self.engine, self.headers)

    @property
    def secrets(self) -> List[str]:
        """Values that may appear in nothing that leaves the host."""
        planned = list(self.plan["secrets"].values()) if self.plan else []
        sent = [value.partition(" ")[2] for value in self.headers.values()]
        return [value for value in planned + sent if value]


def find(ctx: Context, params: Mapping[str, Any]) -> Subject:
    """The server that is meant.

    Args:
        params: ``engines``, and ``slot``, ``plan`` (its slot, else its port) or ``port``; none of them: the
            only server that runs.

    Raises:
        AgentError: ``no-server``: nothing runs there; ``bad-request``: several do.
    """
    seen = snapshot(ctx.facts)
    plan = params.get("plan")
    slot = params.get("slot") or (plan["slot"] if plan else "")
    if slot:
        found = _launched(ctx, params, seen, slot)
        if found is not None:
            return found
    port = int(params.get("port") or (plan["port"] if plan else 0))
    if port:
        return _on_port(params, seen, port)
    if slot:
        raise _nobody("nothing runs in slot %s" % slot)
    return _only(ctx, params, seen)


def _launched(ctx: Context, params: Mapping[str, Any], seen: Snapshot, slot: str) -> Optional[Subject]:
    launch = state.current(ctx.home, slot)
    members, _ = state.members(seen, launch) if launch else ([], "none")
    if launch is None or not members:
        return None
    listener = _listener(seen, launch, members)
    plan = params.get("plan")
    mine = plan if plan and plan["profile_hash"] == launch.get("profile_hash") else None
    engine = mine["engine"] if mine else engine_named(params, str(launch.get("engine", "")))
    launcher = serving.head(ctx.home, seen, launch, members, engine) or members[0]
    workers = proof.workers(seen, members, launch, engine)
    headers = gate.server_of(plan).headers if plan else {}
    return Subject(
        launch=launch,
        plan=mine,
        engine=engine,
        launcher=launcher,
        members=tuple(members),
        workers=tuple(workers),
        address=listener.address,
        port=listener.port,
        headers=headers or key_of(engine, launcher),
        seen=seen,
    )


def _listener(seen: Snapshot, launch: Dict[str, Any], members: List[Process]) -> Listener:
    """Where a launch listens. Two servers can share a port without an error: every listener must be its own.

    Raises:
        AgentError: ``no-server``: it does not listen; ``wrong-listener``: somebody else does, too.
    """
    bind = addresses(str(launch["bind"]))
    seen.presume(int(launch["port"]), members)
    rows = [row for row in listeners(int(launch["port"]), seen) if any(overlap(row.address, a) for a in bind)]
    if not rows:
        what = "the server of slot %s runs, but listens on no port yet" % launch["slot"]
        raise AgentError("no-server", what, next_step="wait for it: inv wait --slot %s" % launch["slot"])
    pids = {member.pid for member in members}
    others = [row for row in rows if row.pid not in pids]
    if others:
        held = ["%s:%d is held by pid %s" % (row.address, row.port, row.pid or "unknown") for row in others]
        what = "another process listens on the server's port too"
        raise AgentError("wrong-listener", what, held, next_step="end it, or give the server another port")
    return rows[0]


def _on_port(params: Mapping[str, Any], seen: Snapshot, port: int) -> Subject:
    """A server that somebody started by hand, found by who listens."""
    rows = [row for row in listeners(port, seen) if row.pid and seen.is_ours(seen.by_pid[row.pid])]
    bind = addresses(params["plan"]["bind"]) if params.get("plan") else []
    found = [row for row in rows if any(overlap(row.address, address) for address in bind)] if bind else rows
    if not found:
        raise _nobody("no process that we may look into listens on port %d" % port)
    known = families.find(seen, Recogniser(params["engines"]))
    for row in found:
        for family in known:
            if row.pid in {member.pid for member in family.members}:
                engine = engine_named(params, family.engine)
                launcher = family.launcher or family.members[0]
                return by_hand(params, seen, engine, launcher, list(family.members), row)
    process = seen.by_pid[int(found[0].pid or 0)]
    plan = params.get("plan")
    engine = plan["engine"] if plan else engine_named(params, "")
    return by_hand(params, seen, engine, process, [process, *seen.descendants(process.pid)], found[0])


def by_hand(
    params: Mapping[str, Any],
    seen: Snapshot,
    engine: Mapping[str, Any],
    launcher: Process,
    members: List[Process],
    listener: Listener,
) -> Subject:
    """A server that nobody launched by Stoker.

    Args:
        launcher: Its first process.
        members: All of its processes.
        listener: Where it listens.
    """
    root = {"pid": launcher.pid, "start": launcher.start}
    plan = params.get("plan")
    headers = gate.server_of(plan).headers if plan else {}
    return Subject(
        launch=None,
        plan=None,
        engine=engine,
        launcher=launcher,
        members=tuple(members),
        workers=tuple(proof.workers(seen, members, root, engine)),
        address=listener.address,
        port=listener.port,
        headers=key_of(engine, launcher) or headers,
        seen=seen,
    )


def _only(ctx: Context, params: Mapping[str, Any], seen: Snapshot) -> Subject:
    """The only server that runs, whoever started it."""
    members = {launch["slot"]: state.members(seen, launch)[0] for launch in state.launches(ctx.home)}
    living = {slot: found for slot, found in members.items() if found}
    slots = list(living)
    ours = {p.pid for members in living.values() for p in members}
    rows = listeners(None, seen)
    ports: Dict[int, str] = {}
    for family in families.find(seen, Recogniser(params["engines"])):
        pids = {member.pid for member in family.members}
        if pids & ours or not all(seen.is_ours(member) for member in family.members[:1]):
            continue
        for row in rows:
            if row.pid in pids and _serves(row):
                ports.setdefault(row.port, family.engine)
    holders = {pid for pids in procs.holders(seen).values() for pid in pids}
    for row in rows if holders else ():
        if row.pid and row.pid not in ours and row.port not in ports and seen.is_ours(seen.by_pid[row.pid]):
            below = {row.pid, *(process.pid for process in seen.descendants(row.pid))}
            if below & holders and _serves(row):  # no engine that Stoker knows, but on a GPU
                ports[row.port] = seen.by_pid[row.pid].comm
    if len(slots) + len(ports) == 1:
        found = _launched(ctx, params, seen, slots[0]) if slots else None
        return found or _on_port(params, seen, next(iter(ports)))
    if not slots and not ports:
        raise _nobody("no server runs here")
    choices = ["slot %s" % slot for slot in slots] + ["port %d (%s)" % pair for pair in ports.items()]
    raise AgentError(
        "bad-request", "several servers run here", choices, "say which: --slot NAME, or --port PORT"
    )


def _serves(row: Listener) -> bool:
    """Whether a listener answers with a list of models: engines listen on inner ports too."""
    try:
        answer = http.get(row.address, row.port, gate.MODELS_PATH, 5.0)
    except http.HttpError:
        return False
    return answer.status in (200, 401, 403)


def engine_named(params: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An engine of the request; one that nobody knows has what every OpenAI API has."""
    known = {engine["name"]: engine for engine in params["engines"]}
    return known.get(name) or known.get("openai") or UNKNOWN_ENGINE


def key_of(engine: Mapping[str, Any], launcher: Process) -> Dict[str, str]:
    """The API key as the server itself was given it: it stays on this host, where the request goes too."""
    name = engine["api_key_env"]
    key = flag_value(launcher.argv, "--api-key")
    if not key and name:
        key = liveenv.read(launcher.pid).env.get(name, "")
    return {"Authorization": "Bearer %s" % key} if key else {}


def _nobody(what: str) -> AgentError:
    return AgentError("no-server", what, next_step="start one: inv start --host HOST --profile NAME")
