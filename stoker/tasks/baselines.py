"""``inv baseline --list`` and ``--retire``: what is accepted, and what is no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, InputError
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.results.baselines.baseline import Baseline
    from stoker.tasks.run import Run


def show(run: Run) -> int:
    """Every baseline, of the named hosts only where ``--host`` names some.

    Raises:
        ConfigError: Every mistake in every file.
    """
    store = run.project.baselines
    names = {host.name for host in run.project.hosts(run.args["host"])} if run.args["host"] else None
    found = [one for one in store.all() if names is None or one.key.host in names or one.key.hardware]
    run.document["baselines"] = [_told(run, one) for one in found]
    run.screen.table(
        ("host or class", "measured", "tok/s>", "rests on", "accepted", "why"),
        [_row(one) for one in found],
    )
    for one in found:
        run.screen.say((f"  {run.project.shown(store.path(one.key))}", "dim"))
    if not found:
        run.screen.say("nothing is accepted yet: inv baseline --host NAME accepts its latest run")
    return EXIT_DONE


def retire(run: Run) -> int:
    """Put one baseline out of use; its runs have none from then on, until another one is accepted.

    Raises:
        InputError: No reason is given, no or several baselines are meant, or it cannot be written.
    """
    why = (run.args["why"] or "").strip()
    if not why:
        raise InputError(
            "a baseline is retired for a reason", next_step='add --why "…": it stays in the file'
        )
    store = run.project.baselines
    path, found = store.named(run.args["retire"])
    shown = run.project.shown(path)
    run.document["retired"] = _told(run, found)
    if run.args["check"]:
        run.screen.say(f"would retire {shown}")
        return EXIT_DONE
    to = run.project.shown(store.retire(path, by=run.project.owner, why=why))
    run.document["retired"]["to"] = to
    run.screen.say(("retired ", "green"), f"{shown}; it lies in {to}")
    run.screen.say((f"to use it again: mv {to} {shown}", "dim"))
    return EXIT_DONE


def _row(one: Baseline) -> tuple[Any, ...]:
    model = one.key.model.rstrip("/").rpartition("/")[2]
    size = one.key.load or f"{one.key.tokens}×{one.key.concurrency}"
    simulated = " sim" if one.key.simulated else ""
    return (
        one.key.where,
        f"{model}, {one.key.engine}, {one.key.bench} {size}",
        f"{one.tok_s:.1f}{simulated}",
        _rests_on(one),
        f"{one.accepted_at[:10]} {one.accepted_by}".strip(),
        one.why,
    )


def _rests_on(one: Baseline) -> str:
    runs = sum(len(launch) for launch in one.samples)
    return f"{counts(len(one.samples), 'launch', 'launches')}, {counts(runs, 'run', 'runs')}"


def _told(run: Run, one: Baseline) -> dict[str, Any]:
    """For programs."""
    return {
        "file": run.project.shown(run.project.baselines.path(one.key)),
        "key": vars(one.key),
        "tok_s": one.tok_s,
        "launches": len(one.samples),
        "runs": list(one.run_ids),
        "profile": one.profile,
        "accepted_at": one.accepted_at,
        "accepted_by": one.accepted_by,
        "why": one.why,
    }
