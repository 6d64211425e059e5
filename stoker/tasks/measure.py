"""Commands that measure, judge and explain."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE, InputError, nearest
from stoker.fleet import experiment, judge, life, matrix, measure, verify
from stoker.fleet import fetch as fetch_runs
from stoker.fleet.flags import Flag
from stoker.tasks import selection
from stoker.tasks.command import CHANGING, CHECK, HOST, INVENTORY, JSON, READING, SERIAL, command

if TYPE_CHECKING:
    from stoker.fleet.job import Verb
    from stoker.fleet.pool import HostResult
    from stoker.results.index import Summary
    from stoker.results.record import Record
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
    if surer and run.args["bench"] == "allreduce":
        hint = "measure it again: it takes seconds"
        raise InputError("allreduce restarts nothing, so there is no launch to repeat", next_step=hint)
    if run.args["bench"] == "allreduce":
        from stoker.fleet import probe

        return replace(VERBS["bench"], work=probe.probes, changes=True, runs="host", each_profile=True)
    if surer:
        return replace(VERBS["bench"], changes=True, runs="named", in_check="asks")
    return replace(VERBS["bench"], changes=(run.args["launches"] or 1) > 1)


@command(*CHANGING, *matrix.BENCH_PROFILES.flags)
def bench_all(run: Run) -> int:
    """Measure what runs on every host; with --profile (repeatable) each of them, then put back what ran."""
    several = bool(run.args["profile"]) and run.args["bench"] != "allreduce"
    results = run.on_hosts(matrix.BENCH_PROFILES if several else _bench(run))
    run.screen.table(
        ("host", "profile", "tok/s>", "TTFT>", "verdict", "change>", "rests on"),
        [row for result in results for row in _bench_rows(result)],
        title="bench-all",
    )
    return run.end(results)


@command(*READING, *VERBS["fetch"].flags)
def fetch(run: Run) -> int:
    """Pull back whatever runs left on a host; running it again finishes an interrupted pull."""
    return run.end(run.on_hosts(VERBS["fetch"]))


@command(
    *READING,
    CHECK,
    SERIAL,
    *VERBS["explain"].flags,
    Flag("verify", "Restore the likely causes, measure, and say whether they are the cause.", "flag"),
    verify.CAUSE,
    experiment.ANEW,
    life.FORCE,
)
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


@command(
    JSON,
    Flag("host", "Only of this host."),
    Flag("profile", "Only of this profile."),
    Flag("verdict", "Only of these: regressed, or several: regressed,unstable; none: not judged."),
    Flag("since", "Only runs since then.", "since"),
    Flag("last", "How many (20; of a history all).", "whole", least=1),
    Flag("history", "Over time: a line a server and benchmark, and what changed at each step.", "flag"),
)
def results(run: Run) -> int:
    """The runs that came back, newest first; --history: over time, with the steps."""
    if run.args["history"]:
        from stoker.tasks import history

        return history.show(run)
    rows, unreadable = run.project.store.look()
    for flag in ("host", "profile"):
        _check_known(run, flag, rows)
    chosen = selection.of(run)
    found = [row for row in rows if chosen.has(row)][: run.args["last"] or 20]
    run.document["results"] = [asdict(summary) for summary in found]
    run.screen.table(
        ("run!", "when", "host", "profile", "tokens × concurrency>", "tok/s>", "verdict"),
        [
            (
                s.run_id,
                _when(s.created),
                s.host,
                s.profile or "(by hand)",
                s.size,
                _pace(s.tok_s, s.bench) + (" sim" if s.simulated else ""),
                _verdict(s.verdict),
            )
            for s in found
        ],
    )
    for damaged in unreadable:
        run.screen.say(("damaged ", "bold red"), f"{damaged.path}: {damaged.what}")
    return EXIT_DONE


@command(Flag("run_id", "The run: its id, or a unique end of it.", positional=True), JSON)
def show(run: Run) -> int:
    """One run, whole: what was measured, how, every sample, what was in force."""
    from stoker.results import meanwhile
    from stoker.results.figures import figure
    from stoker.results.inforce import in_force

    record = run.project.store.load(run.args["run_id"])
    run.document["run"] = record.to_json()
    say = run.screen.say
    say((record.run_id, "bold"), " (simulated)" if record.simulated else "")
    engine = f"{record.engine} {record.engine_version}".strip()
    say(f"{record.profile or '(by hand)'} on {record.host}: {engine}, {record.model}")
    say(f"{record.bench.title}, measured {_when(record.created)}")
    rows = [
        (
            f"{number + 1}.{sample.index + 1}",
            sample.tokens,
            _pace(sample.tok_s, record.bench.name),
            _ms(sample.ttft_s),
            _ms(sample.tpot_s),
            sample.why or "valid",
        )
        for number, launch in enumerate(record.launches)
        for sample in launch.runs
    ]
    run.screen.table(("run", "tokens>", "tok/s>", "TTFT>", "TPOT>", ""), rows)
    for name, metric in record.metrics.items():
        if name.startswith("batch"):
            continue  # told a line a size below
        say(f"{name}: {figure(metric.value, metric.unit)}")
    if record.verdict:
        say(_verdict(record.verdict.verdict), f"  {record.verdict.line}")
    for text in record.contaminated:
        say(("contaminated: ", "yellow"), text)
    for text in meanwhile.disturbed(record):
        say(("disturbed: ", "yellow"), text)
    if told := meanwhile.shown(record):
        say(("meanwhile: ", "bold"), told)
    for line in _probed(record):
        say(line)
    for name, text in in_force(record):
        say((f"{name}: ", "bold"), text)
    return EXIT_DONE


@command(*VERBS["compare"].flags, JSON)
def compare(run: Run) -> int:
    """Two runs side by side, B judged against A, with what else differs between them."""
    outcome = judge.compare_runs(run.project, run.args["a"], run.args["b"])
    run.document["comparison"] = outcome.data
    run.screen.table(("", "A>", "B>", "change>"), outcome.data["rows"])
    for text, style in outcome.lines:
        run.screen.say((text, style))
    run.screen.say(_verdict(outcome.data["verdict"]), f"  {outcome.data['line']}")
    return outcome.exit_code


def _check_known(run: Run, flag: str, rows: Sequence[Summary]) -> None:
    """A name that no run has is a mistake, where there are runs; one of the project has none yet.

    Raises:
        InputError: With the nearest name.
    """
    name = run.args[flag]
    known = {getattr(row, flag) for row in rows} - {""}
    if not name or not rows or name in known:
        return
    more = run.project.library.names() if flag == "profile" else [h.name for h in run.project.hosts([])]
    if name not in more:
        hint = nearest(name, known | set(more))
        raise InputError(f"no run is of {flag} {name!r}", where=f"--{flag}", next_step=hint)


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
    from stoker.tasks.run import told

    if result.data is None:
        return [(result.host, "-", "-", "-", (result.status, "bold red"), "-", told(result))]
    done = [outcome for outcome in result.data if not outcome.skipped]
    found = [row for outcome in done for row in outcome.data.get("rows", [outcome.data])]
    return [
        (
            result.host,
            row["profile"] or "(by hand)",
            (f"{row['latency_us']:.1f} µs" if "latency_us" in row else _speed(row["tok_s"]))
            + (" sim" if row["simulated"] else ""),
            _ms(row["metrics"].get("ttft_s", {}).get("value")),
            _verdict(row["verdict"]),
            percent(row["change"]),
            row["line"].split(";")[0],
        )
        for row in found
    ]


def _verdict(name: str | None) -> tuple[str, str]:
    from stoker.screen import VERDICT_STYLE

    return name or "-", VERDICT_STYLE.get(name or "", "dim")


def _speed(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _probed(record: Record) -> list[tuple[str, str]]:
    """What a record of all-reduces tells besides its figures; nothing of any other."""
    if record.bench.name != "allreduce":
        return []
    from stoker.fleet.probelines import lines

    return lines(record, {}, {})


def _pace(value: float | None, bench: str) -> str:
    """Tokens a second; of all-reduces, which are counted a second too, the time of one."""
    return f"{1e6 / value:.1f} µs" if value and bench.startswith("allreduce") else _speed(value)


def _ms(value: float | None) -> str:
    from stoker.results.figures import figure

    return figure(value, "s")


def _when(created: float) -> str:
    """Local time, to the minute."""
    return datetime.datetime.fromtimestamp(created).astimezone().strftime("%Y-%m-%d %H:%M")


COMMANDS = (bench, bench_all, fetch, results, show, compare, baseline, explain)
