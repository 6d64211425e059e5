"""What the run needs on the machine: a model, the engine's environment, a project, the SSH side."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.config import scaffold
from stoker.lab import lab

_HERE = Path(__file__).parent
_MODEL = _HERE.parents[1] / "tests" / "real" / "make_model.py"
# Nothing in a small model's speed hangs on these; what a loss of one does is seen by its name all the same.
TUNING = {
    "OMP_NUM_THREADS": "8",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "NCCL_PROTO": "LL",
    "TOKENIZERS_PARALLELISM": "false",
}
LOST = "PYTORCH_CUDA_ALLOC_CONF"
WIDTH, LAYERS = 2048, 16  # 0.9 billion parameters: decoding keeps the GPU busy


@dataclass(frozen=True)
class Stage:
    """What there is.

    Args:
        folder: Everything lies in it.
        host: The host's name.
        address: Where its server listens.
        device: ``cuda`` or ``cpu``.
        mib: Memory of each process that only holds some.
        parameters: Of the model.
    """

    folder: Path
    host: str
    address: str
    device: str
    mib: int
    parameters: int

    @property
    def project(self) -> Path:
        """Where ``inv`` is run."""
        return self.folder / "project"

    @property
    def python(self) -> Path:
        """The engine's interpreter."""
        return self.folder / "venv" / "bin" / "python"


@contextmanager
def prepare(folder: Path, *, cpu: bool) -> Iterator[Stage]:
    """Make all of it; nothing that ran on the SSH side is left when it ends.

    Args:
        folder: Empty or missing.
        cpu: Without a GPU, and with a model that a CPU can bear.
    """
    folder.mkdir(parents=True)
    python = environment(folder / "venv")
    sizes = ("256", "2") if cpu else (str(WIDTH), str(LAYERS))
    made = subprocess.run(
        [python, _MODEL, folder / "model", *sizes],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    scaffold.lay(folder / "project")
    device, mib = ("cpu", 64) if cpu else ("cuda", 8192)
    _profiles(folder, device, mib)
    state = lab.up(folder / "lab", 1, plain=True)
    try:
        host = state.hosts[0]
        _hosts(folder, Path(state.inventory))
        yield Stage(folder, host.name, host.address, device, mib, int(made.stdout.split()[-1]))
    finally:
        lab.down(folder / "lab")


def environment(folder: Path) -> Path:
    """A virtual environment that sees what this Python sees, whatever variables a server starts without."""
    venv.EnvBuilder(with_pip=False).create(folder)
    python = folder / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    source = str(_HERE.parents[1])
    paths = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in ("", source)]
    first = dict.fromkeys(path for path in sys.path if path in paths)
    (folder / "lib" / version / "site-packages" / "outer.pth").write_text("\n".join(first) + "\n")
    program = folder / "bin" / "transformers"
    program.write_text(f"#!{python}\nfrom transformers.cli.transformers import main\n\nmain()\n")
    program.chmod(0o755)
    return python


def _profiles(folder: Path, device: str, mib: int) -> None:
    """As tuned; without one variable; with a debugging variable left in; with workers of its own."""
    here = folder / "project" / "profiles"
    for path in here.glob("*.yml"):
        path.unlink()
    env = dict(TUNING)
    if os.environ.get("LD_LIBRARY_PATH"):  # a container's image may have the driver's libraries only there
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    lines = "\n".join(f'  {name}: "{value}"' for name, value in env.items())
    (here / "tuned.yml").write_text(
        f"""\
description: A random Llama under transformers serve, with tuning variables
engine: transformers
server:
  name: tiny
  model: {folder}/model
  bind: "{{{{ stoker_bind }}}}"
  port: 8300
  gpus: {"[]" if device == "cpu" else "[0]"}
  venv: {folder}/venv
env:
{lines}
ready: {{timeout_s: 150, stall_s: 100}}
bench: {{runs: 4, tokens: {32 if device == "cpu" else 200}}}
"""
    )
    (here / "lost.yml").write_text(f"extends: tuned\nenv:\n  {LOST}: null\n")
    (here / "debug.yml").write_text('extends: tuned\nenv:\n  CUDA_LAUNCH_BLOCKING: "1"\n')
    wrap = f"[python, {_HERE}/crew.py, {device}, '{mib}']"
    (here / "crew.yml").write_text(f"extends: tuned\nserver:\n  wrap: {wrap}\n")


def _hosts(folder: Path, inventory: Path) -> None:
    """The lab's inventory is the project's."""
    own = folder / "project" / "inventory"
    for path in own.rglob("*"):
        if path.is_file():
            path.unlink()
    (own / "hosts.yml").write_text((inventory / "hosts.yml").read_text())
