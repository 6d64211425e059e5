"""Virtual environments made by hand, in milliseconds: a Python, one stand-in engine, its version look-ups."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import stoker
from stoker.lab.standins import LABEL
from stoker.lab.state import write

_SHEBANG_LIMIT = 120  # bytes that every kernel accepts


@dataclass(frozen=True)
class Engine:
    """What one environment holds.

    Args:
        package: Import name, and the folder under ``stoker/lab/standins``.
        version: What ``importlib.metadata.version(package)`` says.
        torch: The same of torch, as that release of the engine demands it.
        entry: ``module:function`` of the console script of the same name.
    """

    package: str
    version: str
    torch: str
    entry: str


ENGINES = (
    Engine("sglang", "0.5.23", "2.14.1", "sglang.cli.main:main"),
    Engine("vllm", "0.33.0", "2.14.0", "vllm.entrypoints.cli.main:main"),
)
NCCL = "2.28.9"


def make(folder: Path, engine: Engine, settings: Mapping[str, object]) -> None:
    """Make or renew the environment of one engine.

    Args:
        folder: The environment's folder.
        settings: Written to ``standin.json``, which the stand-ins read.
    """
    shutil.rmtree(folder, ignore_errors=True)
    python = base_python()
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        link(folder / "bin" / name, python)
    version = ".".join(map(str, sys.version_info[:3]))
    write(
        folder / "pyvenv.cfg",
        f"home = {python.parent}\ninclude-system-site-packages = false\nversion = {version}\n",
    )
    write(folder / "standin.json", json.dumps(dict(settings), indent=2) + "\n")
    _packages(site, engine)
    _script(folder, engine)


def base_python() -> Path:
    """The interpreter below any virtual environment that we run in."""
    base: str = getattr(sys, "_base_executable", sys.executable)
    return Path(os.path.realpath(base))


def link(path: Path, target: Path) -> None:
    """A symbolic link, made or renewed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() and path.readlink() == target:
        return
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _packages(site: Path, engine: Engine) -> None:
    """Only what the stand-in needs is to be seen there, so links to packages and no path of ours."""
    ours = Path(stoker.__file__).parent
    link(site / "stoker", ours)
    link(site / engine.package, ours / "lab" / "standins" / engine.package)
    spec = importlib.util.find_spec("setproctitle")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("setproctitle is needed: pip install 'stoker[lab]'", name="setproctitle")
    link(site / "setproctitle", Path(spec.origin).parent)
    _distribution(site, engine.package, engine.version)
    _distribution(site, "torch", engine.torch)
    _distribution(site, "nvidia-nccl-cu13", NCCL)
    library = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    write(library, f"NCCL version {NCCL}+cuda13.0\0 ({LABEL})\n")


def _distribution(site: Path, name: str, version: str) -> None:
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {LABEL}\n"
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    write(folder / "METADATA", text)
    write(folder / "INSTALLER", "stoker-lab\n")


def _script(folder: Path, engine: Engine) -> None:
    """The console script; where its path is too long for a first line, the shell starts the interpreter."""
    module, _, function = engine.entry.partition(":")
    python = str(folder / "bin" / "python")
    first = f"#!{python}"
    if len(first.encode()) > _SHEBANG_LIMIT or " " in python:
        quoted = '"' + python.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$") + '"'
        first = f"#!/bin/sh\n'''exec' {quoted} \"$0\" \"$@\"\n' '''"
    text = f"{first}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    write(folder / "bin" / engine.package, text, mode=0o755)
