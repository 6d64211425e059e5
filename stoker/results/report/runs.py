"""Runs over time: a plot a host and benchmark, a line a profile, with baselines, verdicts and steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from stoker.results.baselines.baseline import Baseline
from stoker.results.figures import percent
from stoker.results.history import Series, SeriesKey, Step
from stoker.results.records.summary import Summary
from stoker.results.report import figure, thin, words
from stoker.results.report.gather import Material, groups
from stoker.results.report.model import Cell, Part, Plot, Row, Section, Table, newest, row

_ROWS = 30
_ONCE = 200
_ROOMY = 150
_SYMBOLS = {
    "ok": "circle",
    "regressed": "triangle-down",
    "improved": "triangle-up",
    "unstable": "diamond",
    "inconclusive": "circle-open",
    "no-baseline": "circle-open",
    "": "circle-open",
}
_INTRO = (
    "A mark is a launch: ▼ regressed, ▲ improved, ● ok, ◆ unstable, ○ not decided, × disturbed. Dashed: the"
    " baseline; dotted: a step, where the speed changed for good. The axis does not begin at zero."
)
_COLUMNS = ("measured", "profile", "tok/s>", "against its baseline>", "verdict", "runs>", "id")


def section(material: Material) -> Section:
    """A part for each host and benchmark, with a plot where there is more than one launch to draw."""
    most = thin.most_marks(len(material.series))
    parts, once = [], []
    for key, several in groups(material.series):
        if any(len(one.runs) > 1 for one in several):
            parts.append(_part(material, key, several, most))
        else:
            once += several
    parts += [_once(once)] if once else []
    return Section("runs", "Runs over time", _INTRO, tuple(parts))


def _once(several: list[Series]) -> Part:
    """What is no history yet."""
    rows = [
        row(one.key.host, words.subject(one.key), *_row(one.latest).cells, host=one.key.host)
        for one in several
    ]
    kept, note = newest(rows, _ONCE, "servers")
    return Part("Measured once", tables=(Table(("host", "what", *_COLUMNS), kept, "Show them", note),))


def _part(material: Material, key: SeriesKey, several: list[Series], most: int) -> Part:
    base = next((material.baselines[one.key] for one in several if one.key in material.baselines), None)
    together = max(-(-len(one.places) // most) for one in several)
    lines = tuple(_step_line(one, step) for one in several for step in one.steps)
    note = f"A mark stands for up to {together} launches: their median, with the slowest and the fastest." * (
        together > 1
    )
    plots = (Plot(words.subject(key), _figure(material, several, base, most), note),)
    return Part(key.host, key.host, lines, plots, (_table(several),))


def _step_line(one: Series, step: Step) -> Cell:
    """``nccl-tuned: 89.0 → 63.2 tok/s (−29.0 %) between A and B``."""
    after = words.pace(step.after, words.unit(one.key.measured))
    paces = f"{words.pace(step.before, '')} → {after} ({words.percent(step.change)})"
    between = f"between {words.moment(step.last.point.at)} and {words.moment(step.first.point.at)}"
    kind = "regressed" if step.change < 0 else "improved"
    return Cell(f"Step of {words.profile(one.key.profile)}: {paces}, {between}.", kind)


def _figure(material: Material, several: list[Series], base: Baseline | None, most: int) -> dict[str, Any]:
    marked = [(one, thin.marks(one, most)) for one in several]
    traces = [_trace(one, material.profiles.index(one.key.profile), drawn) for one, drawn in marked if drawn]
    disturbed = _disturbed(several)
    traces += [disturbed] if disturbed["x"] else []
    values = [value for _, drawn in marked for mark in drawn for value in mark.range]
    values += [value for value in disturbed["y"] if value is not None]
    if base is not None:
        values.append(base.tok_s)
        traces += _baseline(base, [x for trace in traces for x in trace["x"]])
    return {
        "data": traces,
        "layout": figure.layout(
            {"type": "date"},
            figure.axis(words.unit(several[0].key.measured), range=figure.around(values)),
            shapes=[_line(step) for one in several for step in one.steps],
            annotations=[_flag(step) for one in several for step in one.steps],
        ),
    }


def _trace(one: Series, number: int, drawn: Sequence[thin.Mark]) -> dict[str, Any]:
    placed = [(mark, x) for mark in drawn if (x := words.iso(mark.place.point.at)) is not None]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": figure.label(words.profile(one.key.profile), 30),
        "meta": {"number": number},
        "x": [x for _, x in placed],
        "y": [figure.finite(mark.tok_s) for mark, _ in placed],
        "customdata": [_hover(mark) for mark, _ in placed],
        "hovertemplate": _template(one.key),
        "marker": {
            "symbol": [_SYMBOLS.get(mark.verdict, "circle-open") for mark, _ in placed],
            "size": _size(len(placed)),
        },
        "line": {"width": 1},
    }
    if any(len(mark.places) > 1 for mark, _ in placed):
        up = [mark.range[1] - mark.tok_s for mark, _ in placed]
        down = [mark.tok_s - mark.range[0] for mark, _ in placed]
        error = {"type": "data", "array": up, "arrayminus": down, "thickness": 1, "width": 0}
        trace["error_y"] = error | {"symmetric": False}
    return trace


def _template(key: SeriesKey) -> str:
    """What a mark says under the pointer."""
    return f"%{{customdata[0]}}<br>%{{y:.4~g}} {words.unit(key.measured)}%{{customdata[1]}}<extra></extra>"


def _size(marks: int) -> int:
    """Of each mark in pixels: so that many do not run into one band."""
    return 7 if marks <= _ROOMY else 4


def _hover(mark: thin.Mark) -> list[str]:
    run = mark.place.run
    if len(mark.places) > 1:
        slowest, fastest = mark.range
        between = f"{words.pace(slowest, '')} – {words.pace(fastest, words.unit(mark.place.run.bench))}"
        return [f"{len(mark.places)} launches around {words.moment(mark.place.point.at)}", f", {between}"]
    judged = f"<br>{run.verdict}" if run.verdict in _SYMBOLS and run.verdict else ""
    judged += f" {percent(run.change)}" if judged and run.change is not None else ""
    return [figure.label(run.run_id), judged]


def _disturbed(several: Sequence[Series]) -> dict[str, Any]:
    """The launches that do not count, the newest ones."""
    found = sorted(
        (x, one.key.profile, run.run_id, point.tok_s)
        for one in several
        for run in one.runs
        if run.contaminated
        for point in run.points
        if (x := words.iso(point.at)) is not None
    )[-thin.LEAST :]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "disturbed",
        "meta": {"role": "quiet"},
        "x": [x for x, *_ in found],
        "y": [figure.finite(tok_s) for *_, tok_s in found],
        "customdata": [
            [figure.label(run_id), f"<br>{figure.label(words.profile(name), 30)}, disturbed"]
            for _, name, run_id, _ in found
        ],
        "hovertemplate": _template(several[0].key),
        "marker": {"symbol": "x-thin-open", "size": 8},
    }


def _baseline(base: Baseline, moments: Sequence[str]) -> Iterator[dict[str, Any]]:
    if not moments:
        return
    yield {
        "type": "scatter",
        "mode": "lines",
        "name": f"baseline {words.pace(base.tok_s, '')}",
        "meta": {"role": "baseline"},
        "x": [min(moments), max(moments)],
        "y": [figure.finite(base.tok_s)] * 2,
        "hoverinfo": "skip",
        "line": {"dash": "dash", "width": 1.5},
    }


def _line(step: Step) -> dict[str, Any]:
    at = words.iso(step.first.point.at)
    role = "loss" if step.change < 0 else "gain"
    ends = {"x0": at, "x1": at, "y0": 0, "y1": 1, "xref": "x", "yref": "paper"}
    return {"type": "line", "name": role, **ends, "line": {"dash": "dot", "width": 1.5}}


def _flag(step: Step) -> dict[str, Any]:
    role = "loss" if step.change < 0 else "gain"
    place = {"x": words.iso(step.first.point.at), "y": 1, "xref": "x", "yref": "paper", "yanchor": "top"}
    return {"name": role, "text": words.percent(step.change), "showarrow": False, "xanchor": "left", **place}


def _table(several: Sequence[Series]) -> Table:
    runs = sorted((run for one in several for run in one.runs), key=lambda run: -run.created)
    rows, note = newest([_row(run) for run in runs[: _ROWS + 1]], _ROWS, "runs")
    note = note.replace(f"{_ROWS + 1:,}", f"{len(runs):,}")
    return Table(_COLUMNS, rows, f"The latest {words.count(len(rows), 'run')} as a table", note)


def _row(run: Summary) -> Row:
    runs = sum(point.runs for point in run.points)
    size = f"{len(run.points)} × {runs // len(run.points)}" if run.points else "none valid"
    verdict = (run.verdict or "not judged") + (", disturbed" if run.contaminated else "")
    return row(
        words.moment(run.created),
        words.profile(run.profile),
        words.bare(run.tok_s, run.bench),
        words.percent(run.change),
        Cell(verdict, run.verdict or "not-judged"),
        size,
        Cell(run.run_id, "id"),
    )
