"""The OpenAI API of a stand-in: models, completions, chat; streamed or whole."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any

from stoker.lab.standins import words
from stoker.lab.standins.frontend import EngineGoneError, Frontend, Tokens
from stoker.lab.standins.web import Request, Response, reply

Json = dict[str, Any]


@dataclass(frozen=True)
class Served:
    """What is served, and how strictly.

    Args:
        names: Model ids, the first of which is answered with.
        root: The model as it was given.
        owner: ``owned_by`` of the models.
        context: Tokens that prompt and answer may have together.
        api_key: Demanded as a bearer token; empty for none.
        any_model: Whether a request may name a model that is not served (SGLang does not look).
        error: Makes the engine's error object of a message, a type and a status.
    """

    names: tuple[str, ...]
    root: str
    owner: str
    context: int
    api_key: str
    any_model: bool
    error: Callable[[str, str, int], Json]


@dataclass(frozen=True)
class _Order:
    """A completion that was asked for, checked."""

    chat: bool
    model: str
    prompt_tokens: int
    max_new: int
    finish: str
    stream: bool
    usage: bool


class _RefusedError(Exception):
    def __init__(self, message: str, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind


class OpenAi:
    """Answers ``/v1/…``.

    Args:
        served: What is served.
        frontend: Where tokens come from.
    """

    def __init__(self, served: Served, frontend: Frontend) -> None:
        self._served = served
        self._frontend = frontend
        self._created = int(time.time())

    async def handle(self, request: Request) -> Response | None:
        """The answer, or None where the path is not ours."""
        routes = {
            "/v1/models": ("GET", self._models),
            "/v1/completions": ("POST", self._completions),
            "/v1/chat/completions": ("POST", self._completions),
        }
        if request.path not in routes:
            return None
        method, answer = routes[request.path]
        if request.method != method:
            return reply({"detail": "Method Not Allowed"}, 405)
        if self._served.api_key and request.headers.get("authorization") != f"Bearer {self._served.api_key}":
            return reply({"error": "Unauthorized"}, 401)
        try:
            return await answer(request)
        except _RefusedError as refused:
            return reply(self._served.error(refused.message, refused.kind, refused.status), refused.status)
        except EngineGoneError:
            return reply(
                self._served.error("EngineCore encountered an issue.", "InternalServerError", 500), 500
            )

    async def _models(self, _: Request) -> Response:
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": self._served.owner,
                "root": self._served.root,
                "parent": None,
                "max_model_len": self._served.context,
                "simulated": True,
            }
            for name in self._served.names
        ]
        return reply({"object": "list", "data": cards})

    async def _completions(self, request: Request) -> Response:
        order = self._order(request)
        tokens = self._frontend.generate(order.prompt_tokens, order.max_new, order.finish)
        if order.stream:
            return Response(kind="text/event-stream; charset=utf-8", stream=self._events(order, tokens))
        said: list[Tokens] = []
        try:
            async for part in tokens:
                said.append(part)
                if request.gone():
                    break
        finally:
            await tokens.aclose()
        return reply(self._whole(order, said))

    def _order(self, request: Request) -> _Order:
        try:
            body = request.json()
        except ValueError as error:
            raise _RefusedError(
                f"[{{'type': 'json_invalid', 'msg': 'JSON decode error: {error}'}}]"
            ) from None
        if not isinstance(body, dict):
            raise _RefusedError("Input should be a valid dictionary")
        chat = request.path == "/v1/chat/completions"
        field = "messages" if chat else "prompt"
        if field not in body:
            raise _RefusedError(
                f"[{{'type': 'missing', 'loc': ('body', '{field}'), 'msg': 'Field required'}}]"
            )
        model = body.get("model") or self._served.names[0]
        if model not in self._served.names and not self._served.any_model:
            raise _RefusedError(f"The model `{model}` does not exist.", 404, "NotFoundError")
        prompt = json.dumps(body[field])
        prompt_tokens = words.count_tokens(prompt if chat else body[field])
        wanted = self._max_tokens(body, prompt_tokens, chat=chat)
        natural = wanted if body.get("ignore_eos") else min(wanted, words.natural_length(prompt))
        return _Order(
            chat=chat,
            model=str(model),
            prompt_tokens=prompt_tokens,
            max_new=natural,
            finish="length" if natural == wanted else "stop",
            stream=bool(body.get("stream")),
            usage=bool((body.get("stream_options") or {}).get("include_usage")),
        )

    def _max_tokens(self, body: Json, prompt_tokens: int, *, chat: bool) -> int:
        room = self._served.context - prompt_tokens
        default = room if chat else 16
        wanted = body.get("max_completion_tokens") or body.get("max_tokens", default)
        if wanted is None:
            wanted = default
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
            raise _RefusedError(f"max_tokens must be at least 1, got {wanted}.")
        if wanted > room:
            raise _RefusedError(
                f"This model's maximum context length is {self._served.context} tokens. However, you "
                f"requested {wanted} output tokens and your prompt contains {prompt_tokens} input tokens."
            )
        return wanted

    async def _events(
        self, order: _Order, tokens: AsyncGenerator[Tokens, None]
    ) -> AsyncGenerator[bytes, None]:
        frame = self._frame(order, streamed=True)
        made = 0
        try:
            if order.chat:
                yield _event({**frame, "choices": [_delta({"role": "assistant", "content": ""}, None)]})
            async for part in tokens:
                made += part.number
                yield _event({**frame, "choices": [_choice(order, part)], "usage": None})
            if order.usage:
                yield _event({**frame, "choices": [], "usage": _usage(order.prompt_tokens, made)})
        except EngineGoneError:
            yield _event({"error": self._gone()})
        finally:
            await tokens.aclose()
        yield b"data: [DONE]\n\n"

    def _gone(self) -> Json:
        return self._served.error("The engine is gone. See its log.", "InternalServerError", 500)

    def _whole(self, order: _Order, said: list[Tokens]) -> Json:
        content = "".join(part.text for part in said)
        finish = said[-1].finish or None if said else None
        choice: Json = {"index": 0, "logprobs": None, "finish_reason": finish}
        if order.chat:
            choice["message"] = {"role": "assistant", "content": content, "tool_calls": None}
        else:
            choice["text"] = content
        usage = _usage(order.prompt_tokens, sum(part.number for part in said))
        return {**self._frame(order, streamed=False), "choices": [choice], "usage": usage}

    def _frame(self, order: _Order, *, streamed: bool) -> Json:
        kind = "text_completion"
        if order.chat:
            kind = "chat.completion.chunk" if streamed else "chat.completion"
        prefix = "chatcmpl" if order.chat else "cmpl"
        return {
            "id": f"{prefix}-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": order.model,
        }


def _choice(order: _Order, part: Tokens) -> Json:
    finish = part.finish or None
    if order.chat:
        return _delta({"content": part.text}, finish)
    return {"index": 0, "text": part.text, "logprobs": None, "finish_reason": finish}


def _delta(delta: Json, finish: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _usage(prompt: int, completion: int) -> Json:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}


def _event(data: Json) -> bytes:
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
