"""The verbs that measure and judge: bench, fetch, explain, compare, baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, EXIT_REGRESSED, HostFailed, InputError, StokerError
from stoker.fleet import life
from stoker.fleet.choose import running
from stoker.fleet.flags import Flag
from stoker.fleet.job import Job, Outcome, Verb

if TYPE_CHECKING:
    from stoker.fleet.project import Project
    from stoker.plan import LaunchPlan
    from stoker.results.baseline import Baseline
    from stoker.results.explain import Explanation
    from stoker.results.record import Record, Subject

BENCH = (
    Flag("bench", "Which benchmark (decode)."),
    Flag("runs", "Measured runs, after one warm-up.", "whole", least=1),
    Flag("tokens", "Tokens of each request.", "whole", least=2),
    Flag("concurrency", "Requests at once.", "whole", least=1),
)
MAX_LOSS = Flag("max_loss", "Loss that an ok must rule out, 0..1 (0.10).", "number")
RUN = Flag("run", "Which run: its id, or a unique end of it.")
A = Flag("a", "What is compared with: a run's id, or baseline for the other one's baseline.")
B = Flag("b", "What is judged: a run's id, or a unique end of it.")
_SHOWN_CAUSES = 3


def bench(job: Job) -> Outcome:
    """Measure the server that runs, judge it against its baseline, pull the result back.

    The data has ``run_id``, ``tok_s``, ``verdict``, ``change``, ``line`` and, on a regression, ``causes``.
    """
    launches = job.args["launches"] or 1
    if launches > 1 and not job.args["host"]:
        raise InputError(
            "--launches restarts the server, so the hosts must be named", next_step="add --host NAME"
        )
    job = job.on(job.plan or running(job))
    results = [_measure(job)]
    for _ in range(launches - 1):
        life.restart(job.on(_named(job)))
        results.append(_measure(job))
    return _judged(job, _record(job, results), results)


def bench_profiles(job: Job) -> Outcome:
    """Restart and measure each profile on the host, then put back what ran before."""
    before = life.status(job).data["servers"]
    lines: list[tuple[str, str]] = []
    rows: list[dict[str, Any]] = []
    codes = [EXIT_DONE]
    try:
        for name in job.args["profile"]:
            at = job.on(job.project.plan(name, job.host))
            life.restart(at)
            outcome = bench(at)
            rows.append({"profile": name, **outcome.data})
            codes.append(outcome.exit_code)
            lines += outcome.lines
    finally:
        lines += _put_back(job, before)
    return Outcome(f"{len(rows)} profiles measured", {"rows": rows}, True, max(codes), tuple(lines))


def fetch(job: Job) -> Outcome:
    """Pull back whatever runs left on the host; what is here already is not pulled again."""
    from stoker.reach.pull import pull

    into = job.project.settings.path("results")
    remote = job.args["path"] or "~/.stoker/runs"
    if job.args["path"]:
        into = into / f"fetched-{job.host.name}"
    files = pull(job.session.agent, remote, into)
    found = sorted({path.relative_to(into).parts[0] for path in files})
    recorded = [] if job.args["path"] else [run_id for run_id in found if _adopt(job, run_id)]
    data = {"files": [str(path) for path in files], "runs": recorded, "into": job.project.shown(into)}
    return Outcome(f"{len(files)} files pulled, {len(recorded)} new records", data, changed=False)


def explain(job: Job) -> Outcome:
    """Why the host's latest run (or --run) differs from its baseline (or --against)."""
    record = _latest(job, job.args["run"])
    against = job.args["against"]
    base = job.project.store.load(against) if against else baseline_of(job.project, record)
    return _explained(record, base)


def compare(job: Job) -> Outcome:
    """Two runs side by side, B judged against A."""
    return compare_runs(job.project, job.args["a"], job.args["b"])


