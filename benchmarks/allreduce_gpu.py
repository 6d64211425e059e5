"""All-reduces on the GPUs of this machine under twelve profiles: ``python3 -m benchmarks.allreduce_gpu``.

With the default settings, the story's profile and ten other combinations, each by ``inv bench --bench
allreduce`` over the lab's SSH server; then a sweep, a rank that is killed, a variable that makes NCCL hang, a
GPU that somebody else uses. NVLink multicast stays off, no setting of a GPU is touched. After each step the
report and the raw data are written anew, so that a run that is cut short has lost nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.report import Report
from benchmarks.gpu.run import smi
from benchmarks.gpu.stage import environment
from stoker.config import scaffold
from stoker.lab import lab

# Whoever shares the host's GPUs needs this: a program that uses multicast can put them out of service.
BASE = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
STORY = {
    "NCCL_PROTO": "LL",
    "NCCL_ALGO": "Ring",
    "NCCL_P2P_LEVEL": "SYS",
    "NCCL_MAX_NCHANNELS": "16",
    "NCCL_BUFFSIZE": "16777216",
    "NCCL_NTHREADS": "512",
}
PROFILES: dict[str, Mapping[str, str]] = {
    "default": {},
    "story": STORY,
    "ll": {"NCCL_PROTO": "LL"},
    "simple": {"NCCL_PROTO": "Simple"},
    "ll128": {"NCCL_PROTO": "LL128"},
    "tree": {"NCCL_ALGO": "allreduce:tree"},
    "ring": {"NCCL_ALGO": "Ring"},
    "ring-ll": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL"},
    "ring-ll-4": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_MAX_NCHANNELS": "4"},
    "min-32": {"NCCL_MIN_NCHANNELS": "32"},
    "no-p2p": {"NCCL_P2P_DISABLE": "1"},
    "no-cumem": {"NCCL_CUMEM_ENABLE": "0"},
}
# NCCL opens its log as soon as it begins, and a pipe that nobody reads never opens: a hang by a variable.
HANGS = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "{folder}/pipe"}
# Rank 1 is killed in the midst of it, as when memory runs out.
_KILLED = """\
import os, signal, sys
if sys.orig_argv[-3:] == ["rank", "1", "measure"]:
    import torch.distributed as dist
    real, calls = dist.all_reduce, [0]
    def all_reduce(*given, **named):
        calls[0] += 1
        if calls[0] == 200:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    dist.all_reduce = all_reduce
"""
Step = Callable[[], list[dict[str, Any]]]
_SHOWN = (1, 8, 64)
_INV_S = 150.0
# Memory on every GPU, held by a process whose owner lives.
_HOLD = (
    "import torch, time; "
    "x = [torch.zeros(1 << 28, device=f'cuda:{i}') for i in range(torch.cuda.device_count())]; "
    "print('held', flush=True); time.sleep(120)"
)


@dataclass(frozen=True)
class Stage:
    """What there is: where ``inv`` is run, the host's name, the engine's interpreter."""

    project: Path
    host: str
    python: Path


def main() -> int:
    """Probe every profile while there is time; 1 where one that was begun did not end well."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.allreduce_gpu")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), help="folder for the report")
    parser.add_argument("--gpus", type=int, help="how many (all); 0 rehearses on the CPU")
    parser.add_argument("--only", default=",".join(PROFILES), help="profiles, by commas (all)")
    parser.add_argument("--budget", type=float, default=200.0, help="seconds after which none is begun")
    parser.add_argument("--hidden", type=int, default=7168)
    parser.add_argument("--layers", type=int, default=61)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("/tmp/stoker-allreduce"), help="made and removed")
    given = parser.parse_args()
    gpus = len(smi("-L").splitlines()) if given.gpus is None else given.gpus
    today = str(datetime.datetime.now(datetime.UTC).date())
    report = Report(_hidden(given.work))
    rows: list[dict[str, Any]] = []
    end = time.monotonic() + given.budget
    try:
        with prepared(given.work, gpus, given.hidden, given.layers) as stage:
            versions = [("date", today), *_versions(stage, gpus)]
            for name, step in _steps(stage, given.only.split(","), given.runs, gpus, report):
                if time.monotonic() > end:
                    report.text(f"{name}: not run, the time was over")
                    continue
                rows += step()
                written(given.out, today, gpus, report, rows, versions)
    finally:
        shutil.rmtree(given.work, ignore_errors=True)
    print(table(rows), *report.failed(), sep="\n")
    return bool(report.failed())


def _steps(stage: Stage, only: list[str], runs: int, gpus: int, report: Report) -> Iterator[tuple[str, Step]]:
    """What is done, by name; it returns the data of what was probed."""
    for name in only:
        yield name, partial(probed, stage, name, runs, report)
    yield "a sweep", partial(swept, stage, report)
    yield "a rank that is killed", partial(broken, stage, "killed", "died", report)
    if gpus:
        yield "a variable that makes NCCL hang", partial(broken, stage, "hangs", "timeout", report)
        yield "a GPU that is in use", partial(busy, stage, report)


