"""A record for people and for programs, and what of it is a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, EXIT_REGRESSED, HostFailed
from stoker.fleet.job import Job, Outcome
from stoker.fleet.judge import explained
from stoker.fleet.measuring import loads

if TYPE_CHECKING:
    from stoker.results.baselines.baseline import Baseline
    from stoker.results.records.record import Record

_SHOWN_CAUSES = 3


def data(record: Record, base: Baseline | None = None) -> dict[str, Any]:
    """What a playbook registers and --json prints of any benchmark.

    ``samples`` and ``base_samples`` are the numbers of valid runs, a launch each, that the verdict rests on.
    """
    verdict = record.verdict
    return {
        "run_id": record.run_id,
        "profile": record.profile,
        "model": record.model,
        "bench": record.bench.to_wire(),
        "simulated": record.simulated,
        "contaminated": list(record.contaminated),
        "metrics": {name: vars(metric) for name, metric in record.metrics.items()},
        "verdict": verdict.verdict if verdict else None,
        "change": verdict.change if verdict else None,
        "line": verdict.line if verdict else "",
        "samples": [len(runs) for runs in record.samples],
        "base_samples": [len(runs) for runs in base.samples] if base else [],
        "causes": [],
    }


def outcome(job: Job, record: Record, base: Baseline | None, unkept: Sequence[str] = ()) -> Outcome:
    """What a judged run says to people and programs; a regression comes with its first causes.

    Args:
        job: Of the host.
        record: The run.
        base: What it was judged against; None where there is no baseline.
        unkept: Why raw files could not be kept on the host.
    """
    from stoker.results.meanwhile import disturbed

    verdict = record.verdict
    regressed = verdict is not None and verdict.verdict == "regressed"
    why = explained(record, base) if regressed and base else None
    told = {
        **data(record, base),
        "disturbed": list(disturbed(record)),
        "tok_s": round(record.pace.value, 3) if record.pace else None,
        **loads.of(record),
    }
    if why:
        told["causes"] = why.data["causes"]
    lines = [(verdict.line, "")] if verdict and verdict.line else []
    lines += [(loads.line(told), "")] if record.bench.name != "decode" else []
    lines += [(f"not kept on the host: {text}", "yellow") for text in unkept]
    lines += [(f"contaminated: {text}", "yellow") for text in record.contaminated]
    said = verdict.line if verdict else ""
    lines += [(f"disturbed: {text}", "yellow") for text in disturbed(record) if text not in said]
    if why:
        count = len(why.data["unlike"]) + len(why.data["causes"])
        causes = why.lines[1 : 1 + count]  # the first says what it is compared with, the last what to do
        lines += causes[:_SHOWN_CAUSES]
        more = len(causes) - _SHOWN_CAUSES
        lines += [(f"and {more} more: inv explain --host {job.host.name}", "dim")] if more > 0 else []
    code = EXIT_REGRESSED if regressed else EXIT_DONE
    return Outcome(_headline(record), told, exit_code=code, lines=tuple(lines))


def refuse_incomplete(job: Job, record: Record, told: dict[str, Any]) -> None:
    """A measurement that lacks runs is none of what was asked for, whatever the rest of them says.

    Raises:
        HostFailed: ``incomplete``; the record is saved.
    """
    from stoker.results.compare import incomplete

    missing = incomplete(record)
    if missing:
        why = [run.why for launch in record.launches for run in launch.runs if run.why]
        raise HostFailed(
            f"{_headline(record)}: {missing}",
            host=job.host.name,
            kind="incomplete",
            evidence=[*([told["line"]] if told["line"] else []), *dict.fromkeys(why)],
            next_step=f"inv logs --host {job.host.name}; what was measured is {record.run_id}",
            detail=told,
        )


def _headline(record: Record) -> str:
    verdict = record.verdict
    what = f"{record.pace.value:.1f} tok/s" if record.pace else "not measured"
    word = verdict.verdict if verdict else "unjudged"
    shown = word.upper() if word in ("ok", "regressed", "improved") else word
    mark = " (simulated)" if record.simulated else ""
    return f"{what}{mark}: {shown}"
