"""What NVIDIA's ``all_reduce_perf`` (nccl-tests) prints, as rows of the probe.

Its documented table: ``size count type redop root`` and twice ``time algbw busbw #wrong``, first out of place
and then in place; times are means in microseconds. Older builds lack ``root``, or have ``error`` in place of
``#wrong``.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List

_TAIL = 8  # both groups of four


def parse(lines: Iterable[str]) -> List[Dict[str, Any]]:
    """Its rows.

    Returns:
        ``{bytes, p50_s, wrong}`` each: the time in place, as engines reduce; ``wrong`` is null where it was
        not checked.
    """
    found = []
    for line in lines:
        words = line.split()
        if len(words) < 3 + _TAIL or not words[0].isdigit() or not words[1].isdigit():
            continue
        try:
            seconds = float(words[-4]) / 1e6
            checked = [words[-5], words[-1]]
            wrong = None if "N/A" in checked else int(sum(float(word) for word in checked))
        except ValueError:
            continue
        if seconds > 0:
            found.append({"bytes": int(words[0]), "p50_s": seconds, "wrong": wrong})
    return found
