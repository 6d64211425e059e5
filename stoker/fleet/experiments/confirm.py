"""``bench --confirm`` and ``--until-sure``: what was accepted and what runs, launched in turn and judged.

A launch shifts the mean, and so does the day: a pair that was launched within minutes tells the setting from
both. The accepted setting comes first in each pair, so that the host ends with what ran on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stoker.errors import InputError
from stoker.fleet import judge
from stoker.fleet.experiments import experiment
from stoker.fleet.experiments.experiment import Experiment, Setting
from stoker.fleet.job import Job, Outcome
from stoker.fleet.measuring import benchlines, serverbench
from stoker.fleet.measuring.benchflags import MOST_LAUNCHES
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.results.baselines.baseline import Baseline
    from stoker.results.records.record import Record
    from stoker.results.statistics.stats import Verdict

_DECIDED = ("ok", "regressed", "improved")


@dataclass(frozen=True)
class Question:
    """What is to be settled.

    Args:
        record: The run that was judged.
        base: What it is judged against.
        accepted: What that ran with; None: nobody here knows, or it is what runs, so that only that is
            launched.
        why: Why only that; empty where both are.
        present: What runs.
        pairs: How many at most.
    """

    record: Record
    base: Baseline
    accepted: Setting | None
    why: str
    present: Setting
    pairs: int

    @property
    def plan(self) -> str:
        """What will be launched and how long that takes, for people."""
        launches = self.pairs * (2 if self.accepted else 1)
        most = "" if self.pairs == 1 else "at most "
        price = experiment.cost(self.record, launches)
        if self.accepted is None:
            number = counts(self.pairs, "launch", "launches")
            return f"{most}{number} of what runs ({self.why}): {most}{price}"
        pairs = counts(self.pairs, "pair", "pairs")
        return f"{most}{pairs} of A: {self.accepted.name}, then B: {self.present.name}: {most}{price}"


def settled(job: Job) -> Outcome:
    """Measure what runs, and be sure: the data is that of ``bench``, with ``settled``.

    Raises:
        InputError: The run to go on with is of another host, or its server was started by hand.
        HostFailed: A launch failed; the host was put back.
    """
    if job.check:
        return _planned(job)
    record, first = _first(job)
    if not _wanted(job, record):
        return first or benchlines.outcome(job, record, _base(job, record))
    base = _base(job, record)
    if base is None:
        return first or benchlines.outcome(job, record, None)
    question = _question(job, record, base)
    job.session.emit({"type": "note", "text": question.plan})
    flag = "--until-sure" if job.args.get("until_sure") else "--confirm"
    again = f"inv bench --host {job.host.name} {flag} --run {record.run_id}"
    job.session.emit({"type": "note", "text": f"after an interruption it goes on with: {again}"})
    return _launched(job, question)


def _first(job: Job) -> tuple[Record, Outcome | None]:
    """The run to be sure of: measured now, or the one that is named."""
    named = job.args.get("run")
    if named:
        record = job.project.store.load(named)
        if record.host != job.host.name:
            raise InputError(f"{record.run_id} was measured on {record.host}", where="--run")
        return record, None
    outcome = serverbench.measured(job)
    if "run_id" not in outcome.data:
        hint = "name one load: --rate or --concurrency with one value"
        raise InputError("several loads cannot be confirmed at once", next_step=hint)
    return job.project.store.load(outcome.data["run_id"]), outcome


def _wanted(job: Job, record: Record) -> bool:
    """Whether there is anything to be sure of: ``--confirm`` confirms a loss."""
    lost = record.verdict is not None and record.verdict.verdict == "regressed"
    return bool(job.args.get("until_sure")) or lost


def _base(job: Job, record: Record) -> Baseline | None:
    from stoker.results.baselines.baseline import Missing

    found = job.project.baselines.find(record)
    return None if isinstance(found, Missing) else found


def _question(job: Job, record: Record, base: Baseline) -> Question:
    """What to launch for a run."""
    mine = experiment.resolved_of(record)
    theirs = judge.resolved_of(job.project, base)
    present = Setting("what runs", mine, record.profile)
    most = job.args.get("max_launches") or MOST_LAUNCHES
    pairs = max(1, most - len(record.samples)) if job.args.get("until_sure") else 1
    if theirs is None:
        return Question(record, base, None, "the accepted runs' records are not here", present, pairs)
    if theirs == mine:
        return Question(record, base, None, "it is what was accepted", present, pairs)
    return Question(record, base, Setting("what was accepted", theirs), "", present, pairs)


def _planned(job: Job) -> Outcome:
    """What --check has to say: of the named run, else of the host's latest."""
    named = job.args.get("run")
    newest = job.project.store.list(host=job.host.name, last=1)
    if not named and not newest:
        return Outcome(
            "would measure first: nothing of this host was, so what it takes is not known", changed=True
        )
    record = job.project.store.load(named or newest[0].run_id)
    base = _base(job, record)
    if base is None:
        return Outcome("would measure; there is no baseline to be sure against", changed=True)
    plan = _question(job, record, base).plan
    when = "" if job.args.get("until_sure") else "where it regressed, "
    first = "" if named else "measure what runs; "
    return Outcome(f"would {first}{when}launch {plan}", {"plan": plan}, changed=True)


