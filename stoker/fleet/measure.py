"""The verb that measures: bench."""

from __future__ import annotations

from stoker.fleet import life
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb
from stoker.fleet.measuring import serverbench
from stoker.fleet.measuring.benchflags import BENCH, MAX_LOSS, PORT, SURER


def bench(job: Job) -> Outcome:
    """Measure the server that runs, judge it against its baseline, pull the result back.

    The data has ``run_id``, ``tok_s``, ``verdict``, ``change``, ``line`` and, on a regression, ``causes``.
    """
    if job.args["bench"] == "allreduce":
        from stoker.fleet.measuring import probe

        return probe.probe(job)
    if job.args["bench"] == "llama-bench":
        from stoker.fleet.measuring import llamabench

        return llamabench.bench(job)
    if job.args.get("confirm") or job.args.get("until_sure"):
        from stoker.fleet.experiments import confirm

        return confirm.settled(job)
    return serverbench.measured(job)


VERBS = (
    Verb(
        "bench",
        (
            life.PROFILE,
            life.SLOT,
            PORT,
            *BENCH,
            Flag("launches", "Restart in between: the unit of evidence is the launch (1).", "whole", least=1),
            MAX_LOSS,
            *SURER,
            life.FORCE,
        ),
        bench,
        runs="server",
        wants_secrets=True,
        in_check="skipped",
    ),
)
