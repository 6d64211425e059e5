"""vLLM's engine core, which decodes, and its workers on the GPUs; they outlive the API server."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass
from functools import partial
from types import FrameType

from stoker.lab.standins import pace, stages, tree
from stoker.lab.standins.devices import Device, Gpu, Holder
from stoker.lab.standins.model import Model
from stoker.lab.standins.ranks import Group, OutOfMemoryError, memory
from stoker.lab.standins.scheduler import Scheduler, Step, StepPlan
from stoker.lab.standins.settings import Settings
from stoker.lab.standins.vllm import __version__, log

_SHARED = ("psm_*", "psm_*", "sem.mp-*", "vllm_dist_*-tp:0-[0-1]-cpushm_0")
_GRAPHS = 35
_GRAPHS_MIB = 900


@dataclass(frozen=True)
class Work:
    """What the core and every worker know.

    Args:
        settings: How the stand-in behaves.
        model: What they load.
        gpus: One a rank.
        holders: Who held GPUs when the server started.
        group: Links between the core and its workers; none at one GPU, which the core holds itself.
        clock: When each stage is due.
        utilization: Share of a GPU for weights and cache.
        context: Tokens of prompt and answer.
        drafts: Tokens drafted in a step; 0: no speculation.
        max_running: Requests that decode together.
        prefix: Of the process titles.
    """

    settings: Settings
    model: Model
    gpus: tuple[Gpu, ...]
    holders: tuple[Holder, ...]
    group: Group
    clock: stages.Clock
    utilization: float
    context: int
    drafts: int
    max_running: int
    prefix: str


def run(work: Work, requests: socket.socket, tokens: socket.socket, ready: socket.socket) -> int:
    """Be the engine core.

    Args:
        work: What is to be done.
        requests, tokens: To and from the API server.
        ready: Gets a word once the engine is initialised.
    """
    log.core("core.py:133", _config(work))
    shared = tree.SharedMemory(work.settings.machine.shm, _SHARED)
    core = _Core(work, shared)
    signal.signal(signal.SIGTERM, core.terminated)
    signal.signal(signal.SIGCHLD, core.worker_ended)
    try:
        slowest, device = core.initialise()
    except Exception as error:
        log.core("core.py:1560", f"EngineCore failed to start.\n{error}", "ERROR")
        core.end()
        return 1
    ready.send(b"ready")
    plan = StepPlan(
        slowest, work.drafts, work.max_running, (work.settings.host, "vllm", work.settings.launch)
    )
    Scheduler(plan, requests, tokens, work.group.tell(device), _silent).run()
    core.end()
    return 0


def _silent(_: Step) -> None:
    """vLLM's core logs no steps; its API server sums them up."""


