"""vLLM's API server: binds early, forks the engine core, serves, shuts down in vLLM's order."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

from stoker.lab.standins import devices, settings, stages, tree, web
from stoker.lab.standins.frontend import Frontend
from stoker.lab.standins.model import Model, ModelError, read
from stoker.lab.standins.ranks import group
from stoker.lab.standins.vllm import __version__, arguments, core, log
from stoker.lab.standins.vllm.app import ROUTES, App

_LOG_EVERY_S = 10.0
_NO_DEVICE = "torch.AcceleratorError: CUDA error: invalid device ordinal"
_INIT_FAILED = (
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
)


@dataclass(frozen=True)
class _Engine:
    """The core, its helper, and the sockets to it."""

    core: tree.Child
    tracker: tree.Child
    requests: socket.socket
    tokens: socket.socket
    ready: socket.socket


def main(argv: Sequence[str]) -> int:
    """Run ``vllm serve``.

    Args:
        argv: What follows ``serve``.

    Returns:
        Its exit status.
    """
    began = time.monotonic()
    args = arguments.parse(argv)
    told = settings.load(os.environ)
    _greet(argv, args)
    try:
        sock = web.bound(args.host, args.port + (told.fault == "wrong-port"))
        model = _model(args)
    except (OSError, ModelError) as error:
        what = str(error) if isinstance(error, ModelError) else f"OSError: {error}"
        stages.write(f"Traceback (most recent call last):\n{what}\n")
        return 1
    _set_environment()
    context = _context(args, model)
    log.api("model.py:733", f"Resolved architecture: {model.architecture}")
    log.api("model.py:2152", f"Using max model len {context}")
    clock = stages.Clock(began, told.load_s)
    engine = _launch(args, told, model, context, clock, sock)
    signal.signal(signal.SIGTERM, lambda signum, frame: _interrupted(engine, signum, frame))
    if not _wait_ready(engine):
        stages.write(f"Traceback (most recent call last):\n{_INIT_FAILED}\n")
        return 1
    clock.until(0.95)
    return asyncio.run(_Server(args, context, clock, engine, sock).run())


def _greet(argv: Sequence[str], args: argparse.Namespace) -> None:
    banner = (
        f"\n       █     █     █▄   ▄█\n ▄▄ ▄█ █     █     █ ▀▄▀ █  version {__version__}\n"
        f"  █▄█▀ █     █     █     █  model   {args.model}\n   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀\n"
    )
    log.api("api_utils.py:347", banner)
    log.api("api_utils.py:286", f"non-default args: {arguments.given(argv, args)}")


def _model(args: argparse.Namespace) -> Model:
    model = read(args.model)
    if model.needs_trust and not args.trust_remote_code:
        raise ModelError(
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            f"  Value error, The repository {args.model} contains custom code which must be executed "
            "to correctly load the model. Please pass the argument `trust_remote_code=True` to allow custom "
            "code to be run."
        )
    return model


def _context(args: argparse.Namespace, model: Model) -> int:
    text = str(args.max_model_len or model.context)
    return model.context if text in ("auto", "-1") else int(text)


def _set_environment() -> None:
    """What importing the real vLLM changes in its own environment, and so in its children's."""
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ.setdefault("TRITON_CACHE_AUTOTUNING", "1")
    os.environ.setdefault("TILELANG_CLEANUP_TEMP_FILES", "1")


def _launch(
    args: argparse.Namespace,
    told: settings.Settings,
    model: Model,
    context: int,
    clock: stages.Clock,
    sock: socket.socket,
) -> _Engine:
    seen = devices.visible(told.machine, os.environ)
    size = args.tensor_parallel_size
    if size > len(seen):
        stages.write(f"Traceback (most recent call last):\n{_NO_DEVICE}\n{_INIT_FAILED}\n")
        raise SystemExit(1)
    work = core.Work(
        settings=told,
        model=model,
        gpus=tuple(seen[:size]),
        holders=tuple(devices.holders(told.machine)),
        group=group(size if size > 1 else 0),
        clock=clock,
        utilization=arguments.utilization(args),
        context=context,
        drafts=args.drafts,
        max_running=arguments.max_running(args),
        prefix=os.environ.get("VLLM_PROCESS_NAME_PREFIX", "VLLM"),
    )
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    tokens, spoken = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ready, reports = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    gc.freeze()  # what the children share stays shared
    tracker = tree.resource_tracker()

    def body() -> int:
        for end in (requests, tokens, ready, sock):
            end.close()  # the API server's alone: its port is free when it dies
        return core.run(work, theirs, spoken, reports)

    child = tree.fork("EngineCore", f"{work.prefix}::EngineCore", body, dies_with_parent=False)
    work.group.close()
    for end in (theirs, spoken, reports):
        end.close()
    return _Engine(child, tracker, requests, tokens, ready)