@contextmanager
def prepared(folder: Path, gpus: int, hidden: int, layers: int) -> Iterator[Stage]:
    """A project with the profiles, a model's sizes, the lab's SSH server; nothing is left when it ends."""
    folder.mkdir(parents=True)
    python = environment(folder / "venv")
    (folder / "model").mkdir()
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "torch_dtype": "bfloat16"}
    (folder / "model" / "config.json").write_text(json.dumps(sizes))
    project = folder / "project"
    scaffold.lay(project)
    for path in [*(project / "profiles").glob("*.yml"), *(project / "inventory").rglob("*")]:
        if path.is_file():
            path.unlink()
    _profiles(folder, gpus)
    state = lab.up(folder / "lab", 1, plain=True)
    try:
        (project / "inventory" / "hosts.yml").write_text((Path(state.inventory) / "hosts.yml").read_text())
        yield Stage(project, state.hosts[0].name, python)
    finally:
        lab.down(folder / "lab")


def _profiles(folder: Path, gpus: int) -> None:
    env = BASE | ({} if gpus else {"OMP_NUM_THREADS": "1"})
    if os.environ.get("LD_LIBRARY_PATH"):  # a container's image may have the driver's libraries only there
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    here = folder / "project" / "profiles"
    server = {
        "name": "llm",
        "model": f"{folder}/model",
        "bind": "{{ stoker_bind }}",
        "port": 8300,
        "gpus": list(range(gpus)),
        "venv": f"{folder}/venv",
        "args": {"tensor-parallel-size": max(gpus, 1)},
    }
    # JSON is YAML.
    base = {"engine": "vllm", "server": server, "env": env}
    (here / "base.yml").write_text(json.dumps(base, indent=1))
    os.mkfifo(folder / "pipe")
    (folder / "broken").mkdir()
    (folder / "broken" / "sitecustomize.py").write_text(_KILLED)
    hangs = {name: value.format(folder=folder) for name, value in HANGS.items()}
    more = {"hangs": hangs, "killed": {"PYTHONPATH": f"{folder}/broken"}}
    for name, own in (PROFILES | more).items():
        (here / f"{name}.yml").write_text(json.dumps({"extends": "base", "env": dict(own)}, indent=1))


def probed(stage: Stage, name: str, runs: int, report: Report) -> list[dict[str, Any]]:
    """What ``inv bench`` tells of one profile; nothing where it failed."""
    report.title(name)
    words = ["bench", "--bench", "allreduce", "--host", stage.host, "--profile", name, "--runs", str(runs)]
    done = _inv(stage, [*words, "--deadline", "60", "--json"], report)
    try:
        data: dict[str, Any] = json.loads(done.stdout)["hosts"][stage.host]["results"][-1]
    except (ValueError, KeyError, IndexError, TypeError):
        report.check(f"{name} was probed (exit {done.returncode})", False)
        return []
    report.check(f"{name}: its variables are in force", (data["proof"] or {}).get("verdict") == "in-force")
    report.check(f"{name}: every sum is right", not any(row["wrong"] for row in data["sizes"]))
    return [data]


def swept(stage: Stage, report: Report) -> list[dict[str, Any]]:
    """A sweep ranks two protocols and the default."""
    report.title("A sweep")
    words = ["sweep", "--bench", "allreduce", "--host", stage.host, "--profile", "default"]
    done = _inv(stage, [*words, "--set", "NCCL_PROTO=LL,Simple", "--runs", "2"], report)
    told = all(f"NCCL_PROTO={one}" in done.stdout for one in ("LL", "Simple"))
    report.check("both settings are ranked beside the default", done.returncode == 0 and told)
    return []


def broken(stage: Stage, name: str, kind: str, report: Report) -> list[dict[str, Any]]:
    """A profile that fails is told by its name and in time, and leaves no process on a GPU."""
    report.title(f"What fails: {name}")
    words = ["bench", "--bench", "allreduce", "--host", stage.host, "--profile", name, "--deadline", "30"]
    done = _inv(stage, [*words, "--json"], report)
    try:
        error: dict[str, Any] = json.loads(done.stdout)["hosts"][stage.host]["error"]
    except (ValueError, KeyError, TypeError):
        error = {"kind": "", "what": ""}
    report.check(f"{name}: {kind}, by its name", error["kind"] == kind and name in error["what"])
    if shutil.which("nvidia-smi"):
        left = smi("--query-compute-apps=pid", "--format=csv,noheader").split()
        report.check(f"{name}: nothing is left on a GPU", not left)
    return []


