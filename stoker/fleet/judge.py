"""The verbs that judge what was measured: explain, compare, baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, EXIT_REGRESSED, ConfigError, InputError, OneHostsInput, StokerError
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Typed, Verb
from stoker.fleet.shown import counts

if TYPE_CHECKING:
    from stoker.fleet.project import Project
    from stoker.results.baselines.baseline import Baseline
    from stoker.results.explaining.explain import Explanation
    from stoker.results.records.record import Record

# Between a profile's name and the experiment that varied it.
TRIAL = "~"
_FAR_BACK = 1000
_OF_A_PROFILE = ("tuning", "arguments")  # categories of causes
RUN = Flag("run", "Which run: its id, or a unique end of it.")
A = Flag("a", "What is compared with: a run's id, or baseline for the other one's baseline.", positional=True)
B = Flag("b", "What is judged: a run's id, or a unique end of it.", positional=True)
_NOTABLY = 1.01  # a gain below that is none to speak of


def explain(job: Job) -> Outcome:
    """Why the host's latest run (or --run) differs from its baseline (or --against)."""
    return explained(*pair(job))


def pair(job: Job) -> tuple[Record, Record | Baseline]:
    """The host's latest run (or --run), and its baseline (or --against).

    Raises:
        InputError: There is no such run, or no baseline of it.
    """
    record = _latest(job, job.args["run"])
    against = job.args["against"]
    other = "or compare with a run: --against RUN"
    base = job.project.store.load(against) if against else baseline_of(job.project, record, other)
    return record, base


def resolved_of(project: Project, base: Record | Baseline) -> dict[str, Any] | None:
    """The profile that a run or a baseline ran with; None where nobody here knows."""
    for run_id in reversed(_ids(base)):
        try:
            return project.store.load(run_id).resolved or None
        except StokerError:
            continue  # a baseline lies in git, its records need not lie here
    return None


def compare(job: Job) -> Outcome:
    """Two runs side by side, B judged against A."""
    return compare_runs(job.project, job.args["a"], job.args["b"])


def compare_runs(project: Project, a: str, b: str) -> Outcome:
    """Two runs side by side; the data has ``metrics``, ``sides``, ``verdict``, ``line``, ``explanation``.

    ``verdict`` is its name, as that of ``bench``; ``judgement`` has what it rests on.

    Args:
        project: Whose results.
        a: What is compared with: a run's id, a unique end of it, or ``baseline`` for b's baseline.
        b: What is judged.

    Raises:
        InputError: An unknown run, or one of them is not named.
    """
    from stoker.results.compare import compare as side_by_side

    if not a or not b:
        raise InputError("two runs must be named", next_step="inv compare A B (inv results lists them)")
    new = project.store.load(b)
    other = f"or compare with a run: inv compare RUN {b} (inv results lists them)"
    base = baseline_of(project, new, other) if a == "baseline" else project.store.load(a)
    found = side_by_side(base, new, max_loss=project.settings.max_loss)
    verdict = found.verdict
    code = EXIT_REGRESSED if verdict.verdict == "regressed" else EXIT_DONE
    whole = found.to_json()
    data = {
        **whole,
        "verdict": verdict.verdict,
        "judgement": whole["verdict"],
        "line": verdict.line,
        "rows": found.rows(),
    }
    data["sides"] = {"A": _side(base), "B": _side(new)}
    lines = tuple(_difference_lines(found.explanation))
    return Outcome(f"{verdict.verdict} ({verdict.line})", data, exit_code=code, lines=lines)


def _side(one: Record | Baseline) -> str:
    """Which measurement a column shows: ``20260101-…: nccl-tuned on node174, decode 5 × 500 tokens…``."""
    from stoker.results.records.record import Record

    profile = one.profile or "(by hand)"
    if isinstance(one, Record):
        return f"{one.run_id}: {profile} on {one.host}, {one.bench.title}"
    size = one.key.load or f"{one.key.tokens} tokens, concurrency {one.key.concurrency}"
    return f"the baseline of {one.accepted_at[:10]}: {profile} on {one.key.where}, {one.key.bench} {size}"