def _wait_ready(engine: _Engine) -> bool:
    """Wait for the core's word; False when it died without one."""
    word = engine.ready.fileno()
    readable, _, _ = select.select([word, engine.core.handle], [], [])
    return word in readable and bool(engine.ready.recv(16))


def _interrupted(engine: _Engine, _signum: int, _frame: FrameType | None) -> None:
    """SIGTERM before the server listens."""
    log.api("utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")
    tree.end([engine.core], grace_s=5.0)
    os._exit(0)


class _Server:
    """The API server once its engine is initialised."""

    def __init__(
        self,
        args: argparse.Namespace,
        context: int,
        clock: stages.Clock,
        engine: _Engine,
        sock: socket.socket,
    ) -> None:
        self._args = args
        self._clock = clock
        self._engine = engine
        self._sock = sock
        self._frontend = Frontend(engine.requests, engine.tokens)
        self._app = App(args, context, self._frontend)
        self._leaving = asyncio.Event()

    async def run(self) -> int:
        """Serve until SIGTERM, or until the engine is dead; the exit status."""
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self._shut_down)
        loop.add_reader(self._engine.core.handle, self._core_died)
        self._frontend.start()
        await asyncio.sleep(self._clock.began + self._clock.load_s - time.monotonic())
        host, port = self._sock.getsockname()[:2]
        log.api("entry.py:140", f"Starting vLLM server on http://{host}:{port}")
        log.api("launcher.py:186", "Available routes are:")
        for path, method in ROUTES:
            log.api("launcher.py:195", f"Route: {path}, Methods: {method}")
        log.uvicorn(f"Started server process [{os.getpid()}]")
        log.uvicorn("Waiting for application startup.")
        server = await web.serve(self._sock, self._app.handle, log.uvicorn)
        log.uvicorn("Application startup complete.")
        reporting = asyncio.ensure_future(self._report())
        await self._leaving.wait()
        reporting.cancel()
        await self._end()
        server.close()
        log.uvicorn("Shutting down")
        log.uvicorn("Waiting for application shutdown.")
        log.uvicorn("Application shutdown complete.")
        return 0

    def _shut_down(self) -> None:
        if not self._leaving.is_set():
            log.api("launcher.py:254", "[shutdown] API server: shutdown triggered")
            self._leaving.set()

    def _core_died(self) -> None:
        """The engine is dead: requests fail, health is 503, and the server leaves soon."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._engine.core.handle)
        dead = "MPClient: engine core exited unexpectedly; starting cleanup"
        log.api("core_client.py:817", f"[shutdown] {dead}", "WARNING")
        error = "EngineCore encountered an issue. See stack trace (above) for the root cause."
        log.api(
            "async_llm.py:906", "AsyncLLM output_handler failed.\nTraceback (most recent call last):", "ERROR"
        )
        log.api("async_llm.py:906", f"vllm.v1.engine.exceptions.EngineDeadError: {error}", "ERROR")
        self._app.dead = True
        self._frontend.fail()
        loop.call_later(1.0, self._leaving.set)

    async def _end(self) -> None:
        """The order of vLLM's own shutdown: drain where there is patience, the core, then the server."""
        timeout_s = float(self._args.shutdown_timeout or 0)
        mode = "drain" if timeout_s else "abort"
        stopping = f"stopping engine client mode={mode} timeout={timeout_s:.0f}s"
        log.api("launcher.py:270", f"[shutdown] API server: {stopping}")
        deadline = time.monotonic() + timeout_s
        while self._frontend.in_flight and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        asyncio.get_running_loop().remove_reader(self._engine.core.handle)
        log.api("utils.py:628", "[shutdown] Process manager: send sigterm to process EngineCore")
        await asyncio.to_thread(tree.end, [self._engine.core], grace_s=5.0)
        tree.end([self._engine.tracker], grace_s=0.0)
        log.api("core_client.py:777", "[shutdown] MPClient: complete")
        log.api("launcher.py:279", "[shutdown] API server: engine client stopped")
        log.api("launcher.py:304", "[shutdown] API server: shutting down FastAPI HTTP server")

    async def _report(self) -> None:
        """The summary that vLLM logs while it works."""
        made = self._frontend.stats.generation_tokens
        read_tokens = self._frontend.stats.prompt_tokens
        while True:
            await asyncio.sleep(_LOG_EVERY_S)
            stats = self._frontend.stats
            prompt_rate = (stats.prompt_tokens - read_tokens) / _LOG_EVERY_S
            rate = (stats.generation_tokens - made) / _LOG_EVERY_S
            log.api(
                "loggers.py:335",
                f"Engine 000: Avg prompt throughput: {prompt_rate:.1f} tokens/s, "
                f"Avg generation throughput: {rate:.1f} tokens/s, Running: {stats.running} reqs, "
                f"Waiting: {stats.waiting} reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%",
            )
            made, read_tokens = stats.generation_tokens, stats.prompt_tokens
