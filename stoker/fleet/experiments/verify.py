"""``explain --verify``: is that the cause? Restored and taken away again, in ABBA order, and measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError, nearest
from stoker.fleet import judge, life
from stoker.fleet.experiments import experiment
from stoker.fleet.experiments.experiment import Setting
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb

if TYPE_CHECKING:
    from stoker.results.baselines.baseline import Baseline
    from stoker.results.explaining.changes import Change
    from stoker.results.records.record import Record
    from stoker.results.statistics.abba import Effect

CAUSE = Flag("cause", "With --verify: which variable or argument to restore (all likely ones).", "list")


def verify(job: Job) -> Outcome:
    """Restore the likely causes from what was accepted, measure in ABBA order, and put back what ran.

    The data has ``causes``, ``verdict``, ``change``, ``low``, ``high``, ``without``, ``restored``, ``share``
    and ``launches``.
    """
    from stoker.results.explaining import changes
    from stoker.results.statistics import abba

    record, base, found = suspects(job)
    chosen = _chosen(found, job.args["cause"] or [])
    mine = experiment.resolved_of(record)
    settings = {
        False: Setting("as it is", mine),
        True: Setting(changes.told(chosen), changes.applied(mine, chosen)),
    }
    turns = abba.order()
    price = experiment.cost(record, len(turns) + 1)
    plan = (
        f"A: as it is; B: with {changes.told(chosen)}; in the order A B B A, then back to what runs: {price}"
    )
    if job.check:
        return Outcome(
            f"would measure {len(turns)} launches", {"causes": _named(chosen)}, True, lines=((plan, ""),)
        )
    job.session.emit({"type": "note", "text": plan})
    question = {"kind": "verify", "run": record.run_id, "causes": _named(chosen)}
    with experiment.experiment(job, question, record.profile, record.bench) as (running, lines):
        points = []
        for number, restored in enumerate(turns, 1):
            one = running.launch(settings[restored], f"{number}/{len(turns)}")
            points.append(abba.Point(one.at_s, restored, one.runs))
        effect = abba.effect(points, loss_of(record, base))
    data = {"causes": _named(chosen), **vars(effect), "launches": [vars(one) for one in running.launches]}
    return Outcome(_headline(chosen, effect), data, True, lines=((effect.line, ""), *lines))


def suspects(job: Job) -> tuple[Record, Record | Baseline, tuple[Change, ...]]:
    """The run to explain, what it is compared with, and what of their differences can be restored.

    Raises:
        InputError: There is no such run or baseline, nothing differs that a restart could restore, or the run
            is not slower.
    """
    from stoker.results.explaining import changes

    record, base = judge.pair(job)
    found = changes.between(record, base, judge.resolved_of(job.project, base))
    if not found:
        raise InputError(
            "nothing differs that a restart could restore",
            where=record.run_id,
            next_step=f"inv explain --run {record.run_id} shows what differs",
        )
    return record, base, found


def loss_of(record: Record, base: Record | Baseline) -> float | None:
    """How much slower a run is than what it is compared with, 0..1; None where it is not."""
    sides = [[sum(launch) / len(launch) for launch in one.samples] for one in (record, base)]
    if not all(sides):
        return None
    now, was = (sum(side) / len(side) for side in sides)
    return 1 - now / was if now < was else None


def _chosen(found: Sequence[Change], named: Sequence[str]) -> tuple[Change, ...]:
    """The changes that are named, else the likely ones, else the first.

    Raises:
        InputError: A name that no difference has.
    """
    names = [change.name for change in found]
    for name in named:
        if name.lstrip("-") not in names:
            hint = nearest(name, names) or f"what differs: {', '.join(names)}"
            raise InputError(
                f"{name} does not differ, or cannot be restored", where="--cause", next_step=hint
            )
    wanted = [name.lstrip("-") for name in named]
    likely = tuple(change for change in found if (change.name in wanted if wanted else change.likely))
    return likely or tuple(found[:1])


def _named(chosen: Sequence[Change]) -> list[dict[str, Any]]:
    return [{"kind": change.kind, "name": change.name, "value": change.value} for change in chosen]


def _headline(chosen: Sequence[Change], effect: Effect) -> str:
    names = ", ".join(change.name for change in chosen)
    return f"{names}: {effect.verdict} ({100 * effect.change:+.1f} %)"


VERIFY = Verb(
    "explain",
    (*judge.VERBS[0].flags, CAUSE, experiment.ANEW, life.FORCE),
    verify,
    changes=True,
    wants_secrets=True,
)


def explain(job: Job) -> Outcome:
    """Why a run differs from what was accepted; with ``verify``, whether that is the cause."""
    return verify(job) if job.args["verify"] else judge.explain(job)


# As a playbook's module both are one, as they are one command.
EXPLAIN = Verb(
    "explain",
    (
        *judge.VERBS[0].flags,
        Flag("verify", "Restore the likely causes, measure, and say whether they are the cause.", "flag"),
        CAUSE,
        experiment.ANEW,
        life.FORCE,
    ),
    explain,
    wants_secrets=True,
)
