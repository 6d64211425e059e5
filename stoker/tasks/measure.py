"""Commands that measure, judge and explain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker.benchmarks import IN_PLACE
from stoker.errors import InputError
from stoker.fleet import fetch as fetch_runs
from stoker.fleet import judge, matrix, measure
from stoker.fleet.experiments import verify
from stoker.fleet.flags import Flag
from stoker.tasks.command import CHANGING, CHECK, HOST, INVENTORY, JSON, READING, SERIAL, command
from stoker.tasks.results import ms, speed, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stoker.fleet.job import Job, Outcome, Verb
    from stoker.fleet.pool import HostResult
    from stoker.results.records.record import Record
    from stoker.tasks.run import Run

VERBS: dict[str, Verb] = {verb.name: verb for verb in (*measure.VERBS, *fetch_runs.VERBS, *judge.VERBS)}


@command(*READING, CHECK, SERIAL, *VERBS["bench"].flags)
def bench(run: Run) -> int:
    """Measure the server that runs, judge it against its baseline, pull the result back."""
    if run.args["check"] and not (run.args["confirm"] or run.args["until_sure"]):
        hint = "--check says what --confirm and --until-sure would launch; bench by itself changes nothing"
        raise InputError("there is nothing to check", where="--check", next_step=hint)
    return run.end(run.on_hosts(_bench(run)))


def _bench(run: Run) -> Verb:
    """The verb as it was asked for: with launches of its own it changes hosts, so it rolls."""
    surer = run.args["confirm"] or run.args["until_sure"]
    if surer and run.args["bench"] in IN_PLACE:
        hint = "measure it again: it takes seconds"
        what = f"{run.args['bench']} restarts nothing, so there is no launch to repeat"
        raise InputError(what, next_step=hint)
    if run.args["bench"] in IN_PLACE:
        return replace(
            VERBS["bench"], work=_in_place(run.args["bench"]), changes=True, runs="host", each_profile=True
        )
    if surer:
        return replace(VERBS["bench"], changes=True, runs="named", in_check="asks")
    return replace(VERBS["bench"], changes=(run.args["launches"] or 1) > 1)


def _in_place(name: str) -> Callable[[Job], Outcome]:
    """What measures without the server."""
    from stoker.fleet.measuring import llamabench, probe

    return llamabench.benches if name == llamabench.NAME else probe.probes


@command(*CHANGING, *matrix.BENCH_PROFILES.flags)
def bench_all(run: Run) -> int:
    """Measure what runs on every host; with --profile (repeatable) each of them, then put back what ran."""
    several = bool(run.args["profile"]) and run.args["bench"] not in IN_PLACE
    verb = matrix.BENCH_PROFILES if several else _bench(run)
    if run.args["check"]:
        return _bench_all_planned(run, verb if several else _foretold(verb))
    results = run.on_hosts(verb)
    run.screen.table(
        ("host", "profile", "tok/s>", "TTFT>", "verdict", "change>", "runs>", "against>"),
        [row for result in results for row in _bench_rows(result)],
        title="bench-all",
    )
    return run.end(results)


def _foretold(verb: Verb) -> Verb:
    """The verb, saying what it would do."""
    from stoker.fleet.measuring import benchplan

    return replace(verb, work=benchplan.planned, in_check="asks")


def _bench_all_planned(run: Run, verb: Verb) -> int:
    """What it would measure, a row each."""
    results = run.on_hosts(verb)
    rows = [(result.host, row) for result in results for one in result.data or () for row in one.data["rows"]]
    run.screen.table(
        ("host", "profile", "slot", "benchmark", "asked", "runs>", "now"),
        [
            (
                host,
                row["profile"] or "(by hand)",
                row["slot"] or "-",
                row["bench"]["name"],
                row["size"],
                f"{row['launches']}×{row['runs']}",
                row["now"] or "-",
            )
            for host, row in rows
        ],
        title="bench-all --check",
    )
    return run.end(results)


@command(*READING, *VERBS["fetch"].flags)
def fetch(run: Run) -> int:
    """Pull back whatever runs left on a host; running it again finishes an interrupted pull."""
    return run.end(run.on_hosts(VERBS["fetch"]))


@command(*READING, CHECK, SERIAL, *verify.EXPLAIN.flags)
def explain(run: Run) -> int:
    """Why the latest run differs from its baseline: ranked causes, and what was checked and is equal."""
    if run.args["verify"]:
        return run.end(run.on_hosts(verify.VERIFY))
    if run.args["run"]:
        run.args["host"] = [run.project.store.load(run.args["run"]).host]
    elif not run.args["host"]:
        run.args["host"] = [_newest(run).host]
    results = run.on_hosts(VERBS["explain"])
    for result in results:
        for outcome in result.data or []:
            for name in ("equal", "unknown"):
                _checked(run, name, outcome.data[name])
    return run.end(results)


@command(
    HOST,
    INVENTORY,
    JSON,
    CHECK,
    *VERBS["baseline"].flags,
    Flag("list", "Show what is accepted.", "flag"),
    Flag("retire", "Put a baseline out of use: its file, or a unique part of its name; say --why."),
)
def baseline(run: Run) -> int:
    """Accept the latest run of each host (or --run, repeatable) as the baseline; it lands in baselines/."""
    if run.args["list"] or run.args["retire"]:
        from stoker.tasks import baselines

        return baselines.show(run) if run.args["list"] else baselines.retire(run)
    if run.args["run"]:
        run.args["host"] = sorted({run.project.store.load(name).host for name in run.args["run"]})
    elif not run.args["host"]:
        raise InputError(
            "say which", next_step="--host NAME takes its latest run, --run ID (repeatable) takes those"
        )
    return run.end(run.on_hosts(VERBS["baseline"]))


@command(*VERBS["compare"].flags, JSON)
def compare(run: Run) -> int:
    """Two runs side by side, B judged against A, with what else differs between them."""
    outcome = judge.compare_runs(run.project, run.args["a"], run.args["b"])
    run.document["comparison"] = outcome.data
    for side, told in outcome.data["sides"].items():
        run.screen.say((f"{side}  ", "bold"), told)
    run.screen.table(("", "A>", "B>", "from A to B>"), outcome.data["rows"])
    for text, style in outcome.lines:
        run.screen.say((text, style))
    run.screen.say(verdict(outcome.data["verdict"]), f"  B against A: {outcome.data['line']}")
    return outcome.exit_code


def _newest(run: Run) -> Record:
    """The latest run of the project.

    Raises:
        InputError: There is none.
    """
    found = run.project.store.list(last=1)
    if not found:
        raise InputError("nothing was measured yet", next_step="inv bench --host NAME")
    return run.project.store.load(found[0].run_id)


def _checked(run: Run, name: str, items: list[Any]) -> None:
    """What was found equal, or could not be compared, on one paragraph."""
    if not items:
        return
    word = {"equal": "checked and equal: ", "unknown": "not comparable: "}[name]
    texts = [f"{item['what']} ({item['why']})" if isinstance(item, dict) else item for item in items]
    run.screen.say((word, "dim"), (", ".join(texts), "dim"))


def _bench_rows(result: HostResult) -> list[tuple[Any, ...]]:
    """The table's rows of one host: a measurement each, or why there is none."""
    from stoker.results.figures import percent
    from stoker.tasks.outcomes import told

    if result.data is None:
        return [(result.host, "-", "-", "-", (told(result), "bold red"), "-", "-", "-")]
    done = [outcome for outcome in result.data if not outcome.skipped]
    found = [row for outcome in done for row in outcome.data.get("rows", [outcome.data])]
    return [
        (
            result.host,
            row["profile"] or "(by hand)",
            (f"{row['latency_us']:.1f} µs" if "latency_us" in row else speed(row["tok_s"]))
            + (" sim" if row["simulated"] else ""),
            ms(row["metrics"].get("ttft_s", {}).get("value")),
            verdict(row["verdict"]),
            percent(row["change"]),
            _counted(row["samples"]),
            _counted(row["base_samples"]),
        )
        for row in found
    ]


def _counted(samples: Sequence[int]) -> str:
    """Valid runs of each launch: ``3×5``; ``3×4-5`` where they differ."""
    if not samples:
        return "-"
    least, most = min(samples), max(samples)
    return f"{len(samples)}×{least}" + (f"-{most}" if most > least else "")


COMMANDS = (bench, bench_all, fetch, compare, baseline, explain)