def baseline(job: Job) -> Outcome:
    """Accept runs as the baseline: --run, else the host's latest."""
    store = job.project.store
    records = [store.load(run) for run in job.args["run"]] or [_latest(job, None)]
    if not job.args["force"]:
        _refuse_regressed(records)
    by_class = bool(job.args.get("by_class"))
    old = _replaced(job.project, records[0], by_class)
    if job.check:
        names = ", ".join(r.run_id for r in records)
        return Outcome(f"would accept {names}{_old_to_new(old, _speed(records))}", changed=True)
    accepted = job.project.baselines.accept(
        records, by=job.project.owner, why=job.args["why"] or "", by_class=by_class
    )
    return _accepted(job, records, old, accepted)


def _accepted(job: Job, records: Sequence[Record], old: Baseline | None, new: Baseline) -> Outcome:
    """What was accepted, in the place of what, and what speaks against it."""
    from stoker.results.baselines.baseline import LAUNCHES
    from stoker.results.meanwhile import disturbed

    path = job.project.shown(job.project.baselines.path(new.key))
    runs, launches = sum(len(one.samples) for one in new.launches), len(new.launches)
    data = {
        "file": path,
        "runs": [r.run_id for r in records],
        "launches": launches,
        "tok_s": new.tok_s,
        "replaced_tok_s": old.tok_s if old else None,
    }
    few = f"; {LAUNCHES} launches make it sure (inv bench --launches {LAUNCHES})"
    few = few if launches < LAUNCHES else ""
    counted = f"{counts(launches, 'launch', 'launches')}, {counts(runs, 'run', 'runs')}"
    what = f"accepted {counted} into {path}{_old_to_new(old, new.tok_s)}{few}"
    held_back = dict.fromkeys(text for record in records for text in disturbed(record))
    lines = tuple((f"accepted all the same, but {text}", "yellow") for text in held_back)
    return Outcome(what, data, changed=True, lines=lines)


def _refuse_regressed(records: Sequence[Record]) -> None:
    """A baseline that is a known loss would call the same loss ok from then on.

    Raises:
        InputError: One of the runs was judged to be regressed.
    """
    for record in records:
        if record.verdict is not None and record.verdict.verdict == "regressed":
            raise InputError(
                f"{record.run_id} is regressed: {record.verdict.line}",
                next_step=f"inv explain --run {record.run_id} says why; --force accepts the loss (say --why)",
            )


def _replaced(project: Project, record: Record, by_class: bool) -> Baseline | None:
    """The baseline that accepting a run replaces; None where there is none that can be read."""
    from stoker.results.baselines.baseline import Missing

    try:
        found = project.baselines.find(record)
    except ConfigError:
        return None
    if isinstance(found, Missing) or bool(found.key.hardware) != by_class:
        return None
    return found


def _speed(records: Sequence[Record]) -> float | None:
    """Mean over the launches' means; None where no run was valid."""
    samples = [launch.samples for record in records for launch in record.launches if launch.samples]
    return sum(sum(one) / len(one) for one in samples) / len(samples) if samples else None


def _old_to_new(old: Baseline | None, new: float | None) -> str:
    """What a baseline was and becomes; empty where none is replaced."""
    from stoker.results.figures import percent

    if old is None or new is None:
        return ""
    return f": {old.tok_s:.1f} → {new:.1f} tok/s ({percent(new / old.tok_s - 1)})"


def _latest(job: Job, run: str | None) -> Record:
    """The run that is meant: by id, else the host's latest.

    Raises:
        InputError: There is none.
    """
    store = job.project.store
    if run:
        return store.load(run)
    # An experiment's own launches answer its question, and are no state of the host to be explained.
    newest = [one for one in store.list(host=job.host.name, last=_FAR_BACK) if TRIAL not in one.profile]
    if not newest:
        hint = f"inv bench --host {job.host.name}"
        raise OneHostsInput("nothing was measured yet", where=job.host.name, next_step=hint)
    return store.load(newest[0].run_id)


