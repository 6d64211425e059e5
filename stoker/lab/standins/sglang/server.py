"""SGLang's launcher: forks the schedulers and the detokenizer, waits, serves, drains, ends its tree."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import random
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from stoker.lab.standins import devices, settings, stages, tree, web
from stoker.lab.standins.frontend import EngineGoneError, Frontend
from stoker.lab.standins.model import Model, ModelError, read
from stoker.lab.standins.ranks import group
from stoker.lab.standins.sglang import arguments, log, worker
from stoker.lab.standins.sglang.app import LEAVING, UP, App
from stoker.lab.standins.sglang.arguments import drafts

_SCHEDULERS_END_S = 15.0


@dataclass(frozen=True)
class _Engine:
    """The launcher's children, and its sockets to them."""

    children: list[tree.Child]
    shared: tree.SharedMemory
    requests: socket.socket
    tokens: socket.socket
    ready: socket.socket


def main(argv: Sequence[str], prog: str) -> int:
    """Run the launcher.

    Args:
        argv: The server's arguments.
        prog: How the program is called in messages.

    Returns:
        Its exit status.
    """
    began = time.monotonic()
    args = arguments.parse(argv, prog)
    told = settings.load(os.environ)
    try:
        model = _model(args)
    except ModelError as error:
        stages.write(f"Traceback (most recent call last):\n{error}\n")
        return 1
    _set_environment()
    log.line(arguments.shown(args))
    clock = stages.Clock(began, told.load_s)
    children: list[tree.Child] = []
    signal.signal(signal.SIGQUIT, lambda *_: _child_failed(children))
    engine = _launch(args, told, model, clock, children)
    if not _wait_ready(engine):
        return 1
    server = _Server(args, told, model, clock, engine)
    return asyncio.run(server.run())


def _model(args: argparse.Namespace) -> Model:
    model = read(args.model_path)
    if model.needs_trust and not args.trust_remote_code:
        raise ModelError(
            f"ValueError: The repository {args.model_path} contains custom code which must be executed "
            "to correctly load the model. Please pass the argument `trust_remote_code=True` to allow custom "
            "code to be run."
        )
    if args.speculative_algorithm and args.speculative_draft_model_path:
        read(args.speculative_draft_model_path)
    return model


def _set_environment() -> None:
    """What the real launcher changes in its own environment, and so in its children's."""
    os.environ.setdefault("NCCL_CUMEM_ENABLE", "0")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "8"
    if os.environ.get("TRTLLM_ENABLE_PDL", "1") != "0":
        os.environ["TRTLLM_ENABLE_PDL"] = "1"
    os.environ.setdefault("CUTE_DSL_LOG_LEVEL", "30")
    os.environ.setdefault("CUTE_DSL_LOG_TO_CONSOLE", "1")
    os.environ["SGLANG_RUN_ID"] = f"sglang-run-{time.time()}-{random.randint(0, 100000000)}"  # noqa: S311  # no secret


def _launch(
    args: argparse.Namespace,
    told: settings.Settings,
    model: Model,
    clock: stages.Clock,
    children: list[tree.Child],
) -> _Engine:
    """Fork the engine's processes; each is added to ``children`` as it is born."""
    seen = devices.visible(told.machine, os.environ)
    first, step = args.base_gpu_id, args.gpu_id_step
    wanted = range(first, first + args.tp_size * step, step)
    if wanted[-1] >= len(seen):
        log.line(f"Scheduler hit an exception: Traceback (most recent call last):\n{_NO_DEVICE}\n", "TP0")
        log.line(_SIGQUIT)
        raise SystemExit(1)
    work = worker.Work(
        settings=told,
        model=model,
        gpus=tuple(seen[index] for index in wanted),
        holders=tuple(devices.holders(told.machine)),
        group=group(args.tp_size - 1),
        clock=clock,
        mem_fraction=args.mem_fraction_static,
        drafts=drafts(args),
        max_running=args.max_running_requests,
        log_interval=args.decode_log_interval,
    )
    return _fork(work, children)


_NO_DEVICE = (
    "torch.AcceleratorError: CUDA error: invalid device ordinal\n"
    "GPU device may be out of range, do you have enough GPUs?"
)
_SIGQUIT = "Received sigquit from a child process. It usually means the child failed."


def _fork(work: worker.Work, children: list[tree.Child]) -> _Engine:
    requests, ours = _pair()
    decoded, raw = _pair()
    text, spoken = _pair()
    ready, reports = _pair()
    launcher = os.getpid()
    shared = tree.SharedMemory(work.settings.machine.shm, ("psm_*", "nccl-*", f"sglang_loads_{launcher}"))
    gc.freeze()  # what the children share stays shared
    for rank in range(len(work.gpus)):
        scheduler = tree.fork(
            f"scheduler_{rank}",
            f"sglang::scheduler{'_' + work.label(rank) if work.label(rank) else ''}",
            partial(worker.run, work, rank, launcher, ours, raw, reports),
            dies_with_parent=not work.settings.escape,
        )
        children.append(scheduler)
    work.group.close()
    for end in (ours, raw, reports):
        end.close()
    children.append(
        tree.fork(
            "detokenizer",
            "sglang::detokenizer",
            lambda: _detokenize(decoded, spoken),
            dies_with_parent=True,
        )
    )
    for end in (decoded, spoken):
        end.close()
    return _Engine(children, shared, requests, text, ready)


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _detokenize(decoded: socket.socket, spoken: socket.socket) -> int:
    """Pass on what the first scheduler decodes, until it is gone."""
    while data := decoded.recv(1 << 20):
        spoken.send(data)
    while True:
        time.sleep(3600)


