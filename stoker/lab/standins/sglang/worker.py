"""SGLang's schedulers: one a rank, each loads its share of the model; the first decodes."""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
from dataclasses import dataclass

from stoker.lab.standins import pace, stages, tree
from stoker.lab.standins.devices import Device, Gpu, Holder
from stoker.lab.standins.model import Model
from stoker.lab.standins.ranks import Group, OutOfMemoryError, memory
from stoker.lab.standins.scheduler import Scheduler, Step, StepPlan
from stoker.lab.standins.settings import Settings
from stoker.lab.standins.sglang import log

GRAPH_BATCHES = (1, 2, 4, 8, 16, 24, 32)
_GRAPHS_MIB = 1100


@dataclass(frozen=True)
class Work:
    """What every scheduler of one server knows.

    Args:
        settings: How the stand-in behaves.
        model: What it loads.
        gpus: One a rank.
        holders: Who held GPUs when the server started.
        group: Links between the ranks.
        clock: When each stage is due.
        mem_fraction: Share of a GPU for weights and cache.
        drafts: Tokens drafted in a step; 0: no speculation.
        max_running: Requests that decode together.
        log_interval: Decoding steps between two lines of the log.
    """

    settings: Settings
    model: Model
    gpus: tuple[Gpu, ...]
    holders: tuple[Holder, ...]
    group: Group
    clock: stages.Clock
    mem_fraction: float
    drafts: int
    max_running: int
    log_interval: int

    def label(self, rank: int) -> str:
        """How the rank is called in titles and log; empty where there is one only."""
        return f"TP{rank}" if len(self.gpus) > 1 else ""


def run(
    work: Work, rank: int, launcher: int, requests: socket.socket, tokens: socket.socket, ready: socket.socket
) -> int:
    """Be the scheduler of one rank.

    Args:
        work: What all of them know.
        rank: Which one.
        launcher: pid that is told of a failure.
        requests, tokens, ready: The first rank's sockets.
    """
    label = work.label(rank)
    try:
        library = tree.map_library()
        device = Device(work.settings.machine, work.gpus[rank])
        _load(work, rank, device, label)
        own = pace.of(os.environ, len(work.gpus))
        if rank:
            work.group.follow(rank - 1, own, device)
            while True:
                time.sleep(3600)  # as in a collective whose leader is gone: the GPU stays held
        slowest = work.group.lead(own)
        _announce(work, label)
        ready.send(b"ready")
        _decode(work, slowest, device, label, requests, tokens)
        del library  # mapped as long as the server lives
    except Exception as error:
        shown = str(error) if isinstance(error, OutOfMemoryError) else traceback.format_exc()
        log.line(f"Scheduler hit an exception: Traceback (most recent call last):\n{shown}\n", label)
        os.kill(launcher, signal.SIGQUIT)
        return 1
    return 0


def _load(work: Work, rank: int, device: Device, label: str) -> None:
    clock, gpu = work.clock, work.gpus[rank]
    space = memory(gpu, list(work.holders))
    clock.until(0.10)
    log.line("Init torch distributed begin.", label)
    clock.until(0.14)
    log.line("Init torch distributed ends. elapsed=0.61 s, mem usage=0.51 GB", label)
    log.line(f"Load weight begin. avail mem={_gb(space.free_mib)} GB", label)
    weights = work.model.size_mib // len(work.gpus)
    free = space.allocate(gpu.number, weights)
    _read_weights(work, rank)
    device.hold(gpu.memory_mib - free)
    log.line(
        f"Load weight end. elapsed={0.46 * clock.load_s:.2f} s, type={work.model.architecture}, "
        f"dtype=torch.bfloat16, avail mem={_gb(free)} GB, mem usage={_gb(weights)} GB.",
        label,
    )
    pool = free - int(gpu.memory_mib * (1 - work.mem_fraction))
    if pool <= 0:
        raise RuntimeError("Not enough memory. Please try to increase --mem-fraction-static.")
    clock.until(0.62)
    free -= pool
    device.hold(gpu.memory_mib - free)
    log.line(f"KV Cache is allocated. #tokens: {pool * 13}, KV size: {_gb(pool)} GB", label)
    log.line(f"Memory pool end. avail mem={_gb(free)} GB", label)
    _capture(work, rank, free, label)
    device.hold(gpu.memory_mib - free + min(_GRAPHS_MIB, free))


