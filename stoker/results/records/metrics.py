"""The figures of a record, over all its valid runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from stoker.results.records.metric import Metric

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.results.records.record import Launch, Run

# What people look at first; the rest follows in the order in which the host told it.
_FIRST = ("req_s", "good_req_s", "ttft_s", "ttft_p99_s", "tpot_s", "tpot_p99_s", "e2e_s", "e2e_p99_s")
_UNITS = {
    "req_s": "req/s",
    "good_req_s": "req/s",
    "input_tok_s": "tok/s",
    "prefill_tok_s": "tok/s",
    "input_tokens": "tokens",
    "cached_share": "",
}


def metrics_of(bench: Bench, launches: Sequence[Launch]) -> dict[str, Metric]:
    """Figures over the valid runs; those that nothing was measured for are left out.

    Of ``serve`` each is the median of what the runs came to; its throughput is over all of them.
    """
    if bench.name == "allreduce":
        from stoker.results.records import latencies

        return latencies.metrics(bench.judged, launches)
    runs = [run for launch in launches for run in launch.runs if run.valid]
    seconds = sum(run.seconds or 0.0 for run in runs)
    if not runs or seconds <= 0:
        return {}
    pace = Metric(sum(run.tokens for run in runs) / seconds, "tok/s")
    if bench.name == "decode":
        return {"decode_tok_s": pace} | dict(_medians(runs, ("ttft_s", "tpot_s")))
    if bench.name == "llama-bench":
        return {bench.judged: pace} | _figures(runs) | dict(_medians(runs, ("tpot_s",)))
    return dict(_judged(bench, runs)) | {"output_tok_s": pace} | _figures(runs) | _cache(launches)


def _judged(bench: Bench, runs: Iterable[Run]) -> Iterator[tuple[str, Metric]]:
    """What the verdict rests on comes first."""
    values = [run.user_tok_s for run in runs if run.user_tok_s is not None]
    if values and bench.judged == "user_tok_s":
        yield "user_tok_s", Metric(statistics.median(values), "tok/s")


def _medians(runs: Sequence[Run], names: Iterable[str]) -> Iterator[tuple[str, Metric]]:
    for name in names:
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        if values:
            yield name, Metric(statistics.median(values), "s")


def _figures(runs: Sequence[Run]) -> dict[str, Metric]:
    told = list(dict.fromkeys(name for run in runs for name in run.figures))
    names = [name for name in _FIRST if name in told] + [name for name in told if name not in _FIRST]
    return {
        name: Metric(
            statistics.median(run.figures[name] for run in runs if name in run.figures), _UNITS.get(name, "s")
        )
        for name in names
    }


def _cache(launches: Sequence[Launch]) -> dict[str, Metric]:
    """How much of the prompts came out of the prefix cache, by the server's own metrics."""
    found = [launch.machine.get("prefix_hit_share") for launch in launches]
    shares = [value for value in found if isinstance(value, int | float) and 0 <= value <= 1]
    return {"prefix_hit_share": Metric(statistics.median(shares), "")} if shares else {}
