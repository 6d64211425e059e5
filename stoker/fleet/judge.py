"""The verbs that judge what was measured: explain, compare, baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoker.errors import EXIT_DONE, EXIT_REGRESSED, InputError
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Typed, Verb

if TYPE_CHECKING:
    from stoker.fleet.project import Project
    from stoker.results.baseline import Baseline
    from stoker.results.explain import Explanation
    from stoker.results.record import Record

RUN = Flag("run", "Which run: its id, or a unique end of it.")
A = Flag("a", "What is compared with: a run's id, or baseline for the other one's baseline.", positional=True)
B = Flag("b", "What is judged: a run's id, or a unique end of it.", positional=True)


def explain(job: Job) -> Outcome:
    """Why the host's latest run (or --run) differs from its baseline (or --against)."""
    record = _latest(job, job.args["run"])
    against = job.args["against"]
    base = job.project.store.load(against) if against else baseline_of(job.project, record)
    return explained(record, base)


def compare(job: Job) -> Outcome:
    """Two runs side by side, B judged against A."""
    return compare_runs(job.project, job.args["a"], job.args["b"])


def compare_runs(project: Project, a: str, b: str) -> Outcome:
    """Two runs side by side; the data has ``metrics``, ``verdict``, ``line`` and ``explanation``.

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
    base = baseline_of(project, new) if a == "baseline" else project.store.load(a)
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
    lines = tuple(_difference_lines(found.explanation))
    return Outcome(f"{verdict.verdict} ({verdict.line})", data, exit_code=code, lines=lines)


def baseline(job: Job) -> Outcome:
    """Accept runs as the baseline: --run, else the host's latest."""
    from stoker.results.baseline import LAUNCHES

    store = job.project.store
    records = [store.load(run) for run in job.args["run"]] or [_latest(job, None)]
    if job.check:
        return Outcome("would accept " + ", ".join(r.run_id for r in records), changed=True)
    accepted = job.project.baselines.accept(records, by=job.project.owner, why=job.args["why"] or "")
    path = job.project.shown(job.project.baselines.path(accepted.key))
    runs = sum(len(launch.samples) for launch in accepted.launches)
    data = {"file": path, "runs": [r.run_id for r in records], "launches": len(accepted.launches)}
    few = f"; {LAUNCHES} launches make it sure (inv bench --launches {LAUNCHES})"
    few = few if len(accepted.launches) < LAUNCHES else ""
    return Outcome(
        f"accepted {len(accepted.launches)} launch(es), {runs} runs into {path}{few}", data, changed=True
    )


def _latest(job: Job, run: str | None) -> Record:
    """The run that is meant: by id, else the host's latest.

    Raises:
        InputError: There is none.
    """
    store = job.project.store
    if run:
        return store.load(run)
    newest = store.list(host=job.host.name, last=1)
    if not newest:
        hint = f"inv bench --host {job.host.name}"
        raise InputError("nothing was measured yet", where=job.host.name, next_step=hint)
    return store.load(newest[0].run_id)


def baseline_of(project: Project, record: Record) -> Baseline:
    """The baseline of a record.

    Raises:
        InputError: There is none; says what the nearest differs in.
    """
    from stoker.results.baseline import Missing

    base = project.baselines.find(record)
    if isinstance(base, Missing):
        hint = f"inv baseline --host {record.host} accepts a run, or compare with one: --against RUN"
        raise InputError(base.line, where=record.run_id, next_step=hint)
    return base


def explained(record: Record, base: Record | Baseline) -> Outcome:
    """The explanation as an outcome: causes, context, and what was checked and is equal."""
    from stoker.results.explain import explain as find_causes

    found = find_causes(record, base)
    data = {"run_id": record.run_id, **found.to_json()}
    lines = [*_difference_lines(found), *((f"next: {text}", "cyan") for text in found.advice)]
    return Outcome(found.headline, data, lines=((f"against {found.base.label}", "dim"), *lines))


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
        ),
        baseline,
    ),
)
