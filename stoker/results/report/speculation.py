"""Whether speculative decoding pays, as ``inv spec`` measured it: acceptance, break-even, speed-up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stoker.results.report import figure, words
from stoker.results.report.gather import Material
from stoker.results.report.model import Cell, Part, Plot, Row, Section, Table, row
from stoker.results.statistics.speculation import COSTS, PAYS, Weighed
from stoker.results.trials import Trial

_INTRO = (
    "The newest inv spec of each profile, against the same server without speculation at an equal batch. It"
    " pays where a step yields more tokens (the acceptance length) than it takes times as long (the"
    " break-even). Whether it does is a verdict over launches, like any other."
)
_COLUMNS = (
    *("batch>", "setting", "", "speed-up>", "tok/s without>", "with>"),
    *("a step yields>", "it pays from>", "accepted>", "step without, ms>", "with, ms>"),
)
_KINDS = {PAYS: "improved", COSTS: "regressed"}

Figure = Callable[[Weighed], float | None]


def section(material: Material) -> Section:
    """A part for each profile and host where it was weighed."""
    parts = tuple(_part(trial) for trial in material.trials)
    return Section("speculation", "Does speculative decoding pay?", _INTRO, parts)


def _part(trial: Trial) -> Part:
    lines = [Cell(f"{trial.what}{' · simulated' if trial.simulated else ''} · {words.moment(trial.at)}")]
    lines += [Cell(f"Batch {batch}: {told}") for batch, told in _gist(trial.rows)]
    plots = [_speedups(trial)]
    if any(row.break_even is not None for row in trial.rows):
        plots.insert(0, _lengths(trial))
    table = Table(_COLUMNS, tuple(_row(one, trial.host) for one in trial.rows))
    title = f"{words.profile(trial.profile)} on {trial.host}"
    return Part(title, trial.host, tuple(lines), tuple(plots), (table,))


def _gist(rows: Sequence[Weighed]) -> Iterator[tuple[int, str]]:
    """The best setting of each batch size."""
    for batch in sorted({one.batch for one in rows}):
        best = max((one for one in rows if one.batch == batch), key=lambda one: one.speedup)
        yield batch, f"{best.word} ({best.setting}, {best.speedup:.2f} × as fast; {best.line})."


def _lengths(trial: Trial) -> Plot:
    """What a step yields, and what it would have to yield."""
    traces = []
    for number, setting in enumerate(_settings(trial)):
        traces.append(_trace(trial, setting, number, "yields", "solid", _length))
        traces.append(_trace(trial, setting, number, "pays from", "dot", _break_even))
    note = "Where the solid line lies above the dotted one of its colour, speculation pays."
    return Plot(
        "Tokens a step: acceptance length and break-even", _figure(trial, traces, "tokens a step"), note
    )


def _speedups(trial: Trial) -> Plot:
    traces = [
        _trace(trial, setting, number, "", "solid", lambda one: one.speedup)
        for number, setting in enumerate(_settings(trial))
    ]
    batches = sorted({one.batch for one in trial.rows})
    even = {
        "type": "scatter",
        "mode": "lines",
        "name": "without speculation",
        "meta": {"role": "baseline"},
        "x": [batches[0], batches[-1]],
        "y": [1, 1],
        "hoverinfo": "skip",
        "line": {"dash": "dash", "width": 1.5},
    }
    return Plot("Speed-up", _figure(trial, [*traces, even], "times as fast"))


def _figure(trial: Trial, traces: Sequence[dict[str, Any]], unit: str) -> dict[str, Any]:
    batches = sorted({one.batch for one in trial.rows})
    x = figure.axis("batch", tickvals=batches, ticktext=[str(batch) for batch in batches])
    if batches[-1] >= 8 * batches[0]:
        x["type"] = "log"
    return {"data": list(traces), "layout": figure.layout(x, figure.axis(unit, rangemode="tozero"))}


def _trace(trial: Trial, setting: str, number: int, what: str, dash: str, value: Figure) -> dict[str, Any]:
    points = [(one.batch, value(one)) for one in trial.rows if one.setting == setting]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": figure.label(f"{setting}: {what}" if what else setting, 40),
        "meta": {"number": number},
        "x": [batch for batch, _ in points],
        "y": [figure.finite(found) for _, found in points],
        "line": {"dash": dash},
        "hovertemplate": "batch %{x}: %{y:.3~f}<extra>%{fullData.name}</extra>",
    }


def _settings(trial: Trial) -> list[str]:
    return list(dict.fromkeys(one.setting for one in trial.rows))


def _length(one: Weighed) -> float | None:
    return one.acceptance.length


def _break_even(one: Weighed) -> float | None:
    return one.break_even


def _row(one: Weighed, host: str) -> Row:
    rate = one.acceptance.rate
    return row(
        f"{one.batch}",
        one.setting,
        Cell(one.word, _KINDS.get(one.word, "")),
        f"{one.speedup:.2f} ×",
        words.pace(one.plain_tok_s, ""),
        words.pace(one.tok_s, ""),
        _number(one.acceptance.length),
        _number(one.break_even),
        "–" if rate is None else f"{100 * rate:.0f} %",
        _number(1000 * one.plain_step_s),
        _number(None if one.step_s is None else 1000 * one.step_s),
        host=host,
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
