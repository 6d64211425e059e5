"""Plots as plotly.js takes them. Colours are the page's: a trace's ``meta`` names its role or its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stoker.config.page import visible

HEIGHT = 340


def label(text: str, limit: int = 60) -> str:
    """Text for a label or a hover box, where plotly.js reads tags and entities: here none is either."""
    plain = visible(text)
    short = plain if len(plain) <= limit else plain[: limit - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def finite(value: float | None) -> float | None:
    """A number that JSON and a plot can take; None stands for a gap."""
    return value if value is not None and math.isfinite(value) else None


def layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The layout that all plots share.

    Args:
        x: Of the x axis.
        y: Of the y axis.
        more: What this plot has besides.
    """
    return {
        "height": HEIGHT,
        "margin": {"l": 56, "r": 16, "t": 30, "b": 40},
        "hovermode": "closest",
        "legend": {"orientation": "h", "yanchor": "top", "y": -0.16, "x": 0},
        "xaxis": {"automargin": True, **x},
        "yaxis": {"automargin": True, **y},
        **more,
    }


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title."""
    # Without superscripts, whose inline style the page's policy forbids.
    return {"title": {"text": title, "standoff": 8}, "exponentformat": "e", **more}


def around(values: Sequence[float]) -> list[float] | None:
    """A range for an axis: noise of a percent does not fill the plot, and nothing touches its edge."""
    if not values:
        return None
    low, high = min(values), max(values)
    span = max(high - low, 0.2 * high)
    middle = (low + high) / 2
    return [max(0.0, middle - 0.6 * span), middle + 0.6 * span]
