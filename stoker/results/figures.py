"""Figures as people read them, with their unit; the same everywhere."""

from __future__ import annotations


def percent(change: float | None) -> str:
    """A relative change; what rounds to nothing has no sign."""
    if change is None:
        return "-"
    text = f"{100 * change:+.1f}"
    return f"{'0.0' if float(text) == 0 else text} %"


def figure(value: float | None, unit: str) -> str:
    """A measured value with its unit; durations in milliseconds."""
    if value is None:
        return "-"
    return f"{1000 * value:.1f} ms" if unit == "s" else f"{value:.4g} {unit}".rstrip()
