"""Commands that show what was measured."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from stoker.errors import EXIT_DONE, InputError, nearest
from stoker.fleet.flags import Flag
from stoker.results.records.shortest import ends
from stoker.tasks import selection
from stoker.tasks.command import JSON, command

if TYPE_CHECKING:
    from stoker.results.records.record import Record
    from stoker.tasks.run import Run

_MOST_SHOWN = 20  # of what is damaged: a list is to be seen above it


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
    chosen = selection.of(run)
    look = run.project.store.look(chosen.has, run.args["last"] or 20)
    found = look.found
    if not found:
        _check_known(run)
    run.document["results"] = [asdict(summary) for summary in found]
    run.document["damaged"] = [asdict(damaged) for damaged in look.damaged]
    names = ends(look.ids, (summary.run_id for summary in found))
    run.screen.table(
        ("run!", "when!", "host", "profile", "load", "tok/s>", "verdict!"),
        [
            (
                names[s.run_id],
                _day(s.created),
                s.host,
                s.profile or "(by hand)",
                s.size,
                pace(s.tok_s, s.bench) + (" sim" if s.simulated else ""),
                verdict(s.verdict),
            )
            for s in found
        ],
    )
    if not found:
        run.screen.say(
            "no such run" if look.ids else "no run has come back yet: inv bench --host NAME brings one"
        )
    for damaged in look.damaged[-_MOST_SHOWN:]:
        run.screen.say(("damaged ", "bold red"), f"{damaged.path}: {damaged.what}")
    if len(look.damaged) > _MOST_SHOWN:
        run.screen.say(("damaged ", "bold red"), f"and {len(look.damaged) - _MOST_SHOWN} older ones")
    return EXIT_DONE


@command(Flag("run_id", "The run: its id, or a unique end of it.", positional=True), JSON)
def show(run: Run) -> int:
    """One run, whole: what was measured, how, every sample, what was in force."""
    record = run.project.store.load(run.args["run_id"])
    run.document["run"] = record.to_json()
    _headed(run, record)
    run.screen.table(("run", "tokens>", "tok/s>", "TTFT>", "TPOT>", ""), list(_samples(record)))
    _figures(run, record)
    _around(run, record)
    return EXIT_DONE


def _headed(run: Run, record: Record) -> None:
    """What was measured, and when."""
    run.screen.say((record.run_id, "bold"), " (simulated)" if record.simulated else "")
    engine = f"{record.engine} {record.engine_version}".strip()
    run.screen.say(f"{record.profile or '(by hand)'} on {record.host}: {engine}, {record.model}")
    run.screen.say(f"{record.bench.title}, measured {_when(record.created)}")


def _samples(record: Record) -> Iterator[tuple[str | int, ...]]:
    """A row for each run of each launch."""
    for number, launch in enumerate(record.launches, 1):
        for sample in launch.runs:
            figures = (pace(sample.tok_s, record.bench.name), ms(sample.ttft_s), ms(sample.tpot_s))
            yield (f"{number}.{sample.index + 1}", sample.tokens, *figures, sample.why or "valid")


def _figures(run: Run, record: Record) -> None:
    """What it came to, and how that was judged."""
    from stoker.results.figures import figure

    for name, metric in record.metrics.items():
        if not name.startswith("batch"):  # which is told a line a size, further down
            run.screen.say(f"{name}: {figure(metric.value, metric.unit)}")
    if record.verdict:
        run.screen.say(verdict(record.verdict.verdict), f"  {record.verdict.line}")


def _around(run: Run, record: Record) -> None:
    """What else went on while it was measured, and what was in force."""
    from stoker.results import meanwhile
    from stoker.results.inforce import in_force

    say = run.screen.say
    for text in record.contaminated:
        say(("contaminated: ", "yellow"), text)
    said = record.verdict.line if record.verdict else ""
    for text in (text for text in meanwhile.disturbed(record) if text not in said):
        say(("disturbed: ", "yellow"), text)
    if told := meanwhile.shown(record):
        say(("meanwhile: ", "bold"), told)
    for line in _probed(record):
        say(line)
    for name, text in in_force(record):
        say((f"{name}: ", "bold"), text)


def _check_known(run: Run) -> None:
    """A name that no run has is a mistake, where there are runs; one of the project has none yet.

    Raises:
        InputError: With the nearest name.
    """
    rows = run.project.store.list()
    for flag in ("host", "profile"):
        name, known = run.args[flag], {getattr(row, flag) for row in rows} - {""}
        if not name or not rows or name in known:
            continue
        more = run.project.library.names() if flag == "profile" else [h.name for h in run.project.hosts([])]
        if name not in more:
            hint = nearest(name, known | set(more))
            raise InputError(f"no run is of {flag} {name!r}", where=f"--{flag}", next_step=hint)


def _probed(record: Record) -> list[tuple[str, str]]:
    """What a record of all-reduces tells besides its figures; nothing of any other."""
    if record.bench.name != "allreduce":
        return []
    from stoker.fleet.measuring.probelines import curve, lines

    return [*lines(record, {}, {}), *curve(record)]


def _when(created: float) -> str:
    """Local time, to the minute."""
    return datetime.datetime.fromtimestamp(created).astimezone().strftime("%Y-%m-%d %H:%M")


def _day(created: float) -> str:
    """Local time, as narrow as it can be: without the year where it is this one."""
    at = datetime.datetime.fromtimestamp(created).astimezone()
    this = datetime.datetime.now().astimezone().year
    return at.strftime("%m-%d %H:%M" if at.year == this else "%Y-%m-%d")


def verdict(name: str | None) -> tuple[str, str]:
    """A verdict and its style."""
    from stoker.screen import VERDICT_STYLE

    return name or "-", VERDICT_STYLE.get(name or "", "dim")


def speed(value: float | None) -> str:
    """Tokens a second."""
    return "-" if value is None else f"{value:.1f}"


def pace(value: float | None, bench: str) -> str:
    """Tokens a second; of all-reduces, which are counted a second too, the time of one."""
    return f"{1e6 / value:.1f} µs" if value and bench.startswith("allreduce") else speed(value)


def ms(value: float | None) -> str:
    """Seconds, as milliseconds."""
    from stoker.results.figures import figure

    return figure(value, "s")


COMMANDS = (results, show)
