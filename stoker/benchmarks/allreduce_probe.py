"""All-reduces by themselves, one rank a GPU: sent to the host and run by the engine's own Python.

    python probe.py                 all of it, as ``probe.json`` beside it says
    python probe.py rank R PASS     one rank of a pass, started by the above
    python probe.py perf PASS       NVIDIA's program instead, likewise

Standard library and torch, Python 3.8. What is found goes to ``results.jsonl`` beside it, an object a line:
``ready`` (with versions: every rank has made its first all-reduce and waits for a file ``go``), ``row`` (a
size of a run), ``measured`` (the ranks wait for a file ``leave``), ``sized`` (a size of the diagnostic pass),
``error``, ``died``, ``late``, and at last ``done``.
"""

# mypy: ignore-errors
# torch is on the hosts only, and the script is a program of theirs.
from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import time

# The samples of a replay share buffers of at most so much; each is summed once and then checked.
_ROOM = 64 << 20
_TICK_S = 0.01
_AHEAD_CYCLES = 600_000  # some 0.3 ms
_GRACE_S = 3.0
_SETTLE_S = 0.3  # in which others that are lost end, too
_PERF_TYPES = {"bfloat16": "bfloat16", "float16": "half", "float32": "float"}
_WRITTEN, _WRITTEN_STEMS = ("results.jsonl", "go", "leave"), ("store.", "nccl.", "nccl-tests.")
_DIAGNOSIS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,TUNING,P2P"}


def say(folder, **row):
    """Append one line to the results: short writes to one file do not mix."""
    line = json.dumps(row) + "\n"
    fd = os.open(os.path.join(folder, "results.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


# The launcher.


def main(folder):
    """Every pass; 0 where all went well."""
    with open(os.path.join(folder, "probe.json"), encoding="utf-8") as file:
        plan = json.load(file)
    for name in os.listdir(folder):
        if name in _WRITTEN or name.startswith(_WRITTEN_STEMS):  # of a run before, by hand
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
    children = []
    signal.signal(signal.SIGTERM, lambda *_: ended(children))
    end = time.monotonic() + plan["deadline_s"]
    if plan["tool"] == "nccl-tests":
        passes = [lambda name: nccl_tests(folder, name)]
    else:
        passes = [lambda name: ranks(folder, plan, name)]
    for name in ["measure"] + (["diagnose"] if plan["gpus"] else []):
        children[:] = passes[0](name)
        if not watched(folder, children, name, end):
            return 1
    say(folder, done=True)
    return 0


def ranks(folder, plan, name):
    """The ranks of a pass, started."""
    found = []
    for rank in range(plan["ranks"]):
        env = dict(os.environ)
        if name == "diagnose":
            env.update(_DIAGNOSIS, NCCL_DEBUG_FILE=os.path.join(folder, "nccl.%d.log" % rank))
        argv = [sys.executable, os.path.join(folder, "probe.py"), "rank", str(rank), name]
        found.append(subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL))
    return found


def watched(folder, children, name, end):
    """Whether all ended well; the first that did not ends the others."""
    while True:
        states = [child.poll() for child in children]
        bad = any(states)
        late = time.monotonic() > end
        if bad:
            rank, status = first_to_blame(children)
            say(folder, died={"rank": rank, "status": status, "pass": name})
        elif late:
            say(folder, late={"pass": name})
        elif all(state == 0 for state in states):
            return True
        if bad or late:
            stopped(children)
            return False
        time.sleep(_TICK_S)


def first_to_blame(children):
    """(rank, status): one that a signal ended, before those that only lost it."""
    time.sleep(_SETTLE_S)
    bad = [(rank, child.poll()) for rank, child in enumerate(children) if child.poll()]
    return min(bad, key=lambda one: one[1] > 0)


def stopped(children):
    """End what lives: a rank inside NCCL ends by SIGTERM too, for Python catches none there."""
    for child in children:
        if child.poll() is None:
            child.terminate()
    end = time.monotonic() + _GRACE_S
    while any(child.poll() is None for child in children):
        if time.monotonic() > end:
            for child in children:
                child.kill()
        time.sleep(_TICK_S)


def ended(children):
    """SIGTERM to the launcher."""
    stopped(children)
    os._exit(143)


def nccl_tests(folder, name):
    """NVIDIA's program in place of the ranks, started."""
    env = dict(os.environ)
    if name == "diagnose":
        env.update(_DIAGNOSIS, NCCL_DEBUG_FILE=os.path.join(folder, "nccl.0.log"))
    if not shutil.which("all_reduce_perf"):
        sys.exit(fail(folder, "no-tool", "all_reduce_perf (nccl-tests) is not on the PATH"))
    argv = [sys.executable, os.path.join(folder, "probe.py"), "perf", name]
    child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL)
    if name == "measure":
        say(folder, ready={"backend": "nccl-tests"})
    return [child]


