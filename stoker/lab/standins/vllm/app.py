"""vLLM's HTTP surface: health, version, metrics, and the OpenAI API."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from stoker.lab.standins import LABEL, prometheus
from stoker.lab.standins.api import OpenAi, Served
from stoker.lab.standins.frontend import Frontend
from stoker.lab.standins.prometheus import Metric
from stoker.lab.standins.vllm import __version__
from stoker.lab.standins.web import Request, Response, reply

ROUTES = (
    ("/health", "GET"),
    ("/load", "GET"),
    ("/version", "GET"),
    ("/metrics", "GET"),
    ("/ping", "GET"),
    ("/v1/models", "GET"),
    ("/v1/chat/completions", "POST"),
    ("/v1/completions", "POST"),
)


class App:
    """Answers requests.

    Args:
        args: The arguments.
        context: Tokens that prompt and answer may have together.
        frontend: Where tokens come from.

    Attributes:
        dead: Set once the engine core is gone.
    """

    def __init__(self, args: argparse.Namespace, context: int, frontend: Frontend) -> None:
        self.dead = False
        self._args = args
        self._frontend = frontend
        self._names = tuple(args.served_model_name or [args.model])
        keys = args.api_key or [os.environ.get("VLLM_API_KEY", "")]
        served = Served(
            names=self._names,
            root=args.model,
            owner="vllm",
            context=context,
            api_key=keys[0],
            any_model=False,
            error=_error,
        )
        self._openai = OpenAi(served, frontend)
        self._routes: dict[str, Callable[[], Response]] = {
            "/health": lambda: Response(503 if self.dead else 200),
            "/ping": lambda: Response(503 if self.dead else 200),
            "/version": lambda: reply({"version": __version__, "simulated": True, "simulated_by": LABEL}),
            "/load": lambda: reply({"server_load": 0}),
            "/metrics": self._metrics,
        }
        if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
            self._routes["/server_info"] = self._server_info

    async def handle(self, request: Request) -> Response:
        """The answer to one request."""
        if request.path in self._routes:
            return self._routes[request.path]()
        return await self._openai.handle(request) or reply({"detail": "Not Found"}, 404)

    def _server_info(self) -> Response:
        return reply({"vllm_config": vars(self._args), "simulated": True})

    def _metrics(self) -> Response:
        stats = self._frontend.stats
        labels: dict[str, object] = {"engine": 0, "model_name": self._names[0]}
        metrics = [
            _gauge(
                "num_requests_running",
                "Number of requests in model execution batches.",
                labels,
                stats.running,
            ),
            _gauge(
                "num_requests_waiting", "Number of requests waiting to be processed.", labels, stats.waiting
            ),
            _counter(
                "prompt_tokens_total", "Number of prefill tokens processed.", labels, stats.prompt_tokens
            ),
            _counter(
                "generation_tokens_total",
                "Number of generation tokens processed.",
                labels,
                stats.generation_tokens,
            ),
            Metric(
                "vllm:request_success_total",
                "counter",
                "Count of successfully processed requests.",
                tuple(
                    ({"engine": 0, "finished_reason": reason, "model_name": self._names[0]}, count)
                    for reason, count in stats.finished.items()
                ),
            ),
        ]
        if self._args.drafts:
            drafts = stats.drafted // self._args.drafts
            metrics += [
                _counter("spec_decode_num_drafts_total", "Number of spec decoding drafts.", labels, drafts),
                _counter(
                    "spec_decode_num_draft_tokens_total", "Number of draft tokens.", labels, stats.drafted
                ),
                _counter(
                    "spec_decode_num_accepted_tokens_total",
                    "Number of accepted tokens.",
                    labels,
                    stats.accepted,
                ),
            ]
        return prometheus.page(metrics)


def _gauge(name: str, about: str, labels: dict[str, object], value: float) -> Metric:
    return Metric(f"vllm:{name}", "gauge", about, ((labels, value),))


def _counter(name: str, about: str, labels: dict[str, object], value: float) -> Metric:
    return Metric(f"vllm:{name}", "counter", about, ((labels, value),))


def _error(message: str, kind: str, status: int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}
