"""A figure with its unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A figure with its unit."""

    value: float
    unit: str