def perf_main(folder, name):
    """One process for all GPUs, once for each range of sizes.

    It fails where a sum was wrong, too: a program that told its verdict has come to its end.
    """
    with open(os.path.join(folder, "probe.json"), encoding="utf-8") as file:
        plan = json.load(file)
    often = ["-n", "100", "-w", "20"] if name == "measure" else ["-n", "1", "-w", "1"]
    runs = [(str(run), plan["ranges"]) for run in range(plan["runs"] if name == "measure" else 1)]
    for part, ranges in [("curve", [plan["powers"]]), *runs]:
        for least, most in ranges:
            argv = ["all_reduce_perf", "-b", str(least), "-e", str(most), "-f", "2", "-g", str(plan["ranks"])]
            argv += ["-d", _PERF_TYPES[plan["dtype"]], "-c", "1", *often]
            path = os.path.join(folder, "nccl-tests.%s.%s.txt" % (name, part))
            with open(path, "ab") as file:
                begin = file.tell()
                status = subprocess.call(argv, stdout=file)
            with open(path, "rb") as file:
                file.seek(begin)
                if status and b"Out of bounds values" not in file.read():
                    return 1
    return 0


# A rank.


def rank_main(folder, rank, name):
    """One rank of a pass."""
    with open(os.path.join(folder, "probe.json"), encoding="utf-8") as file:
        plan = json.load(file)
    signal.alarm(int(plan["deadline_s"]) + 5)  # nobody is left to end it where its launcher was killed
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        return fail(folder, "no-torch", "%s cannot import torch: %s" % (sys.executable, error))
    world = plan["ranks"]
    if plan["gpus"]:
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if seen < world:
            return fail(folder, "too-few-gpus", "torch sees %d GPUs, %d are wanted" % (seen, world))
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(1)  # threads that check sums would spin against the ranks that are measured
    store = dist.FileStore(os.path.join(folder, "store." + name), world)
    late = datetime.timedelta(seconds=plan["deadline_s"])
    try:
        dist.init_process_group(
            "nccl" if plan["gpus"] else "gloo", store=store, rank=rank, world_size=world, timeout=late
        )
        work = Rank(folder, plan, rank, torch, dist)
        work.measure() if name == "measure" else work.diagnose()
    except RuntimeError as error:
        return fail(folder, "torch", "rank %d: %s" % (rank, str(error).strip().splitlines()[0][:400]))
    dist.destroy_process_group()
    return 0


def fail(folder, kind, what):
    """Say why, and end with a status of its own."""
    say(folder, error={"kind": kind, "what": what})
    print(what, file=sys.stderr, flush=True)
    return 3


