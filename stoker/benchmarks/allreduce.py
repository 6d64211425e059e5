"""The benchmark ``allreduce``: the all-reduces of decoding, measured without a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.benchmarks.bench import Bench, settled
from stoker.errors import InputError, nearest

NAME = "allreduce"
BATCHES = "1,2,4,8,16,32,64"
DTYPES = ("bfloat16", "float16", "float32")
TOOLS = ("torch", "nccl-tests")
# The largest sum of so many ranks is still a whole number that bfloat16 holds, so that each can be checked.
BOUNDS = {"runs": (1, 1000), "hidden": (0, 1_000_000), "ranks": (1, 16), "deadline": (5, 3600)}
_MOST_BATCHES = 32
_MOST_BATCH = 65_536


@dataclass(frozen=True)
class AllReduce(Bench):
    """All-reduces of the sizes that a decoding step makes: batch × hidden × bytes.

    Args:
        batches: Sequences that decode at once, in rising order.
        hidden: Of the model; 0: as its ``config.json`` on the host says.
        dtype: Of an element; empty: likewise.
        ranks: Where the profile has no GPUs; else one a GPU.
        tool: ``torch``: the engine's own torch.distributed; ``nccl-tests``: ``all_reduce_perf`` on the PATH.
        deadline: Seconds after which a probe that hangs is ended; no part of what is measured.
    """

    name: str = NAME
    tokens: int = 0
    concurrency: int = 0
    batches: str = BATCHES
    hidden: int = 0
    dtype: str = ""
    ranks: int = 2
    tool: str = TOOLS[0]
    deadline: int = 120

    def to_wire(self) -> dict[str, Any]:
        """The same as JSON types."""
        names = ("name", "runs", "batches", "hidden", "dtype", "ranks", "tool", "deadline")
        return {name: getattr(self, name) for name in names}

    @property
    def title(self) -> str:
        """For people: ``allreduce 5 × batches 1,2,4 × hidden 7168 bfloat16, 8 ranks``."""
        return f"{self.name} {self.runs} × batches {self.batches} × hidden {self.size}"

    @property
    def level(self) -> str:
        """How many ranks."""
        return f"{self.ranks} ranks"

    @property
    def size(self) -> str:
        """What is summed: ``7168 bfloat16, 8 ranks``."""
        return f"{self.hidden} {self.dtype}, {self.level}"

    @property
    def load(self) -> str:
        """All that tells two of them apart, on one line."""
        told = {k: v for k, v in self.to_wire().items() if k not in ("name", "runs", "deadline")}
        return ", ".join(f"{k} {v}" for k, v in told.items())

    @property
    def judged(self) -> str:
        """All-reduces a second: one over the geometric mean of the batch sizes' median latencies."""
        return "allreduces_per_s"


def merged(profile: Mapping[str, Any], overrides: Mapping[str, Any]) -> AllReduce:
    """The benchmark as it was asked for; of a profile's other benchmark only the number of runs is taken.

    Args:
        profile: The profile's ``bench``, or that of a record.
        overrides: What the command line says.

    Raises:
        InputError: Not a parameter of it, or a value that is none or out of bounds.
    """
    return AllReduce(**settled(NAME, profile, overrides, _value))


def _value(name: str, value: object, where: str) -> Any:
    if name in BOUNDS:
        return _whole(name, value, where)
    if name == "batches":
        return _batches(value, where)
    known = {"dtype": ("", *DTYPES), "tool": TOOLS}.get(name)
    if known is None:
        own = (*BOUNDS, "batches", "dtype", "tool")
        raise InputError("is not of the benchmark allreduce", where=where, next_step=nearest(name, own))
    if value not in known:
        hint = nearest(str(value), [one for one in known if one])
        raise InputError(f"{value!r} is not known", where=where, next_step=hint)
    return value


def _whole(name: str, value: object, where: str) -> int:
    text = str(value).strip()
    least, most = BOUNDS[name]
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise InputError(f"{value!r} is not a whole number", where=where)
    if len(text) > 12 or not least <= int(text) <= most:
        raise InputError(f"{text[:20]} is out of bounds, {name} goes from {least} to {most}", where=where)
    return int(text)


def _batches(value: object, where: str) -> str:
    items = value if isinstance(value, list | tuple) else str(value).split(",")
    texts = [str(item).strip() for item in items]
    bad = next((t for t in texts if not t.isascii() or not t.isdigit() or len(t) > 8), None)
    if bad is not None:
        raise InputError(f"{bad[:40]!r} is no batch size", where=where, next_step=f"write {BATCHES}")
    found = sorted({int(text) for text in texts})
    if not 1 <= found[0] <= found[-1] <= _MOST_BATCH or len(found) > _MOST_BATCHES:
        most = f"at most {_MOST_BATCHES} batch sizes from 1 to {_MOST_BATCH}"
        raise InputError("out of bounds", where=where, next_step=most)
    return ",".join(map(str, found))


def script() -> str:
    """The text of what runs on the host."""
    return Path(__file__).with_name("allreduce_probe.py").read_text(encoding="utf-8")


def program(slot: str) -> str:
    """Python code that runs the script in the slot's folder, wherever the login's home is."""
    path = f"~/.stoker/slots/{slot}/probe/probe.py"
    return f"import os, runpy; runpy.run_path(os.path.expanduser({path!r}), run_name='__main__')"
