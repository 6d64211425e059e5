"""Profiles side by side: how fast each is now, with its interval."""

from __future__ import annotations

from typing import Any

from stoker.results.history import Level, Series, SeriesKey
from stoker.results.report import figure, words
from stoker.results.report.gather import Material, groups
from stoker.results.report.model import Part, Plot, Row, Section, Table, row

_INTRO = (
    "The mean of up to 20 launches since each profile's last step, with the interval that holds the true mean"
    " in 19 of 20 cases. The unit of evidence is a launch; profiles whose intervals meet are not told apart."
)
_COLUMNS = ("measured", "profile", "tok/s>", "95 % interval>", "launches>", "against the fastest>")
_PLOTS = 12  # of one host

_Known = list[tuple[Series, Level]]


def section(material: Material) -> Section:
    """A part for each host, with a plot for each benchmark that several profiles were measured with."""
    hosts: dict[str, list[tuple[SeriesKey, _Known]]] = {}
    for key, several in groups(material.series):
        known = [(one, level) for one in several if (level := one.level) is not None]
        if len(known) > 1:
            fastest_first = sorted(known, key=lambda pair: -pair[1].tok_s)
            hosts.setdefault(key.host, []).append((key, fastest_first))
    parts = tuple(_part(material, host, compared) for host, compared in hosts.items())
    return Section("profiles", "Profiles compared", _INTRO, parts)


def _part(material: Material, host: str, compared: list[tuple[SeriesKey, _Known]]) -> Part:
    drawn = sorted(compared, key=lambda pair: -sum(level.launches for _, level in pair[1]))[:_PLOTS]
    plots = tuple(Plot(words.subject(key), _figure(material, known)) for key, known in drawn)
    rows = tuple(_row(key, *pair, known[0][1].tok_s) for key, known in compared for pair in known)
    left = len(compared) - len(drawn)
    note = f"{words.count(left, 'more benchmark')} in the table alone." if left else ""
    return Part(host, host, plots=plots, tables=(Table(_COLUMNS, rows, "As a table", note),))


def _row(key: SeriesKey, one: Series, level: Level, best: float) -> Row:
    return row(
        words.subject(key),
        words.profile(one.key.profile),
        words.bare(level.tok_s, key.measured),
        f"{words.pace(level.low, '')} – {words.pace(level.high, '')}",
        f"{level.launches}",
        words.percent(level.tok_s / best - 1),
    )


def _figure(material: Material, known: _Known) -> dict[str, Any]:
    traces = [_trace(one, level, material.profiles.index(one.key.profile)) for one, level in known]
    labels = [trace["y"][0] for trace in reversed(traces)]
    layout = figure.layout(
        figure.axis(words.unit(known[0][0].key.measured), rangemode="tozero"),
        {
            "type": "category",
            "categoryorder": "array",
            "categoryarray": labels,
            "range": [-0.6, len(labels) - 0.4],
        },
        showlegend=False,
    )
    layout["height"] = 104 + 34 * len(traces)
    return {"data": traces, "layout": layout}


def _trace(one: Series, level: Level, number: int) -> dict[str, Any]:
    up, down = level.high - level.tok_s, level.tok_s - level.low
    error = {
        "type": "data",
        "symmetric": False,
        "array": [figure.finite(up)],
        "arrayminus": [figure.finite(down)],
    }
    unit = words.unit(one.key.measured)
    between = f"{words.pace(level.low, '')} – {words.pace(level.high, unit)}"
    return {
        "type": "scatter",
        "mode": "markers",
        "meta": {"number": number},
        "x": [figure.finite(level.tok_s)],
        "y": [figure.label(words.profile(one.key.profile), 24)],
        "error_x": error | {"thickness": 2, "width": 5},
        "marker": {"size": 10},
        "customdata": [[between, words.count(level.launches, "launch", "launches")]],
        "hovertemplate": f"%{{x:.4~g}} {unit}<br>%{{customdata[0]}}<br>%{{customdata[1]}}<extra></extra>",
    }
