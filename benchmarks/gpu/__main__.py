"""The run: set the stage, play the scenes, write down what came of them."""

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
from collections.abc import Callable
from pathlib import Path

from benchmarks.gpu.report import Report
from benchmarks.gpu.run import Run, smi
from benchmarks.gpu.scenes import SCENES, first
from benchmarks.gpu.stage import prepare


def main() -> int:
    """Do it all, write the report; 1 where something does not hold."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.gpu")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), help="folder for the report")
    parser.add_argument("--keep", type=Path, help="folder for the raw results, too")
    names = [scene.__name__ for scene in SCENES]
    parser.add_argument("--scene", action="append", choices=names, help="only this one (repeatable)")
    parser.add_argument("--cpu", action="store_true", help="rehearse without a GPU")
    parser.add_argument(
        "--work", type=Path, default=Path("/tmp/stoker-gpu"), help="made, and removed at the end"
    )
    given = parser.parse_args()
    today = datetime.datetime.now(datetime.UTC).date()
    report = Report(_hidden(given.work))
    versions = [("date", str(today))]
    try:
        with prepare(given.work, cpu=given.cpu) as stage:
            run = Run(stage, report)
            versions += _versions(run)
            for scene in SCENES:
                if not given.scene or scene.__name__ in given.scene:
                    _play(scene, run)
                if scene is first and report.failed() and not given.scene:
                    break  # without a server the rest tells nothing
            if given.keep:
                shutil.copytree(stage.project, given.keep, dirs_exist_ok=True)
    finally:
        name = f"gpu-{today}.md" if not given.cpu else f"cpu-{today}.md"
        report.write(
            given.out / name, "A server's life on a real GPU" if not given.cpu else "Rehearsal", versions
        )
        shutil.rmtree(given.work, ignore_errors=True)
    print(*report.failed(), sep="\n")
    return bool(report.failed())


def _play(scene: Callable[[Run], None], run: Run) -> None:
    """A scene that breaks is written down, and the next ones are still played."""
    run.report.title((scene.__doc__ or "").split("\n")[0].rstrip("."))
    try:
        scene(run)
    except Exception as error:
        run.report.check(f"{scene.__name__} went through ({type(error).__name__}: {error})", False)


def _versions(run: Run) -> list[tuple[str, str]]:
    code = (
        "import json, torch, transformers; cuda = torch.version.cuda; "
        "nccl = '.'.join(map(str, torch.cuda.nccl.version())) if cuda else ''; "
        "print(json.dumps([torch.__version__, transformers.__version__, str(cuda), nccl]))"
    )
    done = subprocess.run([run.stage.python, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    torch, transformers, cuda, nccl = json.loads(done.stdout.splitlines()[-1])
    found = [("Python", platform.python_version()), ("torch", torch), ("transformers", transformers)]
    found += [("CUDA (torch's)", cuda), ("NCCL (torch's)", nccl), ("kernel", platform.release())]
    found += [
        ("CPUs", str(os.cpu_count())),
        ("model", f"random Llama, {run.stage.parameters / 1e6:.0f}M parameters"),
    ]
    if run.gpu:
        said = smi("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader", "-i", "0")
        found.insert(0, ("GPU, driver, memory", said.strip()))
    return found


def _hidden(work: Path) -> dict[str, str]:
    """What names this machine."""
    source = str(Path(__file__).resolve().parents[2])
    places = {sys.prefix: "$PYTHON", sys.base_prefix: "$PYTHON", source: "$STOKER", str(work): "$WORK"}
    known = {path: name for path, name in places.items() if path not in ("/usr", "/usr/local")}
    kernel = platform.release()
    names = {socket.gethostname(): "gpu-host", platform.node(): "gpu-host", kernel: kernel.partition("-")[0]}
    return {**known, **names}


if __name__ == "__main__":
    sys.exit(main())
