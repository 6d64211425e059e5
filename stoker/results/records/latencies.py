"""The figures of all-reduces: a size each, over the launches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.results.records.metric import Metric

if TYPE_CHECKING:
    from stoker.results.records.record import Launch

# (in the host's rows, in a record's metrics)
_MARKS = (("p50_s", "p50_us"), ("p10_s", "p10_us"), ("p90_s", "p90_us"))


def metrics(judged: str, launches: Sequence[Launch]) -> dict[str, Metric]:
    """Medians over the launches, in microseconds and GB/s, after what the verdict rests on.

    Args:
        judged: What that is called.
        launches: Of a record.
    """
    paces = [sample for launch in launches for sample in launch.samples]
    if not paces:
        return {}
    pace = math.exp(statistics.fmean(math.log(one) for one in paces))
    found = {judged: Metric(pace, "1/s"), "latency_us": Metric(1e6 / pace, "µs")}
    for batch in batches(launches):
        for mark, name in _MARKS:
            value = median(launches, batch, mark)
            if value is not None:
                found[f"batch{batch}_{name}"] = Metric(1e6 * value, "µs")
        busbw = median(launches, batch, "busbw_gb_s")
        if busbw is not None:
            found[f"batch{batch}_busbw_gb_s"] = Metric(busbw, "GB/s")
    return found


def batches(launches: Sequence[Launch]) -> list[int]:
    """The batch sizes, in order."""
    return sorted({int(row["batch"]) for launch in launches for row in sizes(launch) if row["batch"]})


def sizes(launch: Launch) -> list[dict[str, Any]]:
    """A launch's rows, a size each; what is no row is left out."""
    rows = launch.probe.get("sizes")
    known = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [row for row in known if isinstance(row.get("batch"), int) and isinstance(row.get("bytes"), int)]


def median(launches: Sequence[Launch], batch: int, name: str = "p50_s") -> float | None:
    """Of a batch size's figure, over the launches; None where none has it."""
    found = [row.get(name) for launch in launches for row in sizes(launch) if row["batch"] == batch]
    values = [float(value) for value in found if isinstance(value, int | float) and 0 < value < math.inf]
    return statistics.median(values) if values else None