def compare_runs(project: Project, a: str, b: str) -> Outcome:
    """Two runs side by side; the data has ``metrics``, ``verdict``, ``line`` and ``explanation``.

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
    data = {**found.to_json(), "verdict": verdict.verdict, "line": verdict.line, "rows": found.rows()}
    lines = tuple(_difference_lines(found.explanation))
    return Outcome(f"{verdict.verdict} ({verdict.line})", data, exit_code=code, lines=lines)


def baseline(job: Job) -> Outcome:
    """Accept runs as the baseline: --run, else the host's latest."""
    store = job.project.store
    records = [store.load(run) for run in job.args["run"]] or [_latest(job, None)]
    if job.check:
        return Outcome("would accept " + ", ".join(r.run_id for r in records), changed=True)
    accepted = job.project.baselines.accept(records, by=job.project.owner, why=job.args["why"] or "")
    path = job.project.shown(job.project.baselines.path(accepted.key))
    runs = sum(len(launch.samples) for launch in accepted.launches)
    data = {"file": path, "runs": [r.run_id for r in records], "launches": len(accepted.launches)}
    few = "" if len(accepted.launches) >= 3 else "; three launches make it sure (inv bench --launches 3)"
    return Outcome(
        f"accepted {len(accepted.launches)} launch(es), {runs} runs into {path}{few}", data, changed=True
    )


def _measure(job: Job) -> dict[str, Any]:
    """One launch's measurement, as the host tells it."""
    from stoker.benchmarks import merge
    from stoker.results.record import new_run_id

    plan = job.plan
    given = {name: job.args[name] for name in ("runs", "tokens", "concurrency")}
    wanted = merge(plan.bench if plan else {}, {**given, "name": job.args["bench"]})
    salt, salt_id = job.project.salt
    params = {
        "plan": plan.to_wire() if plan else None,
        "slot": plan.slot if plan else job.args["slot"],
        "engines": job.project.engines,
        "bench": wanted.to_wire(),
        "run_id": new_run_id(job.host.name),
        "force": job.args["force"],
        "salt": salt,
        "salt_id": salt_id,
        "owner": job.project.owner,
    }
    return job.session.call("bench", params)


def _record(job: Job, results: list[dict[str, Any]]) -> Record:
    """The record of what was measured.

    Raises:
        HostFailed: Another profile runs than was named, or no run was valid.
    """
    from stoker.results.record import build

    subject = _subject(job, results[-1])
    named = job.args["profile"] or []
    if named and job.plan and subject.profile not in ("", job.plan.profile):
        raise HostFailed(
            f"slot {subject.slot} runs {subject.profile}, not {job.plan.profile}",
            host=job.host.name,
            kind="wrong-profile",
            next_step=f"inv restart --host {job.host.name} --profile {job.plan.profile}",
        )
    record = build(results, subject, where=job.host.name)
    if not record.samples:
        why = [run.why for launch in record.launches for run in launch.runs if run.why]
        raise HostFailed(
            "no run was valid, so nothing was measured",
            host=job.host.name,
            kind="invalid",
            evidence=list(dict.fromkeys(why)),
            next_step=f"inv logs --host {job.host.name}",
        )
    return record


def _subject(job: Job, result: dict[str, Any]) -> Subject:
    """What was measured: the launch that really runs, not what was asked for."""
    from stoker.results.record import Subject

    launch = result.get("launch") or {}
    if job.plan is not None and launch.get("profile_hash") == job.plan.profile_hash:
        return Subject.of(job.plan)
    return Subject(
        host=job.host.name,
        engine=str(launch.get("engine") or result.get("engine") or ""),
        profile=str(launch.get("profile") or ""),
        profile_hash=str(launch.get("profile_hash") or ""),
        slot=str(launch.get("slot") or ""),
        resolved=launch.get("resolved") or {},
    )


def _judged(job: Job, record: Record, results: list[dict[str, Any]]) -> Outcome:
    """Judge, save, pull, and say it; a regression comes with its first causes."""
    from stoker.results.baseline import Missing
    from stoker.results.compare import assess

    base = job.project.baselines.find(record)
    loss = job.args["max_loss"] or job.project.settings.max_loss
    verdict = assess(record, base, max_loss=loss)
    record = record.judged(verdict)
    job.project.store.save(record)  # before the pull: a lost link must not cost the measurement
    _pull(job, record, results)
    explained = None
    if verdict.verdict == "regressed" and not isinstance(base, Missing):
        explained = _explained(record, base)
    data = _bench_data(record)
    if explained:
        data["causes"] = explained.data["causes"]
    lines = [(verdict.line, "")] if verdict.line else []
    lines += [(f"contaminated: {text}", "yellow") for text in record.contaminated]
    if explained:
        causes = explained.lines[1:]  # the first says what it is compared with
        lines += causes[:_SHOWN_CAUSES]
        more = len(causes) - _SHOWN_CAUSES
        lines += [(f"and {more} more: inv explain --host {job.host.name}", "dim")] if more > 0 else []
    regressed = verdict.verdict == "regressed"
    code = EXIT_REGRESSED if regressed else EXIT_DONE
    return Outcome(_headline(record), data, exit_code=code, lines=tuple(lines))