class Rank:
    """What one rank does.

    Args:
        folder: Of the probe.
        plan: ``probe.json``.
        rank: Ours.
        torch: The module.
        dist: ``torch.distributed``.
    """

    def __init__(self, folder, plan, rank, torch, dist):
        self.folder, self.plan, self.rank, self.torch, self.dist = folder, plan, rank, torch, dist
        self.device = torch.device("cuda", rank) if plan["gpus"] else torch.device("cpu")
        self.dtype = getattr(torch, plan["dtype"])
        self.world = plan["ranks"]
        self.one = torch.zeros(1, device=self.device)
        self.graphs = {}

    def measure(self):
        """Say that we are there, wait, and measure every run."""
        self.together()
        if self.rank == 0:
            say(self.folder, ready=self.versions())
        self.gate("go", self.plan["hold_s"])
        self.curve(0)
        for run in range(self.plan["runs"]):
            for size in self.plan["sizes"]:
                self.row(run, size)
        if self.rank == 0:
            say(self.folder, measured=True)
        self.gate("leave", self.plan["hold_s"])
        self.graphs.clear()

    def diagnose(self):
        """One all-reduce of each size, for NCCL's own log."""
        self.together()
        for size in self.plan["sizes"] + self.plan["curve"]:
            buffer = self.filled(size["bytes"])
            self.dist.all_reduce(buffer)
            self.sync()
            wrong = self.wrong([buffer])
            if self.rank == 0:
                say(self.folder, sized={"bytes": size["bytes"], "wrong": wrong})

    def curve(self, run):
        """The powers of two, once."""
        for size in self.plan["curve"]:
            self.row(run, size)
            self.graphs.clear()

    def versions(self):
        """What this Python computes with."""
        torch = self.torch
        found = {
            "torch": torch.__version__,
            "backend": self.dist.get_backend(),
            "python": sys.version.split()[0],
        }
        found["simulated"] = bool(getattr(torch, "simulated", False))
        if self.plan["gpus"]:
            found["cuda"] = str(torch.version.cuda)
            found["nccl"] = ".".join(str(part) for part in torch.cuda.nccl.version())
        return found

    def gate(self, name, patience_s):
        """Wait for a file, or until patience ends (run by hand nobody writes it); then all ranks go on."""
        if self.rank == 0:
            end = time.monotonic() + patience_s
            while time.monotonic() < end and not os.path.exists(os.path.join(self.folder, name)):
                time.sleep(_TICK_S / 2)
        self.together()

    def together(self):
        """All ranks have come here."""
        self.dist.all_reduce(self.one)
        self.sync()

    def sync(self):
        """What was asked of the device is done."""
        if self.plan["gpus"]:
            self.torch.cuda.synchronize()

    # One size.

    def row(self, run, size):
        """Measure a size and say it: a sample is the slowest rank's time of one all-reduce."""
        began = time.monotonic()
        way, samples, ops, wrong = self.samples(size)
        # With the slowest rank's time of each sample comes the worst rank's count of wrong elements.
        most = self.torch.tensor([*samples, float(wrong)], dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(most, op=self.dist.ReduceOp.MAX)
        *values, wrong = most.tolist()
        values.sort()
        if self.rank == 0:
            marks = {name: values[min(int(q * len(values)), len(values) - 1)] for name, q in _MARKS}
            told = {"run": run, "batch": size["batch"], "bytes": size["bytes"], "way": way, "ops": ops}
            say(self.folder, row={**told, **marks, "wrong": int(wrong), "seconds": time.monotonic() - began})

    def samples(self, size):
        """(way, seconds of each sample, all-reduces, wrong elements)."""
        if not self.plan["gpus"]:
            return self.on_cpu(size)
        if size["bytes"] not in self.graphs:
            self.graphs[size["bytes"]] = self.captured(size)
        graph, base, buffers = self.graphs[size["bytes"]]
        samples, wrong = [], 0
        count = self.plan["samples"] if size["batch"] else self.plan["curve_samples"]
        for number in range(self.plan["warmup"] + count):
            for buffer in buffers:
                buffer.copy_(base)
            seconds = self.replayed(graph, buffers)
            wrong += self.wrong(buffers)
            if number >= self.plan["warmup"]:
                samples.append(seconds / len(buffers))
        return "graph" if graph else "eager", samples, len(buffers) * (self.plan["warmup"] + count), wrong

    def replayed(self, graph, buffers):
        """Seconds of all of them, between two events; a small all-reduce before lines the ranks up.

        The device first idles for as long as it takes to enqueue all that: else what is measured is how fast
        Python does.
        """
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        if hasattr(self.torch.cuda, "_sleep"):
            self.torch.cuda._sleep(_AHEAD_CYCLES)
        self.dist.all_reduce(self.one)
        begin.record()
        if graph:
            graph.replay()
        else:
            for buffer in buffers:
                self.dist.all_reduce(buffer)
        end.record()
        self.sync()
        return begin.elapsed_time(end) / 1000

    def captured(self, size):
        """(graph of an all-reduce of each buffer, what they are filled with, buffers).

        The graph is None where one rank cannot capture it: then all of them make each call by itself.
        """
        base = self.filled(size["bytes"])
        count = max(1, min(self.plan["chain"], _ROOM // size["bytes"]))
        buffers = [base.clone() for _ in range(count)]
        for buffer in buffers:
            self.dist.all_reduce(buffer)
        self.sync()
        if not self.plan["graph"]:
            return None, base, buffers
        graph, failed = self.torch.cuda.CUDAGraph(), self.torch.zeros(1, device=self.device)
        try:
            with self.torch.cuda.graph(graph, capture_error_mode="thread_local"):
                for buffer in buffers:
                    self.dist.all_reduce(buffer)
        except RuntimeError as error:
            print("no graph of %d bytes: %s" % (size["bytes"], error), file=sys.stderr, flush=True)
            failed += 1
        self.dist.all_reduce(failed)
        self.sync()
        return (None if failed.item() else graph), base, buffers

    def on_cpu(self, size):
        """As above, by the clock: each all-reduce by itself."""
        base = self.filled(size["bytes"])
        samples, wrong = [], 0
        count = self.plan["samples"] if size["batch"] else self.plan["curve_samples"]
        for number in range(self.plan["warmup"] + count):
            buffer = base.clone()
            self.dist.barrier()
            begin = time.perf_counter()
            self.dist.all_reduce(buffer)
            seconds = time.perf_counter() - begin
            wrong += self.wrong([buffer])
            if number >= self.plan["warmup"]:
                samples.append(seconds)
        return "cpu", samples, self.plan["warmup"] + count, wrong

    def filled(self, size):
        """What this rank adds: small whole numbers, whose sums every type holds exactly."""
        count = size // self.torch.empty(0, dtype=self.dtype).element_size()
        numbers = self.torch.arange(count, device=self.device) % 7 + self.rank
        return numbers.to(self.dtype)

    def wrong(self, buffers):
        """How many elements of these sums are not what they must be, over this rank's."""
        numbers = self.torch.arange(buffers[0].numel(), device=self.device) % 7
        want = (self.world * numbers + self.world * (self.world - 1) // 2).to(self.dtype)
        return int(sum((buffer != want).sum() for buffer in buffers))


_MARKS = (("p10_s", 0.1), ("p50_s", 0.5), ("p90_s", 0.9))

if __name__ == "__main__":
    place = os.path.dirname(os.path.abspath(__file__))
    if sys.argv[1:2] == ["rank"]:
        sys.exit(rank_main(place, int(sys.argv[2]), sys.argv[3]))
    sys.exit(perf_main(place, sys.argv[2]) if sys.argv[1:2] == ["perf"] else main(place))