def baseline_of(project: Project, record: Record, other: str) -> Baseline:
    """The baseline of a record.

    Args:
        project: Whose baselines.
        record: The run.
        other: What else can be done where there is none.

    Raises:
        InputError: There is none; says what the nearest differs in.
    """
    from stoker.results.baselines.baseline import Missing

    base = project.baselines.find(record)
    if isinstance(base, Missing):
        hint = f"inv baseline --host {record.host} accepts a run, {other}"
        raise InputError(base.line, where=record.run_id, next_step=hint)
    return base


def explained(record: Record, base: Record | Baseline) -> Outcome:
    """The explanation as an outcome: causes, context, and what was checked and is equal."""
    from stoker.results.explaining.explain import explain as find_causes

    found = find_causes(record, base)
    data = {"run_id": record.run_id, **found.to_json()}
    lines = [*_difference_lines(found), *((f"next: {text}", "cyan") for text in found.advice)]
    if record.run_id in _ids(base):
        lines.append(("this run is what it is compared with: accept or measure another one", "yellow"))
    lines = [*_gain(found), *lines, *_way_back(found, record)]
    return Outcome(found.headline, data, lines=((f"against {found.base.label}", "dim"), *lines))


def _gain(found: Explanation) -> list[tuple[str, str]]:
    """That nothing was lost: causes read as if something were wrong."""
    was, now = found.base.tok_s, found.new.tok_s
    if not was or now is None or now < was * _NOTABLY:
        return []
    percent = 100 * (now / was - 1)
    told = (
        f"{now:.1f} tok/s in place of {was:.1f}: {percent:.1f} % faster; what differs may be what made it so"
    )
    return [(told, "green")]


def _way_back(found: Explanation, record: Record) -> list[tuple[str, str]]:
    """What to type where the speed was lost with what a profile sets: launch it again, or prove it first."""
    is_set = any(c.confidence == "likely" and c.category in _OF_A_PROFILE for c in found.causes)
    was, now, profile = found.base.tok_s, found.new.tok_s, found.base.profile
    if not is_set or not profile or TRIAL in profile or was is None or now is None or now >= was:
        return []
    again = f"inv restart --host {record.host} --profile {profile} (as it was)"
    again += "; simulated: with the lab's --inventory" if record.simulated else ""
    proof = f"inv explain --verify --host {record.host} proves a cause, by restarts"
    return [(f"next: {again}", "cyan"), (f"or: {proof}", "cyan")]


def _ids(base: Record | Baseline) -> tuple[str, ...]:
    """The runs that something is compared with."""
    from stoker.results.records.record import Record

    return (base.run_id,) if isinstance(base, Record) else base.run_ids


def _difference_lines(found: Explanation) -> list[tuple[str, str]]:
    """What keeps two measurements from being compared, then each cause."""
    unlike = [(f"not the same was measured: {text}", "yellow") for text in found.unlike]
    return unlike + _cause_lines(found)


def _cause_lines(found: Explanation) -> list[tuple[str, str]]:
    """Each cause on a line, the likely ones loud."""
    style = {"likely": "bold", "context": "cyan", "possible": "", "unlikely": "dim"}
    width = max((len(cause.title) for cause in found.causes), default=0)
    return [
        (f"{cause.confidence:<8} {cause.title:<{width}}  {cause.detail}", style[cause.confidence])
        for cause in found.causes
    ]


VERBS = (
    Verb("explain", (RUN, Flag("against", "Another run, in place of the baseline.")), explain),
    Verb("compare", (A, B), compare, by_hand=Typed("compare", (A, B), on_hosts=False)),
    Verb(
        "baseline",
        (
            Flag("run", "Runs to accept together, in place of the latest.", "list"),
            Flag("why", "The reason, for git."),
            Flag("by_class", "For every host with the same GPUs that has no baseline of its own.", "flag"),
            Flag("force", "Accept a run that is regressed, too.", "flag"),
        ),
        baseline,
    ),
)