def _launched(job: Job, question: Question) -> Outcome:
    """Launch pair by pair until it is decided, and put the host back."""
    record = question.record
    kind = "until-sure" if job.args.get("until_sure") else "confirm"
    asked = {"kind": kind, "run": record.run_id, "against": list(question.base.run_ids)}
    loss = job.args["max_loss"] or job.project.settings.max_loss
    with experiment.experiment(job, asked, record.profile, record.bench) as (running, lines):
        evidence = _Evidence(job, question, loss)
        for number in range(1, question.pairs + 1):
            evidence.add(running, f"{number}/{question.pairs}")
            verdict = evidence.verdict()
            job.session.emit({"type": "note", "text": f"{verdict.verdict}: {verdict.line}"})
            if verdict.verdict in _DECIDED:
                break
    record = record.judged(verdict)
    job.project.store.save(record)
    outcome = benchlines.outcome(job, record, question.base)
    launches = [vars(one) for one in running.launches]
    data = {**outcome.data, "settled": {"launches": launches, "only": question.why}}
    told = tuple((text, "yellow") for text in evidence.remarks)
    return replace(outcome, data=data, changed=True, lines=(*outcome.lines, *told, *lines))


class _Evidence:
    """What was launched for a question so far.

    Attributes:
        remarks: What of it does not count, and why.
    """

    def __init__(self, job: Job, question: Question, max_loss: float) -> None:
        self._job = job
        self._question = question
        self._max_loss = max_loss
        self._old: list[tuple[float, ...]] = []
        self._new: list[tuple[float, ...]] = []
        self.remarks: list[str] = []

    def add(self, running: Experiment, note: str) -> None:
        """Launch one pair."""
        if self._question.accepted is not None:
            self._keep(self._old, running.launch(self._question.accepted, note))
        self._keep(self._new, running.launch(self._question.present, note))

    def _keep(self, side: list[tuple[float, ...]], launch: Any) -> None:
        """Take a launch in, unless something disturbed it."""
        found = self._job.project.store.load(launch.run_id)
        if found.contaminated:
            self.remarks.append(f"{launch.run_id} does not count, it was disturbed: {found.contaminated[0]}")
        else:
            side.append(launch.runs)

    def verdict(self) -> Verdict:
        """As of now.

        Where the accepted setting itself is slower than it was, the host is: its new launches do not count.
        """
        from stoker.results.compare import settle, slower

        question, old = self._question, self._old
        if old and slower(question.base, old):
            told = "what was accepted is itself slower now: the host is, whatever the setting"
            self.remarks += [told] if told not in self.remarks else []
            old = []
        return settle(question.record, question.base, old, self._new, max_loss=self._max_loss)