def busy(stage: Stage, report: Report) -> list[dict[str, Any]]:
    """A GPU that somebody else uses is refused, with who."""
    report.title("A GPU that is in use")
    holder = subprocess.Popen([stage.python, "-c", _HOLD], stdout=subprocess.PIPE, text=True)
    try:
        if holder.stdout is not None:
            holder.stdout.readline()
        words = ["bench", "--bench", "allreduce", "--host", stage.host, "--profile", "default"]
        done = _inv(stage, words, report)
        report.check("it is refused and named", done.returncode == 3 and str(holder.pid) in done.stdout)
    finally:
        holder.kill()
        holder.wait()
    return []


def _inv(stage: Stage, words: list[str], report: Report) -> subprocess.CompletedProcess[str]:
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "invoke", *words],
        cwd=stage.project,
        env={**os.environ, "COLUMNS": "132"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if "--json" in words else subprocess.STDOUT,
        text=True,
        timeout=_INV_S,
    )
    shown = done.stderr if "--json" in words else done.stdout
    report.ran("inv " + " ".join(words), shown, time.monotonic() - begin, done.returncode)
    return done


def table(rows: list[dict[str, Any]]) -> str:
    """A line a profile, the fastest first: medians in microseconds, and what NCCL used."""
    head = [
        "profile",
        *(f"batch {batch}" for batch in _SHOWN),
        "mean",
        "16 MiB bus GB/s",
        "smallest",
        "largest",
        "via",
    ]
    lines = [head, ["---"] * len(head)]
    for row in sorted(rows, key=lambda one: float(one["latency_us"])):
        sizes = {one["batch"]: one for one in row["sizes"] if one["batch"]}
        marks = [f"{1e6 * sizes[b]['p50_s']:.1f}" if b in sizes else "-" for b in _SHOWN]
        widest = max((one for one in row["sizes"] if not one["batch"]), key=lambda one: int(one["bytes"]))
        nccl = row["nccl"] or {}
        used = {
            one["bytes"]: f"{one['algorithm']}/{one['protocol']}×{one['channels']}"
            for one in nccl.get("sizes", [])
        }
        ends = [used.get(sizes[b]["bytes"], "-") for b in (min(sizes), max(sizes))]
        via = ", ".join(sorted(nccl.get("transports", {}))) or "-"
        mean = f"{row['latency_us']:.1f}"
        lines.append([row["profile"], *marks, mean, f"{widest['busbw_gb_s']:.4g}", *ends, via])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def written(
    out: Path,
    today: str,
    gpus: int,
    report: Report,
    rows: list[dict[str, Any]],
    versions: list[tuple[str, str]],
) -> None:
    """The report, its table first, and the raw data."""
    out.mkdir(parents=True, exist_ok=True)
    stem = f"allreduce-{gpus}gpu-{today}" if gpus else f"allreduce-cpu-{today}"
    whole = Report(report.hidden, parts=[table(rows), *report.parts], checks=report.checks)
    heading = f"All-reduces on {gpus} GPUs" if gpus else "Rehearsal"
    whole.write(out / f"{stem}.md", heading, versions, program="python3 -m benchmarks.allreduce_gpu")
    (out / f"{stem}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _versions(stage: Stage, gpus: int) -> list[tuple[str, str]]:
    code = (
        "import json, torch; cuda = torch.version.cuda; "
        "nccl = '.'.join(map(str, torch.cuda.nccl.version())) if cuda else ''; "
        "print(json.dumps([torch.__version__, str(cuda), nccl]))"
    )
    done = subprocess.run([stage.python, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    torch, cuda, nccl = json.loads(done.stdout.splitlines()[-1])
    found = [("Python", platform.python_version()), ("torch", torch), ("CUDA (torch's)", cuda)]
    found += [("NCCL (torch's)", nccl), ("kernel", platform.release()), ("CPUs", str(os.cpu_count()))]
    if gpus:
        words = ("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
        found.insert(0, ("GPUs, driver, memory", "; ".join(smi(*words).strip().splitlines())))
        found.append(("nvidia-smi topo -m", _topology()))
    return found


def _topology() -> str:
    """How the GPUs are linked, in the driver's words, on one line."""
    try:
        lines = smi("topo", "-m").splitlines()
    except subprocess.CalledProcessError:
        return "not told"
    return "; ".join(" ".join(line.split()) for line in lines if line.startswith("GPU"))


def _hidden(work: Path) -> dict[str, str]:
    """What names this machine."""
    source = str(Path(__file__).resolve().parents[1])
    places = {sys.prefix: "$PYTHON", sys.base_prefix: "$PYTHON", source: "$STOKER", str(work): "$WORK"}
    known = {path: name for path, name in places.items() if path not in ("/usr", "/usr/local")}
    kernel = platform.release()
    return {**known, socket.gethostname(): "gpu-host", kernel: kernel.partition("-")[0]}


if __name__ == "__main__":
    sys.exit(main())
