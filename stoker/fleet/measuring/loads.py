"""Several loads in one command: a record and a verdict each; one that fails does not hide the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, HostFailed
from stoker.fleet.job import Job, Outcome

if TYPE_CHECKING:
    from stoker.benchmarks import Bench
    from stoker.results.records.record import Record

# What is told of a load beside its throughput: metric, and how it is called.
_TOLD = (
    ("output_tok_s", "out"),
    ("req_s", "done"),
    ("good_req_s", "good"),
    ("ttft_s", "TTFT"),
    ("ttft_p99_s", "p99"),
    ("tpot_s", "TPOT"),
    ("tpot_p99_s", "p99"),
    ("e2e_s", "end to end"),
    ("e2e_p99_s", "p99"),
    ("prefix_hit_share", "prefix cache hits"),
)
# A load that is too much for a server says nothing against the next one.
_OF_ONE_LOAD = ("invalid", "incomplete")


def of(record: Record) -> dict[str, Any]:
    """What the data of ``bench`` has for a load of ``serve``; nothing for ``decode``."""
    if record.bench.name == "decode":
        return {}
    errors: dict[str, int] = {}
    for run in (run for launch in record.launches for run in launch.runs):
        for kind, count in run.errors.items():
            errors[kind] = errors.get(kind, 0) + count
    return {"level": record.bench.level, "errors": errors}


def line(data: dict[str, Any]) -> str:
    """What a load came to, for people: ``TTFT 52.0 ms, p99 61.4 ms, …``."""
    from stoker.results.figures import figure

    metrics = data["metrics"]
    told = [(word, metrics[name]) for name, word in _TOLD if name in metrics]
    return ", ".join(f"{word} {figure(found['value'], found['unit'])}" for word, found in told)


def told(job: Job, works: Sequence[Callable[[], Outcome]], levels: Sequence[Bench]) -> Outcome:
    """Do each load, and tell all of them; the data has ``rows``, one a load.

    Args:
        job: Of the host.
        works: What measures and judges each.
        levels: The loads.

    Raises:
        HostFailed: A load has no whole measurement; the others are saved, and told in its detail.
    """
    done: list[Outcome] = []
    lines: list[tuple[str, str]] = []
    failed: list[tuple[str, HostFailed]] = []
    for work, level in zip(works, levels, strict=True):
        try:
            outcome = work()
        except HostFailed as error:
            if error.kind not in _OF_ONE_LOAD:
                raise
            failed.append((level.level, error))
            lines.append((f"{level.level}: {error.what}", "yellow"))
            continue
        done.append(outcome)
        lines += [(f"{level.level}: {outcome.summary}", "bold"), *outcome.lines]
    rows = [outcome.data for outcome in done]
    if failed:
        what, first = failed[0]
        for text, _ in lines:
            job.session.emit({"type": "note", "text": text})
        raise HostFailed(
            f"{what}: {first.what}",
            host=job.host.name,
            kind=first.kind,
            evidence=first.evidence,
            next_step=first.next_step,
            detail={"rows": rows},
        ) from first
    code = max((outcome.exit_code for outcome in done), default=EXIT_DONE)
    return Outcome(f"{len(done)} loads measured", {"rows": rows}, exit_code=code, lines=tuple(lines))
