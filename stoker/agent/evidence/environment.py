"""The live environment of a server's workers, for a fingerprint: tuning by value, the rest by salted hash."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..context import Context
from ..processes import liveenv
from ..processes.liveenv import LiveEnv
from ..processes.procs import Process
from ..variables import TUNING_PREFIXES, is_credential, shown

_DIGITS = 16
_LEAST_SECRET = 8


class Environment(NamedTuple):
    """What is known of the workers' environments.

    Args:
        fields: The fingerprint's ``env env_hashed salt_id env_source env_differs engine_set``.
        unread: What could not be read, and why.
        secrets: Values of variables that look like credentials.
        live: Of the first worker that could be read; empty where none could.
    """

    fields: Dict[str, Any]
    unread: List[str]
    secrets: List[str]
    live: Mapping[str, str]


class Hasher:
    """Values to salted hashes; equal exactly for equal values of one name.

    Args:
        salt: The project's secret; empty: nothing is hashed.
    """

    def __init__(self, salt: str) -> None:
        self._salt = salt.encode("utf-8")

    def of(self, name: str, value: str) -> str:
        """The hash of a variable's value: 16 hex digits of HMAC-SHA256."""
        text = "%s\0%s" % (name, value)
        return hmac.new(self._salt, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[
            :_DIGITS
        ]


def read(
    ctx: Context,
    workers: Sequence[Process],
    launcher: Process,
    engine: Mapping[str, Any],
    params: Mapping[str, Any],
    planned: Mapping[str, str],
) -> Environment:
    """Read every worker's environment.

    Args:
        workers: At least one, or nothing is known.
        launcher: Its environment at exec tells what the engine set by itself.
        engine: ``Engine.to_wire()``.
        params: ``salt``, ``salt_id``, ``prefixes`` (null: the general ones and the engine's own).
        planned: What the profile sets.
    """
    envs = liveenv.read_all([worker.pid for worker in workers], ctx.check_cancelled)
    known = {pid: live for pid, live in envs.items() if live.source != "unreadable"}
    unread = _unread(workers, envs)
    salt = str(params.get("salt") or "")
    if not salt:
        unread.append("other variables of the environment: no salt was given to hash them with")
    prefixes = tuple(params.get("prefixes") or (*TUNING_PREFIXES, *engine["env_prefixes"]))
    hasher = Hasher(salt)
    agreed, differs = _merged(known)
    by_value = {n: v for n, v in agreed.items() if n.startswith(prefixes) and not is_credential(n)}
    hashed = {n: hasher.of(n, v) for n, v in agreed.items() if n not in by_value} if salt else {}
    fields = {
        "env": {name: shown(value) for name, value in sorted(by_value.items())},
        "env_hashed": dict(sorted(hashed.items())),
        "salt_id": str(params.get("salt_id") or "") if salt else "",
        "env_source": _source(known),
        "env_differs": _shown_differing(differs, prefixes, hasher if salt else None),
        "engine_set": sorted(_set_by_engine(by_value, launcher, engine, planned)),
    }
    live = next(iter(known.values())).env if known else {}
    return Environment(fields, unread, credentials(known.values()), live)


def credentials(envs: Iterable[LiveEnv]) -> List[str]:
    """Values of variables that look like credentials: they may appear nowhere."""
    found = {value for live in envs for name, value in live.env.items() if is_credential(name)}
    return sorted(value for value in found if len(value) >= _LEAST_SECRET)


def _unread(workers: Sequence[Process], envs: Mapping[int, LiveEnv]) -> List[str]:
    if not workers:
        return ["environment: the server has no worker"]
    return [
        "environment of worker %d (%s): %s" % (w.pid, shown(w.title)[:60], envs[w.pid].why)
        for w in workers
        if envs[w.pid].source != "memory"
    ]


def _source(known: Mapping[int, LiveEnv]) -> str:
    """The weakest of those that could be read."""
    if not known:
        return "unreadable"
    return "exec" if any(live.source == "exec" for live in known.values()) else "memory"


def _merged(known: Mapping[int, LiveEnv]) -> Tuple[Dict[str, str], Dict[str, Dict[int, Optional[str]]]]:
    """(what all workers agree on, name to each worker's value where they do not; None: unset)."""
    names = {name for live in known.values() for name in live.env}
    agreed: Dict[str, str] = {}
    differs: Dict[str, Dict[int, Optional[str]]] = {}
    for name in names:
        values = {pid: live.env.get(name) for pid, live in known.items()}
        one = next(iter(values.values()))
        if one is not None and all(value == one for value in values.values()):
            agreed[name] = one
        else:
            differs[name] = values
    return agreed, differs


def _shown_differing(
    differs: Mapping[str, Mapping[int, Optional[str]]], prefixes: Tuple[str, ...], hasher: Optional[Hasher]
) -> Dict[str, Dict[str, Optional[str]]]:
    found: Dict[str, Dict[str, Optional[str]]] = {}
    for name, values in sorted(differs.items()):
        if name.startswith(prefixes) and not is_credential(name):
            found[name] = {str(pid): None if v is None else shown(v) for pid, v in values.items()}
        elif hasher is not None:
            found[name] = {str(pid): None if v is None else hasher.of(name, v) for pid, v in values.items()}
    return found


def _set_by_engine(
    env: Mapping[str, str], launcher: Process, engine: Mapping[str, Any], planned: Mapping[str, str]
) -> List[str]:
    """Names whose values nobody gave to the launcher: the engine set them itself.

    What the launcher was given is its environment at exec. Where a title has overwritten that, what the
    engine is known to set counts, unless the profile sets it too.
    """
    try:
        given = liveenv.at_exec("/proc/%d/environ" % launcher.pid)
    except (OSError, liveenv.UnreadableError):
        rewrites = engine["rewrites"]
        return [n for n, v in env.items() if rewrites.get(n) in ("", v) and n not in planned]
    return [name for name, value in env.items() if given.get(name) != value]
