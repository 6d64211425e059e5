"""What the probe's script is told, and how what it wrote reads."""

from __future__ import annotations

import contextlib
import json
import math
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..context import AgentError
from ..processes.procs import read_file
from . import nccllog, ncclperf

RESULTS = "results.jsonl"
_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
_WARMUP, _SAMPLES, _CURVE_SAMPLES, _CHAIN = 5, 30, 10, 20
# Powers of two, in bytes: from what nobody feels to what a long prompt's chunk needs.
_CURVE = {True: (10, 24), False: (10, 20)}
_LOG_BYTES = 8 << 20
_HOLD_S = 20.0
_PERF_OPS = 100


class Found(NamedTuple):
    """What the script wrote so far.

    Args:
        ready: Versions; None: not all ranks are there.
        rows: Sizes of runs.
        measured: Whether everything was measured.
        done: Whether everything is over.
        failed: ``error``, ``died`` or ``late`` with its fields; None where none was told.
        last: What it told last, for people.
    """

    ready: Optional[Dict[str, Any]]
    rows: List[Dict[str, Any]]
    measured: bool
    done: bool
    failed: Optional[Dict[str, Any]]
    last: str


def settings(bench: Mapping[str, Any], model: Optional[Mapping[str, Any]], gpus: int) -> Dict[str, Any]:
    """What ``probe.json`` holds.

    Args:
        bench: ``Bench.to_wire()`` of an all-reduce.
        model: Of ``probemodel.read``.
        gpus: How many there are for it; 0: ranks on the CPU.

    Raises:
        AgentError: ``bad-request``: the hidden size is not known.
    """
    hidden = int(bench["hidden"] or (model["hidden"] if model else 0))
    if not hidden:
        what = "the hidden size is not known: the model has no config.json here that tells it"
        raise AgentError("bad-request", what, next_step="name it: --hidden 7168")
    dtype = str(bench["dtype"] or (model["dtype"] if model else "bfloat16"))
    each = hidden * _BYTES[dtype]
    if bench["tool"] == "nccl-tests" and not gpus:
        raise AgentError("bad-request", "nccl-tests measure GPUs, and the profile has none")
    batches = [int(one) for one in str(bench["batches"]).split(",")]
    sizes = [{"batch": batch, "bytes": batch * each} for batch in batches]
    least, most = _CURVE[bool(gpus)]
    return {
        "ranks": gpus or int(bench["ranks"]),
        "gpus": bool(gpus),
        "hidden": hidden,
        "dtype": dtype,
        "tool": bench["tool"],
        "runs": bench["runs"],
        "warmup": _WARMUP,
        "samples": _SAMPLES,
        "curve_samples": _CURVE_SAMPLES,
        "chain": _CHAIN,
        "graph": True,
        "sizes": sizes,
        "curve": [{"batch": 0, "bytes": 1 << power} for power in range(least, most + 1)],
        "ranges": _ranges([size["bytes"] for size in sizes]),
        "powers": [1 << least, 1 << most],
        "deadline_s": float(bench["deadline"]),
        "hold_s": _HOLD_S,
    }


def _ranges(sizes: Sequence[int]) -> List[List[int]]:
    """The sizes as nccl-tests takes them, from, to and doubling: as few ranges as that takes."""
    found: List[List[int]] = []
    for size in sizes:
        if found and size == 2 * found[-1][1]:
            found[-1][1] = size
        else:
            found.append([size, size])
    return found


def read(folder: str) -> Found:
    """What was written so far; a line that is being written is left for the next look."""
    text = read_file(os.path.join(folder, RESULTS), _LOG_BYTES).decode("utf-8", "replace")
    lines = []
    for line in text.split("\n")[:-1]:
        with contextlib.suppress(ValueError):
            one = json.loads(line)
            lines.extend([one] if isinstance(one, dict) else [])
    failed = [one for one in lines if {"error", "died", "late"} & set(one)]
    failed.sort(key=_weight)
    return Found(
        ready=next((one["ready"] for one in lines if "ready" in one), None),
        rows=[one["row"] for one in lines if "row" in one],
        measured=any("measured" in one for one in lines),
        done=any("done" in one for one in lines),
        failed=failed[0] if failed else None,
        last=next((_told(one) for one in reversed(lines) if one not in failed), "nothing yet"),
    )


def _weight(failed: Mapping[str, Any]) -> int:
    """What tells more comes first: a rank that was killed, one that says why it ends, that one has ended."""
    killed = "died" in failed and int(failed["died"]["status"]) < 0
    return 0 if killed else 1 if "error" in failed else 2


def _told(line: Mapping[str, Any]) -> str:
    if "row" in line:
        return "run %d, %d bytes" % (int(line["row"]["run"]) + 1, line["row"]["bytes"])
    if "sized" in line:
        return "diagnostic pass, %d bytes" % line["sized"]["bytes"]
    return ", ".join(line)