def _wait_ready(engine: _Engine) -> bool:
    """Wait for the first scheduler's word; False when a child died without one."""
    handles = {child.handle: child for child in engine.children}
    word = engine.ready.fileno()
    while True:
        readable, _, _ = select.select([word, *handles], [], [])
        if word in readable and engine.ready.recv(16):
            return True
        for child in (handles[handle] for handle in readable if handle in handles):
            status = child.reap()
            log.line(
                f"Rank 0 scheduler died during initialization (exit code: {status}). If exit code is -9 "
                "(SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
            )
            tree.end(engine.children)
            return False


def _child_failed(children: list[tree.Child]) -> NoReturn:
    """A child told us that it failed: the real launcher kills its tree, itself included."""
    log.line(_SIGQUIT)
    tree.end(children)
    os.kill(os.getpid(), signal.SIGKILL)
    raise SystemExit(1)  # not reached


class _Server:
    """The launcher once its engine is ready: HTTP, warm-up, drain."""

    def __init__(
        self,
        args: argparse.Namespace,
        told: settings.Settings,
        model: Model,
        clock: stages.Clock,
        engine: _Engine,
    ) -> None:
        self._args = args
        self._told = told
        self._clock = clock
        self._engine = engine
        self._frontend = Frontend(engine.requests, engine.tokens)
        self._app = App(args, model, self._frontend)
        self._leaving = asyncio.Event()

    async def run(self) -> int:
        """Serve until SIGTERM; the exit status."""
        port = self._args.port + (self._told.fault == "wrong-port")
        loop = asyncio.get_running_loop()
        try:
            sock = web.bound(self._args.host, port)
        except OSError as error:
            address = (self._args.host, port)
            stages.write(
                f"ERROR:    [Errno {error.errno}] error while attempting to bind on address {address}: "
                f"{os.strerror(error.errno or 0).lower()}\n"
            )
            tree.end(self._engine.children)
            return 1
        loop.add_signal_handler(signal.SIGTERM, self._sigterm)
        loop.add_signal_handler(signal.SIGQUIT, _child_failed, self._engine.children)
        for child in self._engine.children:
            loop.add_reader(child.handle, self._died, child)
        self._frontend.start()
        log.line(f"INFO:     Started server process [{os.getpid()}]")
        log.line("INFO:     Waiting for application startup.")
        server = await web.serve(sock, self._app.handle, log.uvicorn)
        log.line("INFO:     Application startup complete.")
        log.line(f"INFO:     Uvicorn running on http://{self._args.host}:{port} (Press CTRL+C to quit)")
        warming = asyncio.ensure_future(self._warm_up())
        await self._leaving.wait()
        warming.cancel()
        await self._drain()
        server.close()
        return 0

    async def _warm_up(self) -> None:
        if not self._args.skip_server_warmup:
            left = self._clock.began + self._clock.load_s - time.monotonic()
            with contextlib.suppress(EngineGoneError):
                await self._app.probe(counted=True)
            await asyncio.sleep(max(0.0, left))
            log.uvicorn(f'{self._args.host}:0 - "POST /generate HTTP/1.1" 200 OK')
        if not self._leaving.is_set():
            self._app.status = UP
            log.line("The server is fired up and ready to roll!")

    def _sigterm(self) -> None:
        log.line("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        self._leaving.set()

    def _died(self, child: tree.Child) -> None:
        """A child ended while serving."""
        asyncio.get_running_loop().remove_reader(child.handle)
        status = child.reap()
        log.line(
            f"Subprocess {child.name} (pid={child.pid}) crashed with exit code {status}. "
            "Triggering SIGQUIT for cleanup..."
        )
        log.line("SIGQUIT received. signum=3, frame=None. It usually means one child failed.")
        tree.end(self._engine.children)
        os.kill(os.getpid(), signal.SIGKILL)

    async def _drain(self) -> None:
        """Wait for requests in flight, however long they take; then end the schedulers, then the rest."""
        self._app.status = LEAVING
        while True:
            left = self._frontend.in_flight
            log.line(f"Gracefully exiting... Remaining number of requests {left}. Remaining requests []")
            if not left:
                break
            await asyncio.sleep(self._told.poll_s)
        loop = asyncio.get_running_loop()
        for child in self._engine.children:
            loop.remove_reader(child.handle)
        self._frontend.stop()
        tree.wait(self._engine.children[:1], _SCHEDULERS_END_S)
        tree.end(self._engine.children)
        self._engine.shared.remove()