class _Core:
    """The core's own state: its workers and what signals do to them."""

    def __init__(self, work: Work, shared: tree.SharedMemory) -> None:
        self._work = work
        self._shared = shared
        self._workers: tuple[tree.Child, ...] = ()
        self._ending = False

    def initialise(self) -> tuple[pace.Pace, Device | None]:
        """Start the workers and have the model loaded; the pace, and the GPU where it is the core's own."""
        work = self._work
        began = time.monotonic()
        device = None
        if len(work.gpus) == 1:
            device = _load(work, 0, "EngineCore")
            slowest = pace.of(os.environ, 1)
        else:
            self._fork_workers()
            slowest = work.group.lead()
        elapsed = time.monotonic() - began
        log.core("core.py:402", f"init engine (profile, create kv cache, warmup model) took {elapsed:.2f} s")
        return slowest, device

    def _fork_workers(self) -> None:
        work = self._work
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        self._workers = tuple(
            tree.fork(
                f"VllmWorker-{rank}",
                f"{work.prefix}::Worker_TP{rank}",
                partial(_work, work, rank),
                dies_with_parent=False,
            )
            for rank in range(len(work.gpus))
        )
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        for _, follower in work.group.links:
            follower.close()

    def worker_ended(self, signum: int, frame: FrameType | None) -> None:
        """A worker is gone: the engine cannot go on."""
        for worker in self._workers if not self._ending else ():
            status = worker.reap()
            if status is not None:
                what = f"Worker proc {worker.name} died unexpectedly (exit code: {status}), "
                log.core("multiproc_executor.py:380", what + "shutting down executor.", "ERROR")
                log.core("core.py:1570", "EngineCore encountered a fatal error.", "ERROR")
                self.end()
                os._exit(1)

    def terminated(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM: end the workers, clean up, go."""
        self.end()
        os._exit(0)

    def end(self) -> None:
        """End the workers in order."""
        self._ending = True
        tree.end(self._workers, grace_s=3.0)
        self._shared.remove()


def _work(work: Work, rank: int) -> int:
    """Be the worker of one rank."""
    name = f"Worker_TP{rank}"
    try:
        device = _load(work, rank, name)
    except Exception as error:
        log.line(name, "multiproc_executor.py:772", f"WorkerProc failed to start.\n{error}", "ERROR")
        return 1
    library = tree.map_library()
    work.group.follow(rank, pace.of(os.environ, len(work.gpus)), device)
    log.line(name, "multiproc_executor.py:843", "Parent process exited, terminating worker queues")
    del library  # mapped as long as the worker lives
    return 0


def _load(work: Work, rank: int, name: str) -> Device:
    clock, gpu, size = work.clock, work.gpus[rank], len(work.gpus)
    device = Device(work.settings.machine, gpu)
    space = memory(gpu, list(work.holders))
    clock.until(0.12)
    method = f"world_size={size} rank={rank} local_rank={rank} distributed_init_method=tcp://127.0.0.1:0"
    log.line(name, "parallel_state.py:1906", f"{method} backend=nccl")
    if rank == 0:
        _say_ranks(name, size)
    budget = int(gpu.memory_mib * work.utilization)
    if budget > space.free_mib:
        free, total = space.free_mib / 1024, gpu.memory_mib / 1024
        raise OutOfMemoryError(
            f"ValueError: Free memory on device cuda:{rank} ({free:.2f}/{total:.2f} GiB) on startup is less "
            f"than desired GPU memory utilization ({work.utilization}, {budget / 1024:.2f} GiB). Decrease "
            "GPU memory utilization or reduce GPU memory used by other processes."
        )
    weights = work.model.size_mib // size
    log.line(name, "gpu_model_runner.py:5050", f"Starting to load model {work.model.path}...")
    free = space.allocate(rank, weights)
    _read_weights(work, rank, name)
    device.hold(gpu.memory_mib - free)
    log.line(name, "gpu_model_runner.py:5089", f"Model loading took {weights / 1024:.2f} GiB memory")
    cache = budget - weights
    if cache <= 0:
        raise OutOfMemoryError("ValueError: No available memory for the cache blocks.")
    clock.until(0.75)
    device.hold(gpu.memory_mib - free + cache)
    log.line(name, "gpu_worker.py:773", f"Available KV cache memory: {cache / 1024:.2f} GiB")
    if rank == 0:
        _say_cache(work, cache)
    _capture(work, rank, name)
    device.hold(min(gpu.memory_mib - free + cache + _GRAPHS_MIB, gpu.memory_mib))
    return device


def _say_ranks(name: str, size: int) -> None:
    rank = "DP rank 0, PP rank 0, PCP rank 0, TP rank 0, ETP rank 0, EP rank N/A, EPLB rank N/A"
    log.line(name, "parallel_state.py:2350", f"rank 0 in world size {size} is assigned as {rank}")
    if size > 1:
        log.line(name, "pynccl.py:111", "vLLM is using nccl==2.28.9")
        disabled = "Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs."
        log.line(name, "custom_all_reduce.py:154", disabled, "WARNING")
        backends = "Using ['PYNCCL'] all-reduce backends (in dispatch order) for group 'tp:0'"
        log.line(name, "cuda_communicator.py:353", backends)


def _say_cache(work: Work, cache: int) -> None:
    tokens = cache * 13
    most = f"Maximum concurrency for {work.context:,} tokens per request: {tokens / work.context:.2f}x"
    log.core("kv_cache_utils.py:1147", f"GPU KV cache size: {tokens:,} tokens, {most}")


def _read_weights(work: Work, rank: int, name: str) -> None:
    began = time.monotonic()
    for done in work.clock.steps(0.15, 0.55, work.model.shards):
        if rank == 0:
            elapsed = time.monotonic() - began
            stages.write(stages.weights_bar(done, work.model.shards, elapsed).lstrip("\r") + "\n")
            if 2 * done >= work.model.shards:
                _fail(work.settings.fault)
    if rank == 0:
        stages.write("\n")
        took = time.monotonic() - began
        log.line(name, "default_loader.py:501", f"Loading weights took {took:.2f} seconds")


def _fail(fault: str) -> None:
    if fault == "die":
        raise RuntimeError(
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
        )
    while fault == "stall":
        time.sleep(3600)


def _capture(work: Work, rank: int, name: str) -> None:
    began = time.monotonic()
    for done in work.clock.steps(0.78, 0.90, _GRAPHS):
        if rank == 0:
            label = "Capturing CUDA graphs (decode, FULL)"
            stages.write(stages.bar(label, done, _GRAPHS, time.monotonic() - began))
    if rank == 0:
        stages.write("\n")
        took = time.monotonic() - began
        log.line(
            name, "gpu_model_runner.py:6517", f"Graph capturing finished in {took:.0f} secs, took 0.88 GiB"
        )


def _config(work: Work) -> str:
    model, size = work.model.path, len(work.gpus)
    speculation = f"SpeculativeConfig(num_spec_tokens={work.drafts})" if work.drafts else None
    return (
        f"Initializing a V1 LLM engine (v{__version__}) with config: model={model!r}, "
        f"speculative_config={speculation}, tokenizer={model!r}, dtype=torch.bfloat16, "
        f"max_seq_len={work.context}, tensor_parallel_size={size}, pipeline_parallel_size=1, "
        f"data_parallel_size=1, device_config=cuda, served_model_name={model}"
    )
