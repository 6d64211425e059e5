"""What a running server says of itself: its arguments, its model, and whether it only pretends."""

from __future__ import annotations

import hashlib
import re
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from .. import outside
from ..asking import http
from ..asking.gate import MODELS_PATH, NO_LIST, same_model
from ..context import Context
from ..processes.recognise import model_of
from ..starting.subject import Subject
from ..variables import is_credential

_ANSWER_S = 10.0
_LONGEST_TEXT = 300
_ARGUMENTS_LIMIT = 2000
_DEPTH = 4
# What tells the command line again, keys included, or grows with every request.
_DROPPED = re.compile(r"launch_command|command|cmdline|argv|internal_states|env(ironment)?", re.IGNORECASE)


class Server(NamedTuple):
    """What the server says of itself.

    Args:
        args: Its arguments; empty where it does not tell.
        model: The id that it serves: of its list, or, where it has none, what it was launched for; empty
            where unknown.
        simulated: Whether it says that it only pretends.
        status: What it answers when asked for its models; 0: nothing.
        unread: Why something is missing.
    """

    args: Dict[str, Any]
    model: str
    simulated: bool
    status: int
    unread: List[str]


def ask(ctx: Context, found: Subject) -> Server:
    """Ask the server for its arguments and its model.

    Raises:
        AgentError: ``cancelled``.
    """
    unread: List[str] = []
    args: Dict[str, Any] = {}
    for path in found.engine["info_paths"]:
        answer, why, _ = _json(ctx, found, path)
        if isinstance(answer, dict):
            args = {n: v for n, v in answer.items() if n not in found.engine.get("info_passing", ())}
            break
        unread.append("arguments as the server reports them: GET %s: %s" % (path, why))
    if args:
        unread = []
    elif not found.engine["info_paths"]:
        unread = ["arguments as the server reports them: %s does not tell" % found.engine["name"]]
    entries, why, status = _listed(ctx, found)
    row = _chosen(found, entries)
    model = str(row.get("id", ""))
    if not entries and status in (200, *NO_LIST):
        model = _launched_for(found)
    if not model:
        unread.append("model: GET %s: %s" % (MODELS_PATH, why or "no model is listed"))
    simulated = args.get("simulated") is True or any(entry.get("simulated") is True for entry in entries)
    told = _told(args)
    if isinstance(row.get("meta"), dict):
        told["model_meta"] = _told(row["meta"])
    return Server(told, model, simulated, status, unread)


def _listed(ctx: Context, found: Subject) -> Tuple[List[Dict[str, Any]], str, int]:
    """(the models that it lists, why there are none, the answer's status)."""
    if not found.engine.get("lists_model", True):
        return [], "the list of %s does not tell what it serves" % found.engine["name"], 200
    models, why, status = _json(ctx, found, MODELS_PATH)
    return [row for row in outside.rows(models, "data") if row.get("id")], why, status


def _launched_for(found: Subject) -> str:
    """The model that it was started for: by Stoker, or as its command line says; empty where unknown."""
    if found.plan:
        return str(next(iter(found.plan["served_names"]), ""))
    if found.launch:
        return str(found.launch.get("model") or "")
    return model_of(found.launcher.argv, found.engine)


def _chosen(found: Subject, entries: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The plan's model among those that are served, else the first."""
    served = found.plan["served_names"] if found.plan else ()
    for entry in entries:
        if any(same_model(str(entry["id"]), name) for name in served):
            return entry
    return entries[0] if entries else {}


def _json(ctx: Context, found: Subject, path: str) -> Tuple[Any, str, int]:
    """(the answer, why there is none, its status)."""
    try:
        answer = http.get(found.address, found.port, path, _ANSWER_S, found.headers, poll=ctx.check_cancelled)
        if answer.status != 200:
            return None, "it answers %d" % answer.status, answer.status
        return answer.json(), "", answer.status
    except http.HttpError as error:
        return None, str(error), error.status


def _told(values: Mapping[str, Any], depth: int = _DEPTH) -> Dict[str, Any]:
    """Arguments without what looks like a key, without what grows, and in bounds."""
    told: Dict[str, Any] = {}
    for name, value in list(values.items())[:_ARGUMENTS_LIMIT]:
        if is_credential(str(name)) or _DROPPED.fullmatch(str(name)) or value in (None, "", [], {}):
            continue
        if isinstance(value, dict):
            if depth > 1:
                told[str(name)] = _told(value, depth - 1)
        elif isinstance(value, list):
            if all(not isinstance(item, (dict, list)) for item in value):
                told[str(name)] = value[:64]
        elif isinstance(value, str) and len(value) > _LONGEST_TEXT:
            digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16]
            told[str(name)] = "sha256:%s (%d characters)" % (digest, len(value))
        elif isinstance(value, (str, int, float)):
            told[str(name)] = value
    return told
