"""Latency and throughput against load, where a server was measured under several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker.results.figures import figure as written
from stoker.results.records.metric import Metric
from stoker.results.report import figure, words
from stoker.results.report.gather import Material
from stoker.results.report.model import Cell, Part, Plot, Row, Section, Table, row

_INTRO = (
    "The newest run of each load; every other parameter of the benchmark is the same. Latencies as a client"
    " waits, throughput over all its requests."
)
_PLOTS = 12  # of one server
_LABELS = 8  # loads whose figures are written at the axis
_WORDS = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2e": "end-to-end latency"}
_UNITS = {"s": ("ms", 1000.0)}  # as they are drawn


@dataclass(frozen=True, order=True)
class _Group:
    """What one set of plots shows.

    Args:
        host: The inventory's name.
        load: The parameter on the x axis.
        what: What else was measured, for people.
    """

    host: str
    load: str
    what: str


@dataclass(frozen=True)
class _Curve:
    """One profile under several loads.

    Args:
        profile: Empty for servers that were started by hand.
        points: Load and what was measured under it, the lightest first.
    """

    profile: str
    points: tuple[tuple[float, Mapping[str, Metric]], ...]


def section(material: Material) -> Section:
    """A part for each host and benchmark with several loads."""
    found: dict[_Group, dict[str, dict[float, Mapping[str, Metric]]]] = {}
    for group, profile, load, metrics in _measured(material):
        found.setdefault(group, {}).setdefault(profile, {})[load] = metrics
    parts = []
    for group in sorted(found):
        several = sorted(found[group].items())
        curves = [_Curve(name, tuple(sorted(points.items(), key=_first))) for name, points in several]
        curves = [curve for curve in curves if len(curve.points) > 1]
        if curves:
            parts.append(_part(group, curves, material.profiles))
    return Section("load", "Latency against load", _INTRO, tuple(parts))


def is_load(name: str) -> bool:
    """Whether a benchmark's parameter says how much is asked of the server at once."""
    return name == "concurrency" or name.endswith("rate")


def title(name: str, unit: str) -> str:
    """A metric's name for people: ``ttft_p99_s`` is TTFT p99, ``output_tok_s`` output throughput."""
    dropped = {"s"} if unit == "s" else {"s", "tok"} if unit.endswith("/s") else set()
    parts = [_WORDS.get(word, word) for word in name.split("_") if word not in dropped]
    return " ".join([*parts, "throughput"] if unit.endswith("/s") else parts)


def _first(pair: tuple[float, object]) -> float:
    return pair[0]


def _measured(material: Material) -> Iterator[tuple[_Group, str, float, Mapping[str, Metric]]]:
    """The newest run of each series, once for each parameter that is a load; the newest series last."""
    for one in sorted(material.series, key=lambda one: one.latest.created):
        record = material.latest(one)
        if record is None or record.contaminated or not record.metrics:
            continue
        values = record.bench.to_wire()
        for name, value in values.items():
            if is_load(name) and isinstance(value, int | float) and value > 0:
                rest = ", ".join(f"{k} {values[k]}" for k in values if k not in ("name", "runs", name))
                simulated = " · simulated" if record.simulated else ""
                what = f"{record.bench.name}: {rest} · {record.engine} · {record.model}{simulated}"
                yield _Group(record.host, name, what), record.profile, float(value), record.metrics


def _part(group: _Group, curves: list[_Curve], profiles: tuple[str, ...]) -> Part:
    units: dict[str, str] = {}
    for curve in curves:
        for _, metrics in curve.points:
            units |= {name: metric.unit for name, metric in metrics.items()}
    shown = dict(list(units.items())[:_PLOTS])
    plots = tuple(_plot(name, unit, group.load, curves, profiles) for name, unit in shown.items())
    left = len(units) - len(shown)
    lines = (Cell(f"{words.count(left, 'more metric')} in the records: inv show RUN."),) if left else ()
    lines = (Cell(group.what), *lines)
    return Part(
        f"{group.host} against {group.load}", group.host, lines, plots, (_table(group, curves, shown),)
    )


def _plot(name: str, unit: str, load: str, curves: list[_Curve], profiles: tuple[str, ...]) -> Plot:
    shown, factor = _UNITS.get(unit, (unit, 1.0))
    traces = [_trace(curve, name, factor, profiles.index(curve.profile)) for curve in curves]
    loads = sorted({load for curve in curves for load, _ in curve.points})
    x = figure.axis(figure.label(load))
    if loads[-1] >= 8 * loads[0]:
        x["type"] = "log"
    if len(loads) <= _LABELS:
        x |= {"tickvals": loads, "ticktext": [f"{load:g}" for load in loads]}
    layout = figure.layout(x, figure.axis(figure.label(shown), rangemode="tozero"))
    return Plot(title(name, unit), {"data": traces, "layout": layout})


def _trace(curve: _Curve, name: str, factor: float, number: int) -> dict[str, Any]:
    points = [(load, metrics[name]) for load, metrics in curve.points if name in metrics]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": figure.label(words.profile(curve.profile), 30),
        "meta": {"number": number},
        "x": [figure.finite(load) for load, _ in points],
        "y": [figure.finite(metric.value * factor) for _, metric in points],
        "hovertemplate": "%{x:~g}: %{y:.4~g}<extra>%{fullData.name}</extra>",
    }


def _table(group: _Group, curves: list[_Curve], shown: Mapping[str, str]) -> Table:
    columns = ("profile", f"{group.load}>", *(f"{name}>" for name in shown))
    return Table(columns, tuple(_rows(curves, shown)), "As a table")


def _rows(curves: list[_Curve], shown: Mapping[str, str]) -> Iterator[Row]:
    for curve in curves:
        for load, metrics in curve.points:
            cells = [
                written(metric.value, metric.unit) if (metric := metrics.get(name)) else "–" for name in shown
            ]
            yield row(words.profile(curve.profile), f"{load:g}", *cells)
