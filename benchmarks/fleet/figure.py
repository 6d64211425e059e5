"""The figures as a static SVG: for each work a bar a contender, how many times as long as Stoker it took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

_WIDTH = 860
_LEFT = 220
_RIGHT = 120
_BAR = 16
_STEP = 21
_HEAD = 34
_FIRST, _LAST = -1, 6  # powers of two between which the axis goes
_MINE, _THEIRS, _FLOOR = "#e4572e", "#7a8fa6", "#c9ced6"


def draw(rows: Sequence[Mapping[str, Any]]) -> str:
    """One picture.

    Args:
        rows: Each with ``title`` and ``lines`` (as :class:`benchmarks.fleet.measure.Line`).
    """
    parts: list[str] = []
    top = 52
    for row in rows:
        lines = sorted(row["lines"], key=lambda line: (line["name"] != "stoker", -line["by_wall"]))
        parts.append(_text(16, top + 14, row["title"], "title"))
        top += _HEAD - 8
        for line in lines:
            parts += _bar(line, top)
            top += _STEP
        top += 14
    axis = _axis(42, top)
    return _page(top + 8, [*axis, *parts])


def _bar(line: Mapping[str, Any], top: int) -> list[str]:
    """A contender: a bar from 1 (as fast as Stoker) to how many times as long it took."""
    mine, ratio = line["name"] == "stoker", line["by_wall"]
    colour = _MINE if mine else _FLOOR if line["name"].startswith("floor") else _THEIRS
    one, end = _x(1), _x(ratio)
    left, width = min(one, end), max(abs(end - one), 2)
    told = f"{line['wall_s']:.2f} s" + ("" if mine else f" · {ratio:.2f} ×")
    bar = f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="2" fill="{colour}"/>'
    if mine:
        bar = f'<circle cx="{one:.1f}" cy="{top + _BAR / 2}" r="5" fill="{colour}"/>'
    name = "Stoker" if mine else line["name"]
    return [
        _text(_LEFT - 10, top + 12, name, "name"),
        bar,
        _text(max(one, end) + 9, top + 12, told, "figure"),
    ]


def _axis(top: int, bottom: int) -> list[str]:
    found = []
    for power in range(_FIRST, _LAST + 1):
        x = _x(2**power)
        kind = "one" if power == 0 else "grid"
        found.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" class="{kind}"/>')
        found.append(_text(x, top - 6, f"{2**power:g} ×", "tick"))
    return found


def _x(ratio: float) -> float:
    """Where a ratio stands: the axis is logarithmic."""
    power = min(max(math.log2(ratio), _FIRST), _LAST)
    share = (power - _FIRST) / (_LAST - _FIRST)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(text)}</text>'


def _page(height: int, parts: Sequence[str]) -> str:
    style = (
        "text{font-family:ui-sans-serif,system-ui,sans-serif;font-size:12.5px;fill:#333}"
        ".title{font-weight:600;font-size:14px}.name{text-anchor:end}.figure{fill:#555}"
        ".tick{text-anchor:middle;fill:#888;font-size:11px}"
        ".grid{stroke:#e6e8eb}.one{stroke:#e4572e;stroke-opacity:.45}"
    )
    told = "How many times as long as Stoker each one takes (wall time of the whole process; log scale)"
    head = _text(16, 18, told, "figure")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{escape(told)}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{head}'
        + "".join(f"\n{part}" for part in parts)
        + "\n</svg>\n"
    )