def _read_weights(work: Work, rank: int) -> None:
    """The first rank shows the progress; a fault happens half-way."""
    began = time.monotonic()
    for done in work.clock.steps(0.14, 0.60, work.model.shards):
        if rank == 0:
            stages.write(stages.weights_bar(done, work.model.shards, time.monotonic() - began))
        if rank == 0 and 2 * done >= work.model.shards:
            _fail(work.settings.fault)
    if rank == 0:
        stages.write("\n\n")


def _fail(fault: str) -> None:
    if fault == "die":
        raise RuntimeError("NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)")
    while fault == "stall":
        time.sleep(3600)


def _capture(work: Work, rank: int, free: int, label: str) -> None:
    log.line(f"Capture target decode CUDA graph begin. backend=full, avail mem={_gb(free)} GB", label)
    began = time.monotonic()
    for done in work.clock.steps(0.64, 0.84, len(GRAPH_BATCHES)):
        if rank == 0:
            label_of_bar = f"Capturing batches (bs={GRAPH_BATCHES[-done]} avail_mem={_gb(free)} GB)"
            stages.write(stages.bar(label_of_bar, done, len(GRAPH_BATCHES), time.monotonic() - began))
    if rank == 0:
        stages.write("\n")
    log.line(
        f"Capture target decode CUDA graph end. elapsed={time.monotonic() - began:.2f} s, mem usage=1.07 GB, "
        f"avail mem={_gb(free - _GRAPHS_MIB)} GB.",
        label,
    )


def _announce(work: Work, label: str) -> None:
    pool = int(work.gpus[0].memory_mib * work.mem_fraction) - work.model.size_mib // len(work.gpus)
    log.line(
        f"max_total_num_tokens={pool * 13}, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        f"max_running_requests={work.max_running}, context_len={work.model.context}, "
        f"available_gpu_mem={_gb(int(work.gpus[0].memory_mib * (1 - work.mem_fraction)))} GB",
        label,
    )


def _decode(
    work: Work,
    slowest: pace.Pace,
    device: Device,
    label: str,
    requests: socket.socket,
    tokens: socket.socket,
) -> None:
    plan = StepPlan(
        pace=slowest,
        drafts=work.drafts,
        max_running=work.max_running,
        seed=(work.settings.host, "sglang", work.settings.launch),
    )
    told = _Told(work, label)
    Scheduler(plan, requests, tokens, work.group.tell(device), told.step).run()


class _Told:
    """The scheduler's own log lines."""

    def __init__(self, work: Work, label: str) -> None:
        self._work = work
        self._label = label
        self._begin()

    def step(self, step: Step) -> None:
        if step.kind == "prefill":
            self._prefill(step)
        else:
            self._steps += 1
            self._tokens += step.tokens
            self._request_steps += step.batch
            if self._steps >= self._work.log_interval:
                self._decode(step)

    def _prefill(self, step: Step) -> None:
        log.line(
            f"Prefill batch, #new-seq: {step.batch}, #new-token: {step.tokens}, #cached-token: 0, "
            f"token usage: 0.00, #running-req: {step.batch}, #queue-req: {step.waiting}, #pending-token: 0, "
            f"cuda graph: False, input throughput (token/s): {step.tokens / pace.PREFILL_S:.2f}",
            self._label,
        )
        self._begin()

    def _decode(self, step: Step) -> None:
        accepted = self._tokens / self._request_steps
        throughput = self._tokens / (time.monotonic() - self._since)
        rate = (accepted - 1) / self._work.drafts if self._work.drafts else 0.0
        spec = f"accept len: {accepted:.2f}, accept rate: {rate:.2f}, " if self._work.drafts else ""
        log.line(
            f"Decode batch, #running-req: {step.batch}, #token: {step.held}, token usage: 0.00, {spec}"
            f"cuda graph: True, gen throughput (token/s): {throughput:.2f}, "
            f"#queue-req: {step.waiting}",
            self._label,
        )
        self._begin()

    def _begin(self) -> None:
        self._steps = self._tokens = self._request_steps = 0
        self._since = time.monotonic()


def _gb(mib: int) -> str:
    return f"{mib / 1024:.2f}"
