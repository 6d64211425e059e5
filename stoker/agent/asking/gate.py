"""What a server answers when asked whether it serves: health, its models, a completion with tokens in it."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Tuple

from .. import outside
from ..context import AgentError
from . import completion, http
from .http import HttpError, Poll
from .sse import AnswerError

MODELS_PATH = "/v1/models"
CHAT_PATH = "/v1/chat/completions"
PROMPT = "Count to ten: one, two, three,"
TOKENS = 8
ENOUGH_TOKENS = 2
_ANSWER_S = 30.0
# There is no list, or making it fails.
NO_LIST = (404, 405, 500, 501)


class NotYetError(Exception):
    """The server does not pass this gate now; the message says why."""


class Server(NamedTuple):
    """Where a server is, and how to ask it.

    Args:
        address: As it is bound.
        engine: ``Engine.to_wire()``.
        headers: With the API key, where there is one.
    """

    address: str
    port: int
    engine: Mapping[str, Any]
    headers: Dict[str, str]


class Completion(NamedTuple):
    """A completion that arrived.

    Args:
        tokens: By the server's own count, else the chunks with content.
        seconds: From the request to the last token.
        model: As the answer names it; empty where it does not.
    """

    tokens: int
    seconds: float
    model: str


def server_of(plan: Mapping[str, Any]) -> Server:
    """The server of a plan."""
    name = plan["engine"]["api_key_env"]
    key = plan["secrets"].get(name) or plan["env"].get(name) if name else None
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Server(plan["bind"], int(plan["port"]), plan["engine"], headers)


def check_health(server: Server, poll: Poll) -> None:
    """Health answers 200.

    Raises:
        NotYetError: It does not.
        AgentError: ``unauthorised``.
    """
    path = server.engine["health_path"]
    if path:
        _passed(_ask(server, path, poll), path)


def find_model(server: Server, served: Iterable[str], poll: Poll) -> Tuple[str, bool]:
    """The model's id, as the server lists it.

    Args:
        served: The ids that the plan allows.

    Returns:
        The id, and whether the server lists it. One that cannot list its models, or lists none, may load a
        model when it is asked for: then the plan's first, and the answer has to name it.

    Raises:
        NotYetError: It does not answer.
        AgentError: ``wrong-model``: it serves others; ``unauthorised``.
    """
    served = list(served)
    ids = _listed(server, poll)
    for name in ids or served[:1]:
        if any(same_model(name, wanted) for wanted in served):
            return name, bool(ids)
    raise wrong_model(ids, served)


def _listed(server: Server, poll: Poll) -> List[str]:
    if not server.engine.get("lists_model", True):
        return []
    answer = _ask(server, MODELS_PATH, poll)
    if answer.status in NO_LIST:
        return []
    rows = outside.rows(_json(_passed(answer, MODELS_PATH)), "data")
    return [str(row["id"]) for row in rows if row.get("id")]


def check_answerer(answer: Completion, served: Iterable[str], listed: bool) -> None:
    """The answer comes from the plan's model.

    Args:
        listed: Whether the server lists the model; an answer may be without a name then.

    Raises:
        NotYetError: Neither the list nor the answer names the model.
        AgentError: ``wrong-model``.
    """
    served = list(served)
    if not answer.model and not listed:
        raise NotYetError("neither the list of models nor the answer names the model")
    if answer.model and not any(same_model(answer.model, name) for name in served):
        raise wrong_model([answer.model], served)


def complete(server: Server, model: str, timeout_s: float, poll: Poll) -> Completion:
    """Ask for a few tokens and wait for them.

    Args:
        timeout_s: For the whole answer; the first one may have to load the model.

    Raises:
        NotYetError: No answer, an error, or fewer than two tokens.
        AgentError: ``unauthorised``.
    """
    reason = ""
    refused = ""
    for path, body in _requests(server, model):
        if path == refused:
            continue
        try:
            return _completion(server, path, body, timeout_s, poll)
        except HttpError as error:
            _check_key(error.status, server)
            reason = f"POST {path}: {error}"
            if error.status not in (400, 404, 405, 422, 501):
                break
            if error.status not in (400, 422):
                refused = path  # there is no such endpoint: another body does not help
    raise NotYetError(reason)


def same_model(have: str, want: str) -> bool:
    """Whether two names mean one model: equal, the last part of the other's path, or with a revision."""
    if os.path.normpath(have) == os.path.normpath(want):
        return True
    folder, slash, last = have.rpartition("/")
    if "@" in last and "@" not in want.rpartition("/")[2]:
        return same_model(folder + slash + last.partition("@")[0], want)
    bare = "/" not in have or "/" not in want
    return bare and os.path.basename(have.rstrip("/")) == os.path.basename(want.rstrip("/"))


