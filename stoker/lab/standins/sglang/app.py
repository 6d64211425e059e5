"""SGLang's HTTP surface: health, server information, metrics, and the OpenAI API."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from stoker.lab.standins import LABEL, prometheus
from stoker.lab.standins.api import OpenAi, Served
from stoker.lab.standins.frontend import Frontend
from stoker.lab.standins.model import Model
from stoker.lab.standins.prometheus import Metric
from stoker.lab.standins.sglang import __version__, log
from stoker.lab.standins.web import Request, Response, reply

STARTING, UP, LEAVING = "starting", "up", "leaving"


class App:
    """Answers requests.

    Args:
        args: The resolved arguments.
        model: What is served.
        frontend: Where tokens come from.

    Attributes:
        status: ``STARTING`` until the warm-up has ended, ``UP``, ``LEAVING`` after SIGTERM.
    """

    def __init__(self, args: argparse.Namespace, model: Model, frontend: Frontend) -> None:
        self.status = STARTING
        self._args = args
        self._model = model
        self._frontend = frontend
        served = Served(
            names=(args.served_model_name,),
            root=args.served_model_name,
            owner="sglang",
            context=int(args.context_length or model.context),
            api_key=args.api_key or "",
            any_model=True,
            error=_error,
        )
        self._openai = OpenAi(served, frontend)
        self._routes: dict[str, Callable[[], Response]] = {
            "/server_info": self._server_info,
            "/get_server_info": self._server_info,
            "/model_info": self._model_info,
            "/get_model_info": self._model_info,
            "/flush_cache": lambda: Response(200, b"Cache flushed.\n", "text/plain; charset=utf-8"),
            "/ping": Response,
        }
        if args.enable_metrics:
            self._routes["/metrics"] = self._metrics

    async def handle(self, request: Request) -> Response:
        """The answer to one request."""
        if request.path in ("/health", "/health_generate"):
            return await self._health()
        if request.path == "/metrics" and "/metrics" in self._routes:
            return self._metrics()
        key = self._args.api_key
        if key and request.headers.get("authorization") != f"Bearer {key}":
            return reply({"error": "Unauthorized"}, 401)
        if request.path in self._routes:
            return self._routes[request.path]()
        return await self._openai.handle(request) or reply({"detail": "Not Found"}, 404)

    async def _health(self) -> Response:
        """503 while starting or leaving, else a token is generated (the real one also waits a second)."""
        if self.status == LEAVING:
            log.line("Health check request received during shutdown. Returning 503.")
        if self.status != UP:
            return Response(503)
        if not self._frontend.in_flight:
            await self.probe(counted=False)
        return Response(200)

    async def probe(self, *, counted: bool) -> None:
        """Generate one token.

        Raises:
            EngineGone: The schedulers are gone.
        """
        async for _ in self._frontend.generate(1 if not counted else 6, 1, "length", counted=counted):
            pass

    def _server_info(self) -> Response:
        state: dict[str, Any] = {
            "last_gen_throughput": 0.0,
            "effective_max_running_requests_per_dp": self._args.max_running_requests,
        }
        if self._args.speculative_algorithm:
            state["avg_spec_accept_length"] = round(self._frontend.stats.accept_length, 4)
        info = {
            **vars(self._args),
            "status": "ready",
            "launch_command": " ".join(sys.orig_argv),
            "internal_states": [state],
            "version": __version__,
            "frontend": "python",
            "simulated": True,
            "simulated_by": LABEL,
        }
        return reply(info)

    def _model_info(self) -> Response:
        info = {
            "model_path": self._args.model_path,
            "served_model_name": self._args.served_model_name,
            "is_generation": True,
            "architectures": [self._model.architecture],
            "simulated": True,
        }
        return reply(info)

    def _metrics(self) -> Response:
        stats = self._frontend.stats
        model = {"model_name": self._args.served_model_name}
        ranks = {"engine_type": "unified", **model, "moe_ep_rank": 0, "pp_rank": 0, "tp_rank": 0}
        streaming = {**model, "is_streaming": "true"}
        metrics = [
            _gauge("num_running_reqs", "The number of running requests.", ranks, stats.running),
            _gauge("num_queue_reqs", "The number of requests in the waiting queue.", ranks, stats.waiting),
            _counter("prompt_tokens_total", "Prefill tokens processed.", streaming, stats.prompt_tokens),
            _counter(
                "generation_tokens_total",
                "Number of generation tokens processed.",
                streaming,
                stats.generation_tokens,
            ),
            _counter(
                "num_requests_total",
                "Number of requests processed.",
                streaming,
                stats.finished["stop"] + stats.finished["length"],
            ),
            _counter("num_aborted_requests_total", "Requests aborted.", model, stats.finished["abort"]),
        ]
        if self._args.speculative_algorithm:
            rate = stats.accepted / stats.drafted if stats.drafted else 0.0
            about = "Mean acceptance length of speculative decoding."
            metrics += [
                _gauge("spec_accept_length", about, ranks, stats.accept_length),
                _gauge("spec_accept_rate", "Speculative acceptance rate.", ranks, rate),
            ]
        return prometheus.page(metrics)


def _gauge(name: str, about: str, labels: dict[str, object], value: float) -> Metric:
    return Metric(f"sglang:{name}", "gauge", about, ((labels, value),))


def _counter(name: str, about: str, labels: dict[str, object], value: float) -> Metric:
    return Metric(f"sglang:{name}", "counter", about, ((labels, value),))


def _error(message: str, kind: str, status: int) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": status}
