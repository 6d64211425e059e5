"""``inv results --history``: the same runs over time, a line a series, and what changed at each step."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from stoker.errors import EXIT_DONE
from stoker.tasks import selection

if TYPE_CHECKING:
    from stoker.results.explaining.explain import Explanation
    from stoker.results.history import Series, SeriesKey, Step
    from stoker.results.records.record import Record
    from stoker.tasks.run import Run

_COLUMNS = ("host", "profile", "launches>", "tok/s over time", "now>", "last step")
_BESIDE = 64  # columns that all but the trend take
_CAUSES = 6


def show(run: Run) -> int:
    """Print the history of the runs that are meant; the document has every point and step."""
    from stoker.results.history import series
    from stoker.results.report.words import count, natural, subject

    rows = selection.rows(run, selection.of(run))[: run.args["last"]]
    found = sorted(series(rows), key=lambda one: (natural(subject(one.key)), one.key))
    explained = {one.key: [_explained(run, step) for step in one.steps] for one in found}
    run.document["history"] = [_data(one, explained[one.key]) for one in found]
    width = max(8, min(32, run.screen.width - _BESIDE))
    shown = [one for one in found if len(one.runs) > 1] or found
    for title, several in groupby(shown, key=lambda one: subject(one.key)):
        run.screen.table(_COLUMNS, [_row(one, width) for one in several], title=title)
    for one in found:
        for step, explanation in zip(one.steps, explained[one.key], strict=True):
            _say(run, one.key, step, explanation)
    if once := len(found) - len(shown):
        run.screen.say((f"{count(once, 'server')} measured once: no history yet", "dim"))
    return EXIT_DONE


def _row(one: Series, width: int) -> tuple[Any, ...]:
    from stoker.results.report.words import bare, percent, profile
    from stoker.results.sparkline import sparkline

    level = one.level
    step = one.steps[-1] if one.steps else None
    last = f"{percent(step.change)} {_day(step)}" if step else "-"
    return (
        one.key.host,
        profile(one.key.profile),
        len(one.places),
        sparkline(one.values, width),
        bare(level.tok_s, one.key.measured) if level else "-",
        (last, _style(step) if step else "dim"),
    )


def _say(run: Run, key: SeriesKey, step: Step, explanation: Explanation | None) -> None:
    """One step: when, from what to what, and what changed there."""
    from stoker.results.report.words import pace, percent, profile, unit

    after = pace(step.after, unit(key.measured))
    paces = f"{pace(step.before, '')} → {after} ({percent(step.change)})"
    who = f"{key.host} {profile(key.profile)}"
    run.screen.say(("step ", _style(step)), (f"{_day(step)} {who}: ", "bold"), paces)
    run.screen.say(f"  between {step.last.run.run_id} and {step.first.run.run_id}")
    if explanation is not None:
        run.screen.say(("  changed there: ", "cyan"), explanation.headline)


def _style(step: Step) -> str:
    return "bold red" if step.change < 0 else "bold cyan"


def _explained(run: Run, step: Step) -> Explanation | None:
    """What differs between both sides of a step; None where a record has vanished meanwhile."""
    from stoker.results.explaining.explain import explain

    before, after = _load(run, step.last.run.run_id), _load(run, step.first.run.run_id)
    return explain(after, before) if before is not None and after is not None else None


def _load(run: Run, run_id: str) -> Record | None:
    from stoker.errors import InputError

    try:
        return run.project.store.load(run_id)
    except InputError:
        return None


def _data(one: Series, explained: list[Explanation | None]) -> dict[str, Any]:
    """A series as JSON types."""
    places = [{"run_id": place.run.run_id, **asdict(place.point)} for place in one.places]
    steps = [_step_data(step, found) for step, found in zip(one.steps, explained, strict=True)]
    level = asdict(one.level) if one.level else None
    return {**asdict(one.key), "level": level, "points": places, "steps": steps}


def _step_data(step: Step, explanation: Explanation | None) -> dict[str, Any]:
    return {
        "after": step.last.run.run_id,
        "from": step.first.run.run_id,
        "at": step.first.point.at,
        "before_tok_s": step.before,
        "after_tok_s": step.after,
        "change": step.change,
        "explanation": explanation.to_json() if explanation else None,
    }


def _day(step: Step) -> str:
    """In UTC, as the ids of the runs have it."""
    from stoker.results.report.words import moment

    return moment(step.first.point.at)[:10]