def perf_rows(folder: str, told: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """The rows of nccl-tests, as the script's own: those of each run, and the curve once."""
    batches = {size["bytes"]: size["batch"] for size in told["sizes"]}
    rows = []
    for row in _perf(folder, "curve"):
        rows.append({**row, "run": 0, "batch": 0})
    for run in range(int(told["runs"])):
        for row in _perf(folder, str(run)):
            if row["bytes"] in batches:
                rows.append({**row, "run": run, "batch": batches[row["bytes"]]})
    return rows


def _perf(folder: str, part: str) -> List[Dict[str, Any]]:
    path = os.path.join(folder, "nccl-tests.measure.%s.txt" % part)
    text = read_file(path, _LOG_BYTES).decode("utf-8", "replace")
    extra = {"way": "nccl-tests", "ops": _PERF_OPS, "p10_s": None, "p90_s": None}
    return [{**row, **extra, "seconds": _PERF_OPS * row["p50_s"]} for row in ncclperf.parse(text)]


def runs_of(rows: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Each run as the contract has it: its figure is all-reduces a second, one over the geometric mean of the
    batch sizes' median latencies, in ``tok_s``."""
    found = []
    for index in range(int(told["runs"])):
        every = [row for row in rows if row["run"] == index]
        mine = [row for row in every if row["batch"]]
        why = _why_not(every, told)
        logs = [math.log(row["p50_s"]) for row in mine if row["p50_s"] > 0]
        ops = sum(row["ops"] for row in mine)
        found.append(
            {
                "index": index,
                "tokens": ops,
                "requested": ops,
                "seconds": sum(row["seconds"] for row in mine) or None,
                "tok_s": None if why else math.exp(-sum(logs) / len(logs)),
                "ttft_s": None,
                "tpot_s": None,
                "valid": not why,
                "why": why,
            }
        )
    return found


def _why_not(rows: Sequence[Mapping[str, Any]], told: Mapping[str, Any]) -> str:
    """Why a run's rows are no measurement; empty where they are one. The curve's sums count, too."""
    missing = {size["bytes"] for size in told["sizes"]} - {row["bytes"] for row in rows if row["batch"]}
    wrong = [row for row in rows if row["wrong"]]
    if wrong:
        worst = max(wrong, key=lambda row: row["wrong"])
        return "wrong sums: %d elements of %d bytes and more" % (worst["wrong"], worst["bytes"])
    if missing:
        return "%d sizes were not measured" % len(missing)
    if any(row["wrong"] is None for row in rows):
        return "the sums were not checked"
    if any(row["p50_s"] <= 0 for row in rows):
        return "a time of nothing"
    return ""


def summary(rows: Sequence[Mapping[str, Any]], ranks: int) -> List[Dict[str, Any]]:
    """A row a size, over all runs: medians of the runs' marks, and bandwidths.

    Returns:
        ``{batch, bytes, way, p10_s, p50_s, p90_s, algbw_gb_s, busbw_gb_s, wrong}`` each, by bytes; batch 0 is
        of the curve.
    """
    found = []
    for key in sorted({(row["bytes"], row["batch"]) for row in rows}):
        same = [row for row in rows if (row["bytes"], row["batch"]) == key]
        marks = {name: _median([row[name] for row in same]) for name in ("p10_s", "p50_s", "p90_s")}
        algbw = key[0] / marks["p50_s"] / 1e9 if marks["p50_s"] else None
        found.append(
            {
                "batch": key[1],
                "bytes": key[0],
                "way": same[0]["way"],
                **marks,
                "algbw_gb_s": algbw,
                "busbw_gb_s": algbw * 2 * (ranks - 1) / ranks if algbw is not None else None,
                "wrong": max((row["wrong"] for row in same if row["wrong"] is not None), default=None),
            }
        )
    return found


def _median(values: Sequence[Optional[float]]) -> Optional[float]:
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    middle = len(known) // 2
    return known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2


def logs(folder: str) -> Dict[str, str]:
    """NCCL's own logs of the diagnostic pass, and what nccl-tests printed, by file name."""
    found = {}
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            if name.startswith("nccl"):
                text = read_file(os.path.join(folder, name), _LOG_BYTES).decode("utf-8", "replace")
                found[name] = text
    return found


def diagnosis(texts: Mapping[str, str], env: Mapping[str, str]) -> Optional[Dict[str, Any]]:
    """What NCCL said of itself: the first rank's log with the connections and complaints of all.

    Args:
        texts: Of ``logs``.
        env: What the profile sets.

    Returns:
        As ``nccllog.parse``, and ``variables`` of ``nccllog.judged``; None where there is no log.
    """
    ranks = [
        nccllog.parse(text.splitlines()) for name, text in sorted(texts.items()) if name.endswith(".log")
    ]
    if not ranks:
        return None
    whole = {**ranks[0], "transports": {}}
    for name in ("invalid", "warnings"):
        whole[name] = list(dict.fromkeys(line for one in ranks for line in one[name]))
    for one in ranks:
        for way, count in one["transports"].items():
            whole["transports"][way] = whole["transports"].get(way, 0) + count
    return {**whole, "variables": nccllog.judged(whole, env)}
