"""What NVIDIA's ``all_reduce_perf`` (nccl-tests) prints, as rows of the probe.

A table whose heading names its columns: a size and twice (out of place, then in place) a time, two bandwidths
and a check. Builds differ: since 2022 there are ``root`` and ``#wrong`` (elements that are not what they must
be), before that ``error`` (the largest deviation), until 2019 ``res`` (the same) and milliseconds. Whether a
deviation is too large only the last lines tell. Where nothing was checked it is ``N/A``. Newer builds have
columns per iteration and a time stamp where they are asked for.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

_TIMES = ("time", "cputime")
_COUNT = "#wrong"
_CHECKS = (_COUNT, "error", "res")
_DEVICE = re.compile(r"^#?\s*Rank +\d+ .*?\bon +(\S+) +device ", re.MULTILINE)
_VERDICT = re.compile(r"Out of bounds values +: +(\d+) +(OK|FAILED)")
# With NCCL_DEBUG set, NCCL's own lines stand on the same stream, in the midst of rows.
_SAID = r"(?:\[[^\]\n]*\] )?%s:\d+:\d+ \[\d+\] (?:\d+ )?%s[^\n]*\n"


def parse(text: str) -> List[Dict[str, Any]]:
    """Its rows.

    Returns:
        ``{bytes, p50_s, wrong}`` each: the time in place, as engines reduce; ``wrong`` is how many elements
        are, out of place or in place (1 where only that some are is known), null where it was not checked.
    """
    found: List[Dict[str, Any]] = []
    columns: List[str] = []
    open_rows: List[Tuple[Dict[str, Any], float]] = []  # with their deviations: not judged yet
    for line in _without_nccl(text).splitlines():
        words = line.split()
        verdict = _VERDICT.search(line)
        if "algbw" in words:
            columns, open_rows = [word for word in words if word != "#"], []
        elif verdict:
            for one, most in open_rows:
                one["wrong"] = int(verdict.group(2) == "FAILED" and most > 0)
        else:
            row, deviation = _row(words, columns)
            found += [row] if row else []
            open_rows += [(row, deviation)] if row and deviation is not None else []
    return found


def _without_nccl(text: str) -> str:
    """Without what NCCL itself says of the program's own hosts."""
    for host in sorted(set(_DEVICE.findall(text))):
        name = re.escape(host)
        text = re.sub(r"\n" + _SAID % (name, r"\S+:\d+ NCCL WARN"), "", text)
        text = re.sub(_SAID % (name, "NCCL INFO"), "", text)
    return text


def _row(words: Sequence[str], columns: Sequence[str]) -> Tuple[Optional[Dict[str, Any]], Optional[float]]:
    """(a row; None where it is none, or no time was told. Its deviation, where that is what is told)."""
    times = [at for at, name in enumerate(columns) if name in _TIMES]
    checks = [at for at, name in enumerate(columns) if name in _CHECKS]
    if len(times) != 2 or len(checks) != 2 or len(words) <= checks[1] or not words[0].isdigit():
        return None, None
    try:
        seconds = float(words[times[1]]) * (1e-3 if "res" in columns else 1e-6)
        told = [float(words[at]) for at in checks if words[at] != "N/A"]
    except ValueError:
        return None, None
    if not 0 < seconds < math.inf:
        return None, None
    worst = sum(told) if all(math.isfinite(value) for value in told) else 1.0
    counted = columns[checks[0]] == _COUNT
    row = {"bytes": int(words[0]), "p50_s": seconds, "wrong": int(worst) if told and counted else None}
    return row, worst if told and not counted else None
