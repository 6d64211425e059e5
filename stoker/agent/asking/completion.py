"""What a streamed completion is asked with, and what one event of its answer says."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Mapping, NamedTuple, Optional

from .. import outside
from .sse import AnswerError

HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream"}
DONE = b"[DONE]"
_UNSAID: Mapping[str, Any] = {}
_MOST_TOKENS = 1 << 40  # nobody counts further in one answer
_CONTENT = ("content", "reasoning_content", "reasoning")
_TEXT = re.compile(rb'"(?:text|content|reasoning_content|reasoning)": ?"')
_PLAIN = re.compile(rb'(?:[ !#-\[\]-~]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})+')  # what a string of JSON may hold


class Chunk(NamedTuple):
    """One event.

    Args:
        content: Whether it carries text: of an answer, or of a model's reasoning.
        usage: What the server counted; empty where it does not say.
        model: As the answer names it; empty where it does not.
        finish: Why it is over; empty while it is not.
        timings: What llama.cpp tells of a whole answer; empty else.
    """

    content: bool
    usage: Mapping[str, Any]
    model: str
    finish: str
    timings: Mapping[str, Any] = _UNSAID

    @property
    def tokens(self) -> Optional[int]:
        """Tokens so far by the server's own count; None: it has not said."""
        count = self.usage.get("completion_tokens")
        return count if type(count) is int and 0 <= count <= _MOST_TOKENS else None


def body(
    path: str, model: str, prompt: str, tokens: int, extra: Mapping[str, Any], stream_usage: bool
) -> bytes:
    """The body of a request.

    Args:
        path: The endpoint; one that ends in ``/chat/completions`` gets messages.
        extra: Fields the engine accepts, e.g. ``{"ignore_eos": true}``.
        stream_usage: Whether it takes ``stream_options``.
    """
    asked: Dict[str, Any] = {"model": model, "max_tokens": tokens, "temperature": 0, "stream": True}
    if stream_usage:
        asked["stream_options"] = {"include_usage": True}
    if path.endswith("/chat/completions"):
        asked["messages"] = [{"role": "user", "content": prompt}]
    else:
        asked["prompt"] = prompt
    return json.dumps({**asked, **extra}).encode("utf-8")


class Reader:
    """Reads the events of one answer: those that differ in nothing but their text are parsed once.

    Most of a generator's time would go into JSON else. An event is taken for such a one only where all of it
    but the text is the same, byte for byte, and the text is one of JSON in plain ASCII.
    """

    __slots__ = ("_chunk", "_head", "_tail")

    def __init__(self) -> None:
        self._head = self._tail = b""
        self._chunk: Optional[Chunk] = None

    def read(self, event: bytes) -> Chunk:
        """What one event says; as ``parsed``, which it raises as well."""
        head, tail = self._head, self._tail
        if (
            self._chunk is not None
            and event.startswith(head)
            and event.endswith(tail)
            and _PLAIN.fullmatch(event, len(head), len(event) - len(tail))
        ):
            return self._chunk
        chunk = parsed(event)
        self._chunk = chunk if chunk.content and not (chunk.usage or chunk.finish or chunk.timings) else None
        if self._chunk is not None:
            self._learn(event)
        return chunk

    def _learn(self, event: bytes) -> None:
        field = _TEXT.search(event)
        text = _PLAIN.match(event, field.end()) if field else None
        if field is None or text is None or event[text.end() : text.end() + 1] != b'"':
            self._chunk = None
            return
        self._head, self._tail = event[: field.end()], event[text.end() :]


def parsed(event: bytes) -> Chunk:
    """What one event says; not for the end mark.

    Raises:
        AnswerError: ``bad-json``: it is no chunk; ``server-error``: it tells an error.
    """
    try:
        chunk = outside.parse(event)
        if chunk.get("error"):
            raise AnswerError("server-error", "the server sent an error: %s" % _message(chunk["error"]))
        # The load generator comes by here with every token: loops, not generators.
        content, finish = False, ""
        for choice in chunk.get("choices") or ():
            content = content or _has_content(choice)
            finish = choice.get("finish_reason") or finish
        usage = chunk.get("usage")
        timings = chunk.get("timings")
        return Chunk(
            content,
            dict(usage) if usage else _UNSAID,
            str(chunk.get("model") or ""),
            str(finish),
            dict(timings) if timings else _UNSAID,
        )
    except (outside.OutsideError, ValueError, AttributeError, TypeError) as error:
        raise AnswerError("bad-json", "an event that is no chunk: %r" % event[:60]) from error


def _has_content(choice: Mapping[str, Any]) -> bool:
    if choice.get("text"):
        return True
    delta: Mapping[str, Any] = choice.get("delta") or _UNSAID
    return any(delta.get(name) for name in _CONTENT)


def _message(error: Any) -> str:
    found = error.get("message") if isinstance(error, dict) else error
    return str(found or error)[:200]
