"""Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stoker.lab.standins.web import Response


class Metric(NamedTuple):
    """One metric with its samples.

    Args:
        name: As exposed.
        kind: ``gauge`` or ``counter``.
        about: Its help.
        samples: Labels and value of each.
    """

    name: str
    kind: str
    about: str
    samples: tuple[tuple[Mapping[str, object], float], ...]


def page(metrics: Iterable[Metric]) -> Response:
    """The page of these metrics."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.about}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            shown = ",".join(f'{name}="{_escaped(str(text))}"' for name, text in labels.items())
            lines.append(f"{metric.name}{{{shown}}} {float(value)}")
    body = "\n".join(lines) + "\n"
    return Response(200, body.encode(), "text/plain; version=0.0.4; charset=utf-8")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