def wrong_model(have: Iterable[str], want: Iterable[str]) -> AgentError:
    """The server serves another model than the plan's."""
    found, wanted = list(have), list(want)
    return AgentError(
        "wrong-model",
        f"the server serves {', '.join(found[:5])}, the profile wants {' or '.join(wanted)}",
        next_step="correct the profile's model or its served name, or restart the server",
        detail={"have": found, "want": wanted},
    )


def _requests(server: Server, model: str) -> List[Tuple[str, bytes]]:
    """Forms of the same question: as the engine takes it, then without extras, then to the chat endpoint."""
    engine = server.engine
    extra, stream_usage = engine["completion_extra"], bool(engine["stream_usage"])
    found: List[Tuple[str, bytes]] = []
    for path in dict.fromkeys((engine["completion_path"], CHAT_PATH)):
        rich = completion.body(path, model, PROMPT, TOKENS, extra, stream_usage)
        plain = completion.body(path, model, PROMPT, TOKENS, {}, False)
        found += [(path, body) for body in dict.fromkeys((rich, plain))]
    return found


def _completion(server: Server, path: str, body: bytes, timeout_s: float, poll: Poll) -> Completion:
    began = last = time.perf_counter()
    chunks, usage, model = 0, 0, ""
    asked = http.request(
        "POST",
        path,
        http.reachable(server.address),
        server.port,
        {**completion.HEADERS, **server.headers},
        body,
    )
    with http.Connection(server.address, server.port, timeout_s, poll) as connection:
        connection.send(asked)
        for event in connection.events():
            if event == completion.DONE:
                continue
            try:
                chunk = completion.parsed(event)
            except AnswerError as error:
                raise NotYetError(f"POST {path}: {error}") from error
            model = chunk.model or model
            usage = max(usage, chunk.tokens or 0)
            if chunk.content:
                chunks, last = chunks + 1, connection.arrived
    tokens = usage or chunks
    if tokens < ENOUGH_TOKENS:
        raise NotYetError(f"POST {path}: {tokens} tokens came, {ENOUGH_TOKENS} are needed")
    return Completion(tokens, round(last - began, 4), model)


def _ask(server: Server, path: str, poll: Poll) -> http.Response:
    try:
        answer = http.get(server.address, server.port, path, _ANSWER_S, server.headers, poll=poll)
    except HttpError as error:
        raise NotYetError(f"GET {path}: {error}") from error
    _check_key(answer.status, server)
    return answer


def _passed(answer: http.Response, path: str) -> http.Response:
    if answer.status != 200:
        raise NotYetError(f"GET {path} answers {answer.status}{_said(answer.body)}")
    return answer


def _json(answer: http.Response) -> Any:
    try:
        return answer.json()
    except HttpError as error:
        raise NotYetError(f"GET {MODELS_PATH}: {error}") from error


def _check_key(status: int, server: Server) -> None:
    if status not in (401, 403):
        return
    name = server.engine["api_key_env"]
    key = "refuses the API key" if server.headers else "wants an API key, and the profile names none"
    hint = f"give it in the profile: api_key: !secret NAME (it reaches the server as {name})" if name else ""
    raise AgentError("unauthorised", f"the server {key} (status {status})", next_step=hint)


def _said(body: bytes) -> str:
    text = " ".join(body[:400].decode("utf-8", "replace").split())
    return f": {text[:200]}" if text else ""
