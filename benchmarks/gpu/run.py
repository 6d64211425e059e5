"""Stoker's commands as a user types them, and what the driver says meanwhile."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.report import Report
from benchmarks.gpu.stage import Stage

_HOLDER = Path(__file__).with_name("holder.py")
_INV_S = 200.0


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    code: int
    out: str

    @property
    def data(self) -> dict[str, Any]:
        """What a ``--json`` document says of the one host; empty where it failed."""
        try:
            results = next(iter(json.loads(self.out)["hosts"].values()))["results"]
        except (ValueError, KeyError, StopIteration):
            return {}
        found: dict[str, Any] = results[-1] if results else {}
        return found


@dataclass(frozen=True)
class Run:
    """The stage and what is written down about it."""

    stage: Stage
    report: Report

    @property
    def gpu(self) -> bool:
        """Whether there is one."""
        return self.stage.device == "cuda"

    def inv(self, *words: str, expect: int | None = 0, show: bool = True) -> Ended:
        """Run a command in the project as a user would; its exit code must be the expected one, if any."""
        begin = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "invoke", *words],
                cwd=self.stage.project,
                env={**os.environ, "COLUMNS": "132"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if "--json" in words else subprocess.STDOUT,
                text=True,
                timeout=_INV_S,
            )
            code, out = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            code, out = -1, f"{error.stdout!r}\nnot done within {_INV_S:.0f} s"
        is_right = expect in (None, code)
        if show or not is_right:
            self.report.ran("inv " + shlex.join(words), out, time.monotonic() - begin, code)
        if not is_right:
            self.report.check(f"inv {words[0]} ends with {expect} (it ended with {code})", False)
        return Ended(code, out)

    def restart(self, profile: str) -> dict[str, Any]:
        """Restart under a profile and show the record of it, step by step; the data of it."""
        begin = time.monotonic()
        words = ("restart", "--host", self.stage.host, "--profile", profile, "--json")
        ended = self.inv(*words, show=False)
        data = ended.data
        shown = _told(data) if data else ended.out
        self.report.ran(
            "inv " + shlex.join(words) + "  # in short", shown, time.monotonic() - begin, ended.code
        )
        self.report.check(
            f"{profile} is ready and its tuning in force in every worker",
            (data.get("proof") or {}).get("verdict") == "in-force",
        )
        return data

    def memory(self) -> int | None:
        """MiB in use on GPU 0."""
        if not self.gpu:
            return None
        return int(smi("--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0").split()[0])

    def picture(self) -> None:
        """Who holds the GPU now, in the driver's words."""
        if self.gpu:
            words = ("--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
            self.report.listing(f"$ nvidia-smi {shlex.join(words)}\n{smi(*words)}", "console")

    def hold(self, title: str, *kind: str) -> tuple[subprocess.Popen[str], int]:
        """Start a process that holds memory; it and the number of the one that does."""
        words = [str(self.stage.python), str(_HOLDER), self.stage.device, str(self.stage.mib), title, *kind]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        if process.stdout is None:
            raise RuntimeError("a pipe was asked for")
        return process, int(process.stdout.readline())


def _told(data: dict[str, Any]) -> str:
    """A restart as a person wants it for evidence."""
    report = data.get("kill") or {}
    lines = [f"{step['seconds']:7.2f} s  {step['name']}: {step['detail']}" for step in data.get("steps", [])]
    for process in report.get("ended", []):
        held = f"GPU {process['gpus']} {process['gpu_mib']} MiB" if process["gpus"] else "no GPU"
        lines.append(f"ended {process['pid']} {process['title'][:60]!r} {held}: {process['reason']}")
    released = report.get("released") or {}
    lines += [
        f"GPU {g['index']}: {g['before_mib']} MiB → {g['after_mib']} MiB" for g in released.get("gpus", [])
    ]
    lines.append(f"released: {json.dumps({k: v for k, v in released.items() if k != 'gpus'})}")
    lines.append(f"containment: {report.get('containment')}")
    proof = data.get("proof") or {}
    workers = [f"{w['pid']} {w['title'][:40]!r} from {w['source']}" for w in proof.get("workers", [])]
    lines += [f"ready after {data.get('ready_s')} s; completion: {data.get('completion')}"]
    lines += [
        f"proof: {proof.get('verdict')}, {len(proof.get('variables', []))} variables, {'; '.join(workers)}"
    ]
    return "\n".join(lines)


def smi(*words: str) -> str:
    """What nvidia-smi prints, as the driver has it."""
    folders = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/nvidia/bin"])
    program = shutil.which("nvidia-smi", path=folders)
    if program is None:
        raise RuntimeError("no nvidia-smi here: --cpu rehearses without a GPU")
    return subprocess.run([program, *words], check=True, stdout=subprocess.PIPE, text=True).stdout