def _pull(job: Job, record: Record, results: list[dict[str, Any]]) -> None:
    """Bring the raw files beside the record."""
    from stoker.reach.pull import pull

    job.session.note("pulling")
    for index, result in enumerate(results):
        folder = job.project.store.path(record.run_id)
        pull(job.session.agent, result["path"], folder if index == 0 else folder / f"launch-{index + 1}")


def _bench_data(record: Record) -> dict[str, Any]:
    """What a playbook registers and --json prints."""
    verdict = record.verdict
    return {
        "run_id": record.run_id,
        "profile": record.profile,
        "model": record.model,
        "bench": record.bench.to_wire(),
        "simulated": record.simulated,
        "contaminated": list(record.contaminated),
        "tok_s": round(record.metrics["decode_tok_s"].value, 3) if "decode_tok_s" in record.metrics else None,
        "metrics": {name: vars(metric) for name, metric in record.metrics.items()},
        "verdict": verdict.verdict if verdict else None,
        "change": verdict.change if verdict else None,
        "line": verdict.line if verdict else "",
        "causes": [],
    }


def _headline(record: Record) -> str:
    verdict = record.verdict
    what = f"{record.metrics['decode_tok_s'].value:.1f} tok/s"
    word = verdict.verdict if verdict else "unjudged"
    shown = word.upper() if word in ("ok", "regressed", "improved") else word
    mark = " (simulated)" if record.simulated else ""
    return f"{what}{mark}: {shown}"


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


def _explained(record: Record, base: Record | Baseline) -> Outcome:
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


def _named(job: Job) -> LaunchPlan:
    """The plan to restart between launches.

    Raises:
        InputError: Nothing says which.
    """
    if job.plan is None:
        raise InputError(
            "--launches restarts the server, so its profile must be named", next_step="add --profile NAME"
        )
    return job.plan


def _adopt(job: Job, run_id: str) -> bool:
    """Make the record of a run that was pulled without one; False where it has one, or is none of ours."""
    import json

    from stoker.results.record import build

    folder = job.project.store.path(run_id)
    raw = folder / "bench.json"
    if (folder / "run.json").exists() or not raw.is_file():
        return False
    result = json.loads(raw.read_text(encoding="utf-8"))
    job.project.store.save(build([result], _subject(job, result), where=f"{run_id}/bench.json"))
    return True


def _put_back(job: Job, before: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Start again what ran before a matrix; says so where it cannot."""
    lines: list[tuple[str, str]] = []
    for server in before:
        launch = server.get("launch")
        if not server.get("alive"):
            continue
        if not launch:
            lines.append(
                (f"{server['engine']} on port {server['port']} was started by hand: start it again", "yellow")
            )
            continue
        try:
            life.restart(job.on(job.project.plan_again(launch, job.host)))
            lines.append((f"put back {launch['profile']}, which ran before", "dim"))
        except StokerError as error:
            lines.append((f"could not put back {launch['profile']}: {error.what}", "bold red"))
    return lines


VERBS = (
    Verb(
        "bench",
        (
            life.PROFILE,
            life.SLOT,
            *BENCH,
            Flag("launches", "Restart in between: the unit of evidence is the launch (1).", "whole", least=1),
            MAX_LOSS,
            life.FORCE,
        ),
        bench,
        wants_plan=True,
        wants_secrets=True,
    ),
    Verb("fetch", (Flag("path", "A folder on the host, in place of Stoker's runs."),), fetch),
    Verb("explain", (RUN, Flag("against", "Another run, in place of the baseline.")), explain),
    Verb("compare", (A, B), compare),
    Verb(
        "baseline",
        (
            Flag("run", "Runs to accept together, in place of the latest.", "list"),
            Flag("why", "The reason, for git."),
        ),
        baseline,
    ),
)
BENCH_PROFILES = Verb("bench-all", VERBS[0].flags, bench_profiles, changes=True, each_profile=True)
